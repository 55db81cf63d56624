from pathlib import Path
from typing import Any

import pytest

from federico.compare.run import Part, best_cells, first_cells
from federico.compare.studydir import StudyDir
from federico.errors import ConfigError, RunError
from federico.runs.layout import RunDir


def stamps(folder: StudyDir) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.path.glob("*/*/records.jsonl")}


def test_everything_is_run_once(played: Any) -> None:
    study, told = played.study, played.told
    names = [cell.name for cell in told.finished]
    assert len(names) == len(set(names))
    wanted = {
        cell.name
        for cell in [*first_cells(study, played.folder), *best_cells(study, played.folder)]
    }
    assert set(names) == wanted
    assert all(played.folder.cell(cell).finished for cell in told.expected)


def test_the_first_seed_of_everything_comes_first(played: Any) -> None:
    given = [cell.seed for cell in played.told.expected if cell.at == "given"]
    assert given == [0] * 6 + [1] * 6


def test_a_finished_study_is_read_not_run_again(play: Any, tiny: Any) -> None:
    study = tiny({"at": ["given"]}, methods=["federico", "local"])
    before = stamps(play(study).folder)
    again = play(study)
    assert again.told.finished == []
    assert stamps(again.folder) == before


def test_more_of_anything_runs_what_is_missing(play: Any, tiny: Any) -> None:
    play(tiny({"at": ["given"]}, methods=["local"], seeds=[0]))
    more = play(tiny({"at": ["given"]}, methods=["local", "fedavg"], seeds=[0, 1]))
    assert [(cell.method, cell.seed) for cell in more.told.finished] == [
        ("fedavg", 0), ("fedavg", 0), ("local", 1), ("fedavg", 1), ("local", 1), ("fedavg", 1),
    ]  # fmt: skip
    longer = play(tiny({"at": ["given"]}, methods=["local"], seeds=[0], rounds=4))
    assert longer.told.rounds == [2, 3, 4, 2, 3, 4], "they go on from their last round"


def test_a_part_can_be_run_now(play: Any, tiny: Any) -> None:
    found = play(tiny(), part=Part(rows=("local",), columns=("four",), at=("best",)))
    assert {(cell.row, cell.column) for cell in found.told.finished} == {("local", "four")}
    assert [cell.at for cell in found.told.finished] == ["tuning", "tuning", "best", "best"]
    assert [(entry.row, entry.column, entry.at) for entry in found.result.entries] == [
        ("local", "four", "best")
    ]
    assert found.result.unfinished == 2 * (2 * 2 * 3) - 2


@pytest.mark.parametrize(
    ("part", "said"),
    [
        (
            Part(rows=("nobody",)),
            "--row nobody: tiny has none of that name; it has federico, local, fedavg",
        ),
        (Part(columns=("five",)), "--column five: tiny has none of that name; it has two, four"),
        (Part(at=("worst",)), "--at worst: tiny has none of that name; it has given, best"),
    ],
)
def test_a_part_that_is_not_there_is_refused(play: Any, tiny: Any, part: Part, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        play(tiny(), part=part)


def test_what_does_not_fit_the_data_is_said_before_the_first_round(
    play: Any, tiny: Any, tmp_path: Path
) -> None:
    rows = [{"name": "fine"}, {"name": "too many", "set": {"federico.neighbors": 4}}]
    with pytest.raises(ConfigError, match=r"federico\.neighbors = 4"):
        play(tiny({"rows": rows, "paper": {}}))
    assert not list(tmp_path.rglob("records.jsonl"))


def test_a_second_queue_is_kept_out(play: Any, tiny: Any, tmp_path: Path) -> None:
    with (
        RunDir(tmp_path / "tiny").locked(),
        pytest.raises(RunError, match="another process is running"),
    ):
        play(tiny())
