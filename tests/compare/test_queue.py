import multiprocessing
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from federico.compare import queue
from federico.compare.queue import News
from federico.compare.run import first_cells
from federico.compare.studydir import StudyDir
from federico.errors import DataError, RunError
from federico.runs.layout import RunDir


def test_two_workers_find_the_same_numbers_as_one(tiny: Any, tmp_path: Path) -> None:
    cells = first_cells(tiny({"at": ["given"]}, methods=["federico", "local"]), StudyDir(tmp_path))
    heard: dict[int, list[News]] = {1: [], 2: []}
    for jobs in (1, 2):
        queue.play(cells, tmp_path / str(jobs), jobs, heard[jobs].append)
    for cell in cells:
        one, two = (
            RunDir(tmp_path / str(jobs) / cell.name).cell(cell.method, cell.seed) for jobs in (1, 2)
        )
        assert one.rounds_done == two.rounds_done == 2
        assert one.records == two.records
    assert sorted(news.cell.name for news in heard[2] if news.finished) == sorted(
        cell.name for cell in cells
    )
    assert sorted(news.round for news in heard[1]) == sorted(news.round for news in heard[2])
    assert multiprocessing.active_children() == [], "no worker is left"


def test_the_same_cell_in_two_places_is_run_once(tiny: Any, tmp_path: Path) -> None:
    rows = [{"name": "a", "set": {"federico.epsilon": 0.3}}, {"name": "b"}]
    cells = first_cells(
        tiny({"at": ["given"], "rows": rows, "paper": {}}, seeds=[0]), StudyDir(tmp_path)
    )
    heard: list[News] = []
    queue.play(cells, tmp_path, 1, heard.append)
    assert len(cells) == 4
    assert sum(news.finished for news in heard) == 2


@pytest.fixture
def one_bad(tiny: Any, tmp_path: Path) -> list[Any]:
    """Cells of which the last has no data, as if its files had been taken away after the check."""
    good = first_cells(tiny({"at": ["given"]}, methods=["local"], seeds=[0]), StudyDir(tmp_path))
    bad = first_cells(
        tiny(
            {"at": ["given"]},
            methods=["local"],
            seeds=[0],
            data={"kind": "office-home", "path": "no"},
        ),
        StudyDir(tmp_path),
    )
    return [good[0], bad[0]]


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_error_in_a_cell_is_the_error_of_the_queue(
    one_bad: list[Any], tmp_path: Path, jobs: int
) -> None:
    with pytest.raises(DataError, match="no"):
        queue.play(one_bad, tmp_path, jobs, lambda news: None)
    assert multiprocessing.active_children() == []


def test_a_worker_that_is_killed_is_reported_and_no_round_is_lost(
    tiny: Any, tmp_path: Path
) -> None:
    cells = first_cells(
        tiny({"at": ["given"]}, methods=["local"], seeds=[0], rounds=2000), StudyDir(tmp_path)
    )
    heard: list[News] = []

    def shoot(news: News) -> None:
        if not heard and news.round > 1:
            heard.append(news)
            pid = multiprocessing.active_children()[0].pid  # whichever of the two
            assert pid is not None
            os.kill(pid, signal.SIGKILL)

    with pytest.raises(RunError, match=r"its process was ended \(exit code -9\).*fewer --jobs"):
        queue.play(cells, tmp_path, 2, shoot)
    (news,) = heard
    assert len(StudyDir(tmp_path).cell(news.cell).records) >= news.round


def test_a_leftover_worker_is_waited_for(
    tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cell, *_) = first_cells(
        tiny({"at": ["given"]}, methods=["local"], seeds=[0]), StudyDir(tmp_path)
    )
    leaves = threading.Event()
    monkeypatch.setattr(queue.time, "sleep", lambda seconds: leaves.set())

    def hold() -> None:
        with RunDir(tmp_path / cell.name).locked():
            held.set()
            assert leaves.wait(60)

    held = threading.Event()
    leftover = threading.Thread(target=hold)
    leftover.start()
    assert held.wait(60)
    queue.play([cell], tmp_path, 1, lambda news: None)
    leftover.join()
    assert leaves.is_set(), "it was tried in vain at least once"
    assert StudyDir(tmp_path).cell(cell).finished


def test_one_that_never_leaves_is_an_error(
    tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cell, *_) = first_cells(
        tiny({"at": ["given"]}, methods=["local"], seeds=[0]), StudyDir(tmp_path)
    )
    monkeypatch.setattr(queue, "PATIENCE", 0.0)
    with RunDir(tmp_path / cell.name).locked(), pytest.raises(RunError, match="another process"):
        queue.play([cell], tmp_path, 1, lambda news: None)


def test_a_crew_shares_the_machine(
    tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, sharing = tiny(), []
    monkeypatch.setattr(
        queue, "simulate", lambda *args, team, **more: sharing.append(team.processes_here)
    )
    for crew in (1, 3):
        cell = study.cells(study.rows[0], study.compare.columns[0], "given")[0]
        queue._play_cell(cell, tmp_path, "", lambda news: None, crew)
    assert sharing == [1, 3]
