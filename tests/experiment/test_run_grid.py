"""Grids of the real thing, small enough to be over in a few seconds."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from federico.errors import ConfigError, DataError, RunError
from federico.experiment.grid import Grid, load_grid
from federico.experiment.runner import (
    KnownResults,
    Selection,
    best_cells,
    first_cells,
    run_grid,
)
from federico.experiment.tuning import best_rate, final_figure
from federico.runs.layout import RunDir
from federico.runs.results import CellResult, read_results
from federico.runs.table import read_table
from tests.support.experiments import Told, make_tiny_grid

pytestmark = pytest.mark.usefixtures("trusted")

Tiny = Callable[..., Grid]
GIVEN = {"rates": ["given"]}


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Grid, RunDir, Told]:
    """A finished grid to look at; a test that writes makes its own."""
    told = Told()
    grid = make_tiny_grid()
    run = run_grid(grid, tmp_path_factory.mktemp("grids"), told, command="federico run tiny.toml")
    return grid, run, told


def lines(run: RunDir) -> list[CellResult]:
    return read_results(run.path)[0]


def test_everything_is_run_once_and_leaves_a_line(played: tuple[Grid, RunDir, Told]) -> None:
    grid, run, told = played
    assert len(told.finished) == len(set(told.finished))
    wanted = [*first_cells(grid, Selection(), run), *best_cells(grid, Selection(), run)]
    assert {line.key for line in lines(run)} == {cell.key for cell in wanted}
    assert len(wanted) == 2 * 12 + 12, "given, best, and two rates on one seed to choose from"
    assert all(line.rounds == (1 if line.rate_kind == "tuning" else 2) for line in lines(run))
    assert {line.provenance.command for line in lines(run)} == {"federico run tiny.toml"}


def test_the_first_seed_of_everything_comes_first_and_local_training_first_of_it(
    played: tuple[Grid, RunDir, Told],
) -> None:
    given = [line for line in played[2].results if line.rate_kind == "given"]
    assert [line.seed for line in given] == [0] * 6 + [1] * 6
    assert [line.method for line in given[:3]] == ["local", "federico", "fedavg"]


def test_the_table_says_what_the_results_are_for(played: tuple[Grid, RunDir, Told]) -> None:
    table = read_table(played[1].path)
    assert [row.title for row in table.rows] == ["FedeRiCo", "Local", "FedAvg"]
    assert table.columns == ("two", "four")
    assert (table.rates, table.reference, table.rounds) == (("given", "best"), "local", 2)
    assert table.paper.values["local"]["two"] == (40.09, 2.84)


def test_the_best_rate_is_the_one_that_scored_best_on_validation_data(
    played: tuple[Grid, RunDir, Told],
) -> None:
    grid, run, _ = played
    for row, column in grid.places():
        scores = {
            line.rate: final_figure(line) or 0.0
            for line in lines(run)
            if (line.row, line.column, line.rate_kind) == (row.name, column.name, "tuning")
        }
        assert len(scores) == 2
        assert best_rate(grid, row, column, lines(run)) == max(scores, key=lambda r: scores[r])


def test_no_rate_is_best_before_all_were_tried(
    played: tuple[Grid, RunDir, Told], tiny_grid: Tiny
) -> None:
    more = tiny_grid({"tuning": {"rates": [0.01, 0.1, 0.5], "rounds": 1}})
    assert best_rate(more, *more.places()[0], lines(played[1])) is None
    longer = tiny_grid({"tuning": {"rates": [0.01, 0.1], "rounds": 2}})
    assert best_rate(longer, *longer.places()[0], lines(played[1])) is None


def test_validation_samples_are_training_samples_of_the_real_run(
    played: tuple[Grid, RunDir, Told],
) -> None:
    first = [line for line in lines(played[1]) if (line.column, line.seed) == ("two", 0)]
    by_kind = {line.rate_kind: line for line in first}
    both = np.add(by_kind["tuning"].train_samples, by_kind["tuning"].test_samples).tolist()
    assert both == by_kind["given"].train_samples


def test_tuning_runs_keep_no_models(played: tuple[Grid, RunDir, Told]) -> None:
    tuned = [cell for cell in played[1].cells() if cell.description.rate_kind == "tuning"]
    assert tuned
    for cell in tuned:
        assert (cell.path / "records.jsonl").exists()
        assert not (cell.path / "checkpoint").exists()
        assert not (cell.path / "clients").exists()


def test_a_finished_grid_is_not_run_again(tiny_grid: Tiny, tmp_path: Path) -> None:
    grid = tiny_grid(GIVEN, methods=["local"])
    before = lines(run_grid(grid, tmp_path, Told()))
    told = Told()
    run = run_grid(grid, tmp_path, told)
    assert told.finished == []
    assert lines(run) == before


def test_more_of_anything_runs_what_is_missing(tiny_grid: Tiny, tmp_path: Path) -> None:
    run_grid(tiny_grid(GIVEN, methods=["local"], seeds=[0], paper={}), tmp_path, Told())
    more = Told()
    run_grid(tiny_grid(GIVEN, methods=["local", "fedavg"], paper={}), tmp_path, more)
    assert [(line.method, line.seed) for line in more.results] == [
        ("fedavg", 0), ("fedavg", 0), ("local", 1), ("fedavg", 1), ("local", 1), ("fedavg", 1),
    ]  # fmt: skip
    longer = Told()
    run_grid(tiny_grid(GIVEN, methods=["local"], rounds=4, paper={}), tmp_path, longer)
    assert longer.rounds == [3, 4] * 4, "they resume after their last round"


def test_a_cell_in_two_rows_is_run_once_and_leaves_a_line_for_each(
    tiny_grid: Tiny, tmp_path: Path
) -> None:
    rows = [{"name": "a", "set": {"federico.epsilon": 0.3}}, {"name": "b"}]
    told = Told()
    run = run_grid(tiny_grid(GIVEN | {"rows": rows}, seeds=[0], paper={}), tmp_path, told)
    assert len(told.finished) == 2, "one for each column"
    assert [(line.row, line.column) for line in lines(run)] == [
        ("a", "two"), ("b", "two"), ("a", "four"), ("b", "four"),
    ]  # fmt: skip


def test_cells_are_found_after_the_file_has_got_more_columns(
    tiny_grid: Tiny, tmp_path: Path
) -> None:
    plain = tiny_grid({"rates": ["given"], "columns": [{"name": "two"}]}, methods=["local"])
    run = run_grid(plain, tmp_path, Told())
    assert (run.path / "local-0").is_dir()
    told = Told()
    run_grid(tiny_grid(GIVEN, methods=["local"], rounds=3, paper={}), tmp_path, told)
    assert told.rounds_before == [2, 0, 2, 0], "the first column resumes in its old folder"


def test_a_row_with_other_settings_than_before_is_refused(tiny_grid: Tiny, tmp_path: Path) -> None:
    rows = [{"name": "a", "set": {"federico.epsilon": 0.1}}]
    run = run_grid(tiny_grid(GIVEN | {"rows": rows}, seeds=[0], paper={}), tmp_path, Told())
    before = lines(run)
    rows = [{"name": "a", "set": {"federico.epsilon": 0.2}}, {"name": "b"}]
    with pytest.raises(RunError, match=r"\(federico\.epsilon was 0\.1, now 0\.2\)"):
        run_grid(tiny_grid(GIVEN | {"rows": rows}, seeds=[0], paper={}), tmp_path, Told())
    assert lines(run) == before


def test_a_part_can_be_run_now(tiny_grid: Tiny, tmp_path: Path) -> None:
    told = Told()
    part = Selection(rows=("local",), columns=("four",), rates=("best",))
    run_grid(tiny_grid(), tmp_path, told, selection=part)
    assert {(line.row, line.column) for line in told.results} == {("local", "four")}
    assert [line.rate_kind for line in told.results] == ["tuning", "tuning", "best", "best"]


@pytest.mark.parametrize(
    ("part", "said"),
    [
        (
            Selection(rows=("nobody",)),
            "--row nobody: tiny has none of that name; it has federico, local, fedavg",
        ),
        (
            Selection(columns=("five",)),
            "--column five: tiny has none of that name; it has two, four",
        ),
        (
            Selection(rates=("worst",)),
            "--rate worst: tiny has none of that name; it has given, best",
        ),
    ],
)
def test_a_part_that_is_not_there_is_refused(
    tiny_grid: Tiny, tmp_path: Path, part: Selection, said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        run_grid(tiny_grid(), tmp_path, Told(), selection=part)


def test_rates_that_were_tuned_elsewhere_are_not_tuned_again(
    played: tuple[Grid, RunDir, Told], tiny_grid: Tiny, tmp_path: Path
) -> None:
    grid, run, _ = played
    told = Told()
    other_seeds = tiny_grid({"rates": ["best"]}, methods=["local"], seeds=[7], paper={})
    run_grid(other_seeds, tmp_path, told, known=KnownResults(lines(run)))
    assert [line.rate_kind for line in told.results] == ["best", "best"]
    chosen = [best_rate(grid, grid.rows[1], column, lines(run)) for column in grid.columns]
    assert [line.rate for line in told.results] == chosen


CNN: dict[str, Any] = {"model": {"kind": "import", "path": "nets.py:Norm"}}
NORM = """
from torch import nn


class Norm(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(64, 4), nn.BatchNorm1d(4), nn.Linear(4, 10))
"""


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"federico.neighbors": 4}, r"row 'wrong', column 'two', seed 0: federico\.neighbors = 4"),
        ({"training.batch_size": 28}, r"row 'wrong', .*training\.batch_size = 28: leaves client"),
        ({"split.max_train": 1}, "row 'wrong', column 'two', tuning, seed 0: .*validation"),
        ({"data": {"kind": "npz", "path": "gone.npz"}}, r"row 'wrong', column 'two'.*gone\.npz"),
    ],
    ids=["options", "batches", "hold-out", "data"],
)
def test_every_row_is_checked_before_the_first_round(
    tiny_grid: Tiny,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    wrong: dict[str, Any],
    said: str,
) -> None:
    """Once only the first row of each problem was, and these faults surfaced after hours."""
    monkeypatch.chdir(tmp_path)
    Path("nets.py").write_text(NORM)
    changes: dict[str, Any] = {} if "split.max_train" in wrong else CNN
    rows = [{"name": "fine", "method": "local"}, {"name": "wrong", "set": wrong}]
    grid = tiny_grid({"rows": rows, "reference": None}, paper={}, **changes)
    with pytest.raises((ConfigError, DataError), match=said):
        run_grid(grid, tmp_path / "runs", Told())
    assert not (tmp_path / "runs").exists()


def test_every_seed_is_checked_before_the_first_round(
    tiny_grid: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seeds share the data out differently: a batch of one sample may come with the second."""
    monkeypatch.chdir(tmp_path)
    Path("nets.py").write_text(NORM)
    first = {"partition": {"kind": "dirichlet", "clients": 4, "alpha": 0.5}}
    sizes = {}
    for seed in (0, 1):
        told = Told()
        plain = tiny_grid(
            {"rates": ["given"], "columns": [{}]},
            methods=["local"],
            seeds=[seed],
            paper={},
            **first,
        )
        run_grid(plain, tmp_path / str(seed), told)
        sizes[seed] = told.results[0].train_samples
    batch = next(
        size
        for size in range(2, 60)
        if all(n % size != 1 for n in sizes[0]) and any(n % size == 1 for n in sizes[1])
    )
    grid = tiny_grid(
        {"rates": ["given"], "columns": [{}]},
        methods=["local"],
        training={"batch_size": batch},
        paper={},
        **first,
        **CNN,
    )
    with pytest.raises(ConfigError, match=f"batch_size = {batch}: leaves client"):
        run_grid(grid, tmp_path / "runs", Told())
    assert not (tmp_path / "runs").exists()


def test_a_second_process_is_kept_out(tiny_grid: Tiny, tmp_path: Path) -> None:
    with (
        RunDir(tmp_path / "tiny").locked(),
        pytest.raises(RunError, match="another process is running"),
    ):
        run_grid(tiny_grid(), tmp_path, Told())


def test_lost_results_are_read_from_the_cells_again(tiny_grid: Tiny, tmp_path: Path) -> None:
    grid = tiny_grid(GIVEN, methods=["local"], seeds=[0], paper={})
    run = run_grid(grid, tmp_path, Told())
    before = lines(run)
    (run.path / "results.jsonl").unlink()
    told = Told()
    run_grid(grid, tmp_path, told)
    assert told.rounds == [], "no round is played again"
    assert [line.figures for line in lines(run)] == [line.figures for line in before]


def test_a_run_of_three_clients_can_be_run_again_from_what_it_wrote_down(
    tiny_grid: Tiny, tmp_path: Path
) -> None:
    """`neighbors` was once written out, and then refused."""
    grid = tiny_grid(
        {"rates": ["given"], "columns": [{}]},
        partition={"kind": "iid", "clients": 3},
        federico={},
        seeds=[0],
        paper={},
    )
    run = run_grid(grid, tmp_path, Told())
    again = run_grid(load_grid(run.path / "config.toml"), tmp_path / "again", Told())
    for line, other in zip(lines(run), lines(again), strict=True):
        assert line.figures == other.figures
        assert line.settings == other.settings


def test_a_line_of_results_is_plain_json(played: tuple[Grid, RunDir, Told]) -> None:
    text = (played[1].path / "results.jsonl").read_text().splitlines()[0]
    assert json.loads(text)["row"] == "local"
