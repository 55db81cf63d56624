import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from federico.errors import ConfigError
from federico.experiment.grid import Grid, load_grid, make_grid, scaled

pytestmark = pytest.mark.usefixtures("trusted")

Tiny = Callable[..., Grid]


def identities(grid: Grid, kind: Any = "given", rate: float | None = None) -> list[str]:
    return [
        cell.identity
        for row, column in grid.places()
        for cell in grid.cells(row, column, kind, rate)
    ]


def test_a_plain_experiment_file_is_a_grid_of_its_methods(tmp_path: Path) -> None:
    file = tmp_path / "plain.toml"
    file.write_text('methods = ["local", "fedavg"]\nseeds = [3, 4]\n')
    grid = load_grid(file)
    assert grid.name == grid.title == "plain"
    assert [row.name for row in grid.rows] == ["local", "fedavg"]
    cells = grid.cells(grid.rows[0], grid.columns[0], "given")
    assert [(cell.method, cell.seed, cell.title) for cell in cells] == [
        ("local", 3, "Local"),
        ("local", 4, "Local"),
    ]
    assert [grid.folder_name(cell) for cell in cells] == ["local-3", "local-4"]


def test_columns_and_rows_change_the_experiment_and_the_row_has_the_last_word(
    tiny_grid: Tiny,
) -> None:
    rows = [{"name": "a"}, {"name": "b", "set": {"partition.groups": 3, "federico.epsilon": 0.9}}]
    grid = tiny_grid({"rows": rows}, paper={})
    found = {
        (row.name, column.name): grid.cells(row, column, "given")[0].experiment
        for row, column in grid.places()
    }
    groups = {
        place: experiment.partition.model_dump()["groups"] for place, experiment in found.items()
    }
    assert groups == {("a", "two"): 2, ("b", "two"): 3, ("a", "four"): 4, ("b", "four"): 3}
    assert found["b", "two"].method_options("federico").model_dump()["epsilon"] == 0.9


def test_cells_are_the_same_if_they_would_compute_the_same_numbers(tiny_grid: Tiny) -> None:
    grid = tiny_grid()
    assert len(set(identities(grid))) == 2 * 2 * 3
    assert identities(tiny_grid(rounds=9)) == identities(grid)
    assert identities(tiny_grid(system={"threads": 2})) == identities(grid)
    assert not set(identities(grid)) & set(identities(tiny_grid(training={"batch_size": 7})))
    other = tiny_grid({"rows": [{"name": "renamed", "method": "federico"}]}, paper={})
    assert set(identities(other)) < set(identities(grid)), "what it is called does not matter"


def test_a_rate_that_is_the_given_one_is_the_same_cell(tiny_grid: Tiny) -> None:
    grid = tiny_grid()
    assert identities(grid, "best", 0.01) == identities(grid)
    assert not set(identities(grid, "best", 0.02)) & set(identities(grid))


def test_results_of_all_rates_and_seeds_share_their_settings(tiny_grid: Tiny) -> None:
    grid = tiny_grid()
    row, column = grid.places()[0]
    cells = [*grid.cells(row, column, "given"), *grid.cells(row, column, "best", 0.5)]
    assert len({cell.settings for cell in cells}) == 1
    assert len({cell.key for cell in cells}) == len(cells)
    tuning = {cell.settings for cell in grid.tuning_cells(row, column)}
    assert len(tuning) == 1
    assert tuning != {cells[0].settings}


def test_folders_have_a_hash_where_a_method_has_several_settings(tiny_grid: Tiny) -> None:
    grid = tiny_grid()
    names = {
        grid.folder_name(cell)
        for row, column in grid.places()
        for cell in grid.cells(row, column, "given")
    }
    assert len(names) == 2 * 2 * 3
    assert all(len(name.rpartition("-")[2]) == 8 for name in names)


def test_tuning_holds_out_training_data_and_is_scored_once(tiny_grid: Tiny) -> None:
    tuning = {"rates": [0.1, 0.2], "rounds": 7, "seeds": 2, "validation_fraction": 0.3}
    grid = tiny_grid({"tuning": tuning})
    cells = grid.tuning_cells(*grid.places()[0])
    assert [(cell.rate, cell.seed) for cell in cells] == [(0.1, 0), (0.1, 1), (0.2, 0), (0.2, 1)]
    for cell in cells:
        assert cell.experiment.split.validation_fraction == 0.3
        assert cell.rounds == cell.experiment.system.evaluate_every == 7
        assert cell.rate_kind == "tuning"


def test_a_rate_may_be_chosen_in_one_column_for_all(tiny_grid: Tiny) -> None:
    def tuned(grid: Grid) -> list[list[str]]:
        return [
            [cell.identity for cell in grid.tuning_cells(grid.rows[0], column)]
            for column in grid.columns
        ]

    two, four = tuned(tiny_grid({"tuning": {"rates": [0.1, 0.2], "column": "four"}}))
    assert two == four
    two, four = tuned(tiny_grid({"tuning": {"rates": [0.1, 0.2]}}))
    assert not set(two) & set(four)


@pytest.mark.parametrize(
    ("grid", "changes", "said"),
    [
        (
            {"columns": [{"nam": "x"}]},
            {},
            "grid.columns.0.nam: there is no such key (did you mean 'name'?)",
        ),
        (
            {"rows": [{"name": "x", "method": "fedavgg"}]},
            {},
            "grid.rows, 'x': method = 'fedavgg': there is no such method",
        ),
        (
            {"rows": [{"name": "x", "set": {"federico.epsilo": 1}}]},
            {},
            "row 'x', column 'two': federico.epsilo: there is",
        ),
        (
            {"rows": [{"name": "x", "set": {"split.samples.y": 1}}]},
            {},
            "row 'x', column 'two': 'samples' is a value, not a table",
        ),
        (
            {"rows": [{"name": "x", "set": {"rounds": 1}}]},
            {},
            "row 'x', column 'two': rounds is the same for all rows and columns",
        ),
        ({"rows": [{"name": "x"}, {"name": "x"}]}, {}, "two have the same name"),
        ({"columns": []}, {}, "grid.columns = []: needs at least one entry"),
        ({"rates": ["worst"]}, {}, "grid.rates.0 = 'worst': Input should be 'given' or 'best'"),
        (
            {"reference": "nobody"},
            {},
            "grid.reference = 'nobody': there is no such row: 'federico', 'local', 'fedavg'",
        ),
        (
            {"tuning": {"column": "ten"}},
            {},
            "grid.tuning.column = 'ten': there is no such column: 'two', 'four'",
        ),
        ({"tuning": {"rates": [-1]}}, {}, "grid.tuning.rates.0 = -1"),
        (
            {},
            {"paper": {"values": {"local": {"ten": [1, 2]}}}},
            "paper.values.local = 'ten': there is no such column",
        ),
        ({}, {"figure": {"draw": "pie"}}, "figure.draw = 'pie'"),
    ],
)
def test_what_is_wrong_is_said_before_anything_runs(
    tiny_grid: Tiny, grid: dict[str, Any], changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError) as error:
        tiny_grid(grid, **({"paper": {}} | changes))
    assert said in str(error.value)


def test_scale_takes_a_part_of_rounds_and_seeds(tiny_grid: Tiny) -> None:
    grid = tiny_grid({"tuning": {"rounds": 30}}, rounds=100, seeds=[5, 6, 7, 8])
    smaller = scaled(grid, 0.3)
    assert smaller.options.tuning.rounds == 9
    assert "Run at --scale 0.3: 30 of 100 rounds" in smaller.experiment.paper.differs[-1]
    for row, column in smaller.places():  # one of the columns changes a setting, the other does not
        cells = smaller.cells(row, column, "given")
        assert [(cell.seed, cell.rounds) for cell in cells] == [(5, 30), (6, 30)]
    assert scaled(grid, 1.0) is grid


@pytest.mark.parametrize("scale", [0.0, -1.0, 1.5, float("nan")])
def test_a_scale_that_makes_no_sense_is_refused(tiny_grid: Tiny, scale: float) -> None:
    with pytest.raises(ConfigError, match="above 0 and at most 1"):
        scaled(tiny_grid(), scale)


def test_the_reference_is_local_training_unless_named(tiny_grid: Tiny) -> None:
    assert tiny_grid().reference == "local"
    assert tiny_grid({"reference": "fedavg"}).reference == "fedavg"
    assert tiny_grid(methods=["fedavg"], paper={}).reference is None


ROWS = [
    {"name": "default"},
    {"name": "literal", "set": {"federico.preset": "literal"}},
    {"name": "another model", "set": {"model.kind": "linear"}},
]


def test_what_is_written_down_describes_the_same_cells(tiny_grid: Tiny, tmp_path: Path) -> None:
    changes = {"federico": {"neighbors": 2}, "paper": {}}
    grid = tiny_grid({"rows": ROWS}, **changes, model={"kind": "linear"})
    file = tmp_path / "config.toml"
    file.write_text(grid.to_toml(), encoding="utf-8")
    again = load_grid(file)
    assert identities(again) == identities(grid)
    assert again.table() == grid.table()
    assert tomllib.loads(grid.to_toml())["training"]["local_epochs"] == 1, (
        "defaults are spelled out"
    )


OWN_METHOD = """
from federico.methods.local import Local


class Mine(Local):
    name = "mine"
    title = "My method"
    summary = "Local training under another name."
"""


def test_ones_own_method_may_stand_in_a_row(tmp_path: Path, tiny_grid: Tiny) -> None:
    (tmp_path / "mine.py").write_text(OWN_METHOD)
    rows = [{"name": "mine", "method": "mine"}, {"name": "other", "method": "local"}]
    grid = tiny_grid({"rows": rows}, methods=[f"{tmp_path}/mine.py:Mine"], paper={})
    cell = grid.cells(grid.rows[0], grid.columns[1], "given")[0]
    assert cell.title == "My method"
    assert cell.experiment.method("mine").title == "My method"
    again = make_grid(tomllib.loads(grid.to_toml()), "again")
    assert identities(again) == identities(grid)
