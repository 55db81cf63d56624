from pathlib import Path

import pytest

from federico.compare.presets import FOLDER, names, preset
from federico.compare.study import load_study
from federico.errors import ConfigError

METHODS = {"federico", "local", "fedavg", "fedavg_plus", "clustered", "fedem", "fedfomo"}


def test_everything_the_paper_shows_can_be_asked_for() -> None:
    tables = {"table1-cifar10", "table1-cifar100", "table1-office-home", "table2"}
    figures = {f"figure{number}" for number in (1, 3, 4, 5, 6, 7)}
    assert set(names()) == tables | figures | {
        "ablation-digits",
        "ablation-office-home",
        "clustered-digits",
    }


@pytest.mark.parametrize(
    ("name", "row", "run"),
    [
        ("table1-cifar10", "fedavg_plus", "fedavg_plus-0-7c2a6d3c8be1"),
        ("table1-cifar10", "clustered", "clustered-0-30aad0a0aa73"),
        ("table1-cifar10", "fedem", "fedem-0-7bac1b8dd0b6"),
        ("table1-cifar10", "fedfomo", "fedfomo-0-9421e81edc46"),
        ("table1-cifar10", "federico", "federico-0-3e52e9aa196c"),
        ("table1-cifar100", "local", "local-0-3791c66f3e28"),
        ("table1-office-home", "local", "local-0-6e3390bad2bb"),
        ("table2", "local", "local-0-c1b95c286e9d"),
        ("figure1", "local", "local-10-dd55f508d171"),
        ("ablation-digits", "local", "local-0-af6fe6904538"),
    ],
)
def test_runs_keep_their_names(name: str, row: str, run: str) -> None:
    study = load_study(preset(name))
    (found,) = (found for found in study.rows if found.name == row)
    assert study.cells(found, study.compare.columns[0], "given")[0].name == run, (
        "a default, an option or a preset has changed: runs that take days would be run again"
    )


@pytest.mark.parametrize("name", names())
def test_a_preset_is_valid_and_named_after_its_file(name: str) -> None:
    study = load_study(preset(name))
    assert study.name == name
    assert study.compare.title
    assert study.compare.paper.finding or name.endswith("digits") or name.startswith("ablation")


@pytest.mark.parametrize("name", [name for name in names() if name.startswith("table")])
def test_tables_have_every_method_and_the_papers_figure_for_each(name: str) -> None:
    study = load_study(preset(name))
    assert {row.method for row in study.rows} == METHODS
    columns = {column.name for column in study.compare.columns}
    assert {
        row: set(values) for row, values in study.compare.paper.values.items()
    } == dict.fromkeys(METHODS, columns)
    best = max(
        study.compare.paper.values,
        key=lambda row: min(value for value, _ in study.compare.paper.values[row].values()),
    )
    assert best == "federico"
    assert study.file.training.optimizer.learning_rate == 0.01
    assert study.compare.at == ("given", "best")
    assert study.reference == "local"


@pytest.mark.parametrize("name", [name for name in names() if name.startswith("ablation")])
def test_ablations_run_five_seeds_and_compare_with_the_default(name: str) -> None:
    study = load_study(preset(name))
    assert len(study.file.seeds) >= 5
    assert study.reference == study.rows[0].name == "default"
    assert study.rows[0].set == {}


def test_what_is_not_there_is_refused_with_what_is() -> None:
    with pytest.raises(
        ConfigError,
        match=r"table9: there is nothing of that name to reproduce; there is ablation-digits",
    ):
        preset("table9")


def test_people_find_the_presets_beside_the_experiments() -> None:
    link = Path(__file__).parents[2] / "experiments" / "paper"
    assert link.resolve() == FOLDER.resolve()
