from pathlib import Path

import pytest

from federico.errors import RunError
from federico.runs.table import (
    FigureOptions,
    ReportedValues,
    StoredStudy,
    TableDescription,
    TableRow,
    merge_tables,
    read_table,
    write_table,
)

TABLE = TableDescription(
    name="mine",
    title="Mine",
    rows=(
        TableRow(name="federico", title="FedeRiCo", method="federico"),
        TableRow(name="alone", title="Alone", method="local", panel="baselines"),
    ),
    columns=("two", "four"),
    rates=("given", "best"),
    reference="alone",
    spread="clients",
    rounds=30,
    seeds=(0, 1),
    paper=ReportedValues(where="Table 1", rounds=150, values={"alone": {"two": (40.1, 2.8)}}),
    figure=FigureOptions(draw="variants", clients=(0, 1)),
)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    write_table(tmp_path, TABLE)

    assert read_table(tmp_path) == TABLE


def test_a_folder_without_a_table_is_no_run_directory(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="not a run directory"):
        read_table(tmp_path)


@pytest.mark.parametrize("text", ["{", '{"name": "mine"}', "[]"])
def test_a_damaged_table_is_refused_with_its_path(tmp_path: Path, text: str) -> None:
    (tmp_path / "table.json").write_text(text)

    with pytest.raises(RunError, match=r"table\.json: not a table of results"):
        read_table(tmp_path)


def test_seeds_are_united_and_rows_are_the_new_ones() -> None:
    new = TABLE.model_copy(update={"seeds": (3, 1), "rows": TABLE.rows[:1]})

    merged = merge_tables(TABLE, new)

    assert merged.seeds == (0, 1, 3)
    assert merged.rows == TABLE.rows[:1]


def test_a_shorter_run_does_not_change_what_is_said_of_longer_ones() -> None:
    shorter = TABLE.model_copy(
        update={"rounds": 5, "paper": ReportedValues(differs=("Run at --scale 0.1.",))}
    )

    assert merge_tables(TABLE, shorter).rounds == 30
    assert merge_tables(TABLE, shorter).paper == TABLE.paper
    assert merge_tables(shorter, TABLE).rounds == 30


def test_what_is_known_of_stored_means_stays() -> None:
    stored = StoredStudy(task="classification", clients=8, model_parameters=10, commands=())
    kept = TABLE.model_copy(update={"stored": stored})

    assert merge_tables(kept, TABLE).stored == stored
