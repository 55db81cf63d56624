from pathlib import Path

import pytest

from federico.errors import ConfigError
from federico.experiment.figure_check import check_figure
from federico.experiment.grid import load_grid
from federico.presets import PAPER, paper_names, preset

METHODS = {"federico", "local", "fedavg", "fedavg_plus", "clustered", "fedem", "fedfomo"}
OURS = {"ablation-digits", "ablation-office-home", "best-round", "clustered-digits", "rules"}
"""Studies of our own choices, about which the paper says nothing."""


def test_everything_the_paper_shows_can_be_asked_for() -> None:
    tables = {"table1-cifar10", "table1-cifar100", "table1-office-home", "table2"}
    figures = {f"figure{number}" for number in (1, 3, 4, 5, 6, 7)}
    assert set(paper_names()) == tables | figures | OURS


@pytest.mark.parametrize("name", paper_names())
def test_a_preset_is_valid_and_named_after_its_file(name: str) -> None:
    grid = load_grid(preset(name))
    assert grid.name == name
    assert grid.options.title
    finding = grid.experiment.paper.finding
    assert finding or name in OURS


@pytest.mark.parametrize("name", [name for name in paper_names() if name.startswith("table")])
def test_tables_have_every_method_and_the_papers_figure_for_each_row(name: str) -> None:
    grid = load_grid(preset(name))
    assert {row.method for row in grid.rows} == METHODS
    columns = {column.name for column in grid.columns}
    values = grid.experiment.paper.values
    rows = {row.name for row in grid.rows}
    assert {row: set(found) for row, found in values.items()} == dict.fromkeys(rows, columns)
    for row in grid.rows:
        # The paper's FedeRiCo stands beside both of our rules.
        assert values[row.name] == values[row.method]
    best = max(values, key=lambda row: min(value for value, _ in values[row].values()))
    assert best == "federico"
    assert grid.experiment.training.optimizer.learning_rate == 0.01
    assert grid.options.rates == ("given", "best")
    assert grid.reference == "local"


@pytest.mark.parametrize("name", [name for name in paper_names() if name.startswith("ablation")])
def test_ablations_run_five_seeds_and_compare_with_the_default(name: str) -> None:
    grid = load_grid(preset(name))
    assert len(grid.experiment.seeds) >= 5
    assert grid.reference == grid.rows[0].name == "default"
    assert grid.rows[0].set == {}


@pytest.mark.parametrize("name", ["figure1", "figure3", "figure4", "figure6"])
def test_figures_of_presets_can_be_drawn(name: str) -> None:
    check_figure(load_grid(preset(name)))


def test_what_is_not_there_is_refused_with_what_is() -> None:
    with pytest.raises(
        ConfigError,
        match=r"table9: there is nothing of that name to reproduce; there is digits",
    ):
        preset("table9")


def test_people_find_the_presets_beside_the_experiments() -> None:
    link = Path(__file__).parents[2] / "experiments" / "paper"
    assert link.resolve() == PAPER.resolve()
