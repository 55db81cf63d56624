import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from federico.errors import DataError, RunError
from federico.experiment.grid import Grid
from federico.experiment.runner import run_grid
from federico.runs.layout import CellDir, RunDir
from federico.runs.records import Record
from federico.runs.results import read_results
from tests.support.experiments import Told

Tiny = Callable[..., Grid]
GIVEN = {"rates": ["given"]}


def test_two_workers_find_the_same_numbers_as_one(tiny_grid: Tiny, tmp_path: Path) -> None:
    grid = tiny_grid(GIVEN, methods=["federico", "local"])
    told = {1: Told(), 2: Told()}
    runs = {jobs: run_grid(grid, tmp_path / str(jobs), told[jobs], jobs=jobs) for jobs in (1, 2)}
    for one, two in zip(runs[1].cells(), runs[2].cells(), strict=True):
        assert one.path.name == two.path.name
        assert one.rounds_done == two.rounds_done == 2
        assert one.records == two.records
    assert sorted(told[1].finished) == sorted(told[2].finished)
    assert sorted(told[1].rounds) == sorted(told[2].rounds)
    keys = [{line.key for line in read_results(runs[jobs].path)[0]} for jobs in (1, 2)]
    assert keys[0] == keys[1]
    assert multiprocessing.active_children() == [], "no worker is left"


def test_an_error_in_a_worker_is_the_error_of_the_run(tiny_grid: Tiny, tmp_path: Path) -> None:
    """As if the files of a cell had been taken away after the check."""
    file = tmp_path / "gone.npz"
    columns = [{"name": "a"}, {"name": "b", "set": {"data": {"kind": "npz", "path": str(file)}}}]
    grid = tiny_grid(GIVEN | {"columns": columns}, methods=["local"], seeds=[0], paper={})

    class Thief(Told):
        def started(self, cells: object, finished: object) -> None:
            file.unlink()

    import numpy as np

    rng = np.random.default_rng(0)
    np.savez(file, x=rng.normal(size=(240, 5)), y=np.arange(240) % 10)
    with pytest.raises(DataError, match=r"gone\.npz"):
        run_grid(grid, tmp_path / "runs", Thief(), jobs=2)
    assert multiprocessing.active_children() == []


def test_a_worker_that_is_killed_is_reported_and_no_round_is_lost(
    tiny_grid: Tiny, tmp_path: Path
) -> None:
    shot: list[tuple[CellDir, int]] = []

    class Shooter(Told):
        def round_done(self, cell: CellDir, record: Record) -> None:
            if not shot and record.round > 1:
                shot.append((cell, record.round))
                pid = multiprocessing.active_children()[0].pid  # whichever of the two
                assert pid is not None
                os.kill(pid, signal.SIGKILL)

    grid = tiny_grid(GIVEN, methods=["local"], seeds=[0], rounds=2000, paper={})
    with pytest.raises(RunError, match=r"its process was ended \(exit code -9\).*fewer --jobs"):
        run_grid(grid, tmp_path, Shooter(), jobs=2)
    ((cell, round_index),) = shot
    assert len(CellDir(cell.path).records) >= round_index


def test_a_leftover_worker_is_waited_for(tiny_grid: Tiny, tmp_path: Path) -> None:
    """The worker of a run that was killed a moment ago may not have left its cell yet."""
    grid = tiny_grid({"rates": ["given"], "columns": [{}]}, methods=["local"], paper={})
    held = threading.Event()
    leaves = threading.Event()

    def hold() -> None:
        with CellDir(tmp_path / "tiny" / "local-0").locked():
            held.set()
            assert leaves.wait(60)

    class Impatient(Told):
        def started(self, cells: object, finished: object) -> None:
            threading.Timer(0.3, leaves.set).start()

    leftover = threading.Thread(target=hold)
    leftover.start()
    assert held.wait(60)
    run = run_grid(grid, tmp_path, Impatient())
    leftover.join()
    assert [cell.rounds_done for cell in run.cells()] == [2, 2]


def test_one_that_never_leaves_is_an_error(tmp_path: Path) -> None:
    cell = CellDir(tmp_path / "cell")
    with (
        cell.locked(),
        pytest.raises(RunError, match="another process"),
        CellDir(tmp_path / "cell").locked(patience=0.2),
    ):
        pass


def test_a_run_directory_keeps_a_second_process_out(tmp_path: Path) -> None:
    with (
        RunDir(tmp_path).locked(),
        pytest.raises(RunError, match="another process"),
        RunDir(tmp_path).locked(),
    ):
        pass
