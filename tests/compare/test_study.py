from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from federico.compare.study import Study, load_study, parse_study, scaled
from federico.errors import ConfigError

Tiny = Callable[..., Study]


def names(study: Study, at: Any = "given", rate: float | None = None) -> list[str]:
    return [
        cell.name for row, column in study.pairs() for cell in study.cells(row, column, at, rate)
    ]


def test_a_plain_experiment_file_is_a_table_of_one_column(tmp_path: Path) -> None:
    file = tmp_path / "plain.toml"
    file.write_text('methods = ["local", "fedavg"]\nseeds = [3, 4]\n')
    study = load_study(file)
    assert study.name == study.title == "plain"
    assert [row.name for row in study.rows] == ["local", "fedavg"]
    assert [
        (cell.method, cell.seed)
        for cell in study.cells(study.rows[0], study.compare.columns[0], "given")
    ] == [
        ("local", 3),
        ("local", 4),
    ]


def test_columns_and_rows_change_the_experiment_and_the_row_has_the_last_word(tiny: Tiny) -> None:
    rows = [{"name": "a"}, {"name": "b", "set": {"partition.groups": 3, "federico.epsilon": 0.9}}]
    study = tiny({"rows": rows})
    found = {
        (row.name, column.name): study.cells(row, column, "given")[0].experiment
        for row, column in study.pairs()
    }
    groups = {
        place: experiment.partition.model_dump()["groups"] for place, experiment in found.items()
    }
    assert groups == {("a", "two"): 2, ("b", "two"): 3, ("a", "four"): 4, ("b", "four"): 3}
    assert found["b", "two"].federico.epsilon == 0.9


def test_a_cell_is_named_by_what_changes_its_numbers(tiny: Tiny) -> None:
    study = tiny()
    assert len(set(names(study))) == 2 * 2 * 3
    assert names(tiny(rounds=9)) == names(study)
    assert names(tiny(system={"threads": 2})) == names(study)
    assert not set(names(study)) & set(names(tiny(training={"batch_size": 7})))
    other = tiny({"rows": [{"name": "renamed", "method": "federico"}]})
    assert set(names(other)) < set(names(study)), "what it is called does not matter"


def test_a_rate_that_is_the_given_one_is_the_same_cell(tiny: Tiny) -> None:
    study = tiny()
    assert names(study, "best", 0.01) == names(study)
    assert not set(names(study, "best", 0.02)) & set(names(study))


def test_tuning_holds_out_training_data_and_is_scored_once(tiny: Tiny) -> None:
    study = tiny(
        {"tuning": {"rates": [0.1, 0.2], "rounds": 7, "seeds": 2, "validation_fraction": 0.3}}
    )
    cells = study.tuning_cells(study.rows[0], study.compare.columns[0])
    assert [(cell.rate, cell.seed) for cell in cells] == [(0.1, 0), (0.1, 1), (0.2, 0), (0.2, 1)]
    for cell in cells:
        assert cell.experiment.split.validation_fraction == 0.3
        assert cell.experiment.rounds == cell.experiment.system.evaluate_every == 7
        assert cell.at == "tuning"


def test_a_rate_may_be_chosen_in_one_column_for_all(tiny: Tiny) -> None:
    study = tiny({"tuning": {"rates": [0.1, 0.2], "column": "four"}})
    two, four = (
        [cell.name for cell in study.tuning_cells(study.rows[0], c)] for c in study.compare.columns
    )
    assert two == four
    own = tiny({"tuning": {"rates": [0.1, 0.2]}})
    two, four = (
        [cell.name for cell in own.tuning_cells(own.rows[0], c)] for c in own.compare.columns
    )
    assert not set(two) & set(four)


@pytest.mark.parametrize(
    ("compare", "said"),
    [
        (
            {"columns": [{"nam": "x"}]},
            "compare.columns.0.nam: there is no such key (did you mean 'name'?)",
        ),
        (
            {"rows": [{"name": "x", "method": "fedavgg"}]},
            "compare.rows.0.method = 'fedavgg': not a method",
        ),
        (
            {"rows": [{"name": "x", "set": {"federico.epsilo": 1}}]},
            "row 'x', column 'two': federico.epsilo: there is",
        ),
        (
            {"rows": [{"name": "x", "set": {"rounds.y": 1}}]},
            "row 'x', column 'two': 'rounds' is a value, not a table",
        ),
        ({"rows": [{"name": "x"}, {"name": "x"}]}, "two have the same name"),
        ({"at": ["worst"]}, "compare.at.0 = 'worst': Input should be 'given' or 'best'"),
        (
            {"reference": "nobody"},
            "compare.reference = 'nobody': there is no such row: 'fedavg', 'federico', 'local'",
        ),
        (
            {"tuning": {"column": "ten"}},
            "compare.tuning.column = 'ten': there is no such column: 'four', 'two'",
        ),
        (
            {"paper": {"values": {"local": {"ten": [1, 2]}}}},
            "compare.paper.values.local.ten: there is no such column",
        ),
        ({"figure": {"draw": "pie"}}, "compare.figure.draw = 'pie'"),
    ],
)
def test_what_is_wrong_is_said_before_anything_runs(
    tiny: Tiny, compare: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError) as error:
        tiny(compare)
    assert said in str(error.value)


def test_every_tuning_cell_is_tried_too() -> None:
    with pytest.raises(ConfigError, match=r"compare.tuning.rates.0 = -1"):
        parse_study({"compare": {"tuning": {"rates": [-1]}}}, "x.toml")


def test_scale_takes_a_part_of_rounds_and_seeds(tiny: Tiny) -> None:
    study = scaled(tiny({"tuning": {"rounds": 30}}, rounds=100, seeds=[5, 6, 7, 8]), 0.3)
    assert study.file.rounds == 30
    assert study.file.seeds == (5, 6)
    assert study.compare.tuning.rounds == 9
    cells = study.cells(study.rows[0], study.compare.columns[0], "given")
    assert [(cell.seed, cell.experiment.rounds) for cell in cells] == [(5, 30), (6, 30)]
    assert scaled(tiny(), 1.0) == tiny()


@pytest.mark.parametrize("scale", [0.0, -1.0, 1.5, float("nan")])
def test_a_scale_that_makes_no_sense_is_refused(tiny: Tiny, scale: float) -> None:
    with pytest.raises(ConfigError, match="above 0 and at most 1"):
        scaled(tiny(), scale)


def test_the_reference_is_local_training_unless_named(tiny: Tiny) -> None:
    assert tiny().reference == "local"
    assert tiny({"reference": "fedavg"}).reference == "fedavg"
    assert tiny(methods=["fedavg"], compare={"paper": {}}).reference is None
