from collections.abc import Callable
from pathlib import Path

import pytest

from federico.experiment.estimate import estimate
from federico.experiment.grid import Grid
from federico.experiment.runner import run_grid
from federico.experiment.selection import Selection
from tests.support.experiments import Told

Tiny = Callable[..., Grid]


def test_a_new_grid_is_estimated_from_miniatures_and_nothing_stays(
    tiny_grid: Tiny, tmp_path: Path
) -> None:
    tuning = {"tuning": {"rates": [0.01, 0.1], "rounds": 50}}
    grid = tiny_grid(tuning, methods=["federico", "local"], rounds=100)
    rows = estimate(grid, tmp_path)
    assert [(row.row, row.title) for row in rows] == [("federico", "FedeRiCo"), ("local", "Local")]
    assert [(row.runs, row.finished) for row in rows] == [(4 + 4 + 4, 0)] * 2
    assert all(row.seconds > 0 for row in rows)
    assert list(tmp_path.iterdir()) == []


def test_a_finished_grid_takes_no_time(tiny_grid: Tiny, tmp_path: Path) -> None:
    grid = tiny_grid(methods=["local"], paper={})
    run_grid(grid, tmp_path, Told())
    (row,) = estimate(grid, tmp_path)
    assert row.seconds == 0
    assert row.finished == row.runs


def test_rounds_left_are_counted_at_the_seconds_already_measured(
    tiny_grid: Tiny, tmp_path: Path
) -> None:
    given = {"rates": ["given"]}
    run = run_grid(tiny_grid(given, methods=["local"], paper={}), tmp_path, Told())
    longer = tiny_grid(given, rounds=10)
    (row,) = estimate(longer, tmp_path, Selection(rows=("local",)))
    first = next(cell for cell in run.cells() if cell.description.column == "two")
    assert (row.runs, row.finished) == (4, 0)
    assert row.seconds == pytest.approx(4 * (10 - 2) * sum(first.spent[1].seconds.values()))
