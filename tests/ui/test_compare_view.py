"""Runs are compared seed by seed where their seeds are the same problem, and not otherwise."""

from pathlib import Path
from typing import Any

import pytest

from federico.runs.table import write_table
from federico.ui.compare_view import compare_view
from tests.support.results import make_table
from tests.support.run_folders import learning, write_cell


def run_of(folder: Path, name: str, *accuracy: float, **changes: Any) -> Path:
    """A finished run with a seed for each of these accuracies."""
    run = folder / name
    run.mkdir()
    seeds = tuple(range(len(accuracy)))
    write_table(run, make_table("federico", rounds=2, seeds=seeds))
    for seed, value in enumerate(accuracy):
        write_cell(run, "federico", *learning(0.5, value), seed=seed, **changes)
    return run


def compared(folder: Path, **changes: Any) -> dict[str, Any]:
    one = run_of(folder, "one", 0.80, 0.82, 0.84)
    two = run_of(folder, "two", 0.90, 0.93, 0.93, **changes)
    _, line = compare_view({"one": one, "two": two})["lines"]
    return dict(line)


def test_seeds_are_compared_with_an_interval(tmp_path: Path) -> None:
    line = compared(tmp_path)

    assert line["difference"] == "+10.0"
    low, high = line["interval"].split(" to ")
    assert float(low) < 10 < float(high)
    assert line["note"] == "after round 2, 3 seeds, better in 3"


def test_runs_that_are_the_same_are_not_better_in_none(tmp_path: Path) -> None:
    one = run_of(tmp_path, "one", 0.80, 0.82)
    two = run_of(tmp_path, "two", 0.80, 0.82)

    _, line = compare_view({"one": one, "two": two})["lines"]

    assert (line["difference"], line["note"]) == ("0.0", "after round 2, the same in all 2 seeds")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [({"data_hash": "d1"}, "other data"), ({"partition_hash": "p1"}, "distributed in another way")],
)
def test_other_data_is_another_problem(
    tmp_path: Path, changes: dict[str, str], reason: str
) -> None:
    line = compared(tmp_path, **changes)

    assert (line["difference"], line["interval"]) == ("", "")
    assert reason in line["note"]
    assert line["value"] == "92.0 %"
