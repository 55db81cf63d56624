from collections.abc import Callable
from typing import Any

import pytest

from benchmarks import pictures, tables
from federico.report.drawing import render

Measured = dict[str, list[dict[str, Any]]]


def cells(table: tables.Table, **wanted: str) -> list[str]:
    """The one row whose cells under these heads are these."""
    places = {table.heads.index(head): value for head, value in wanted.items()}
    (row,) = [
        row for row in table.rows if all(row[place] == value for place, value in places.items())
    ]
    return row


def test_goals_say_what_is_reached_and_what_is_not(measured: Measured) -> None:
    table = tables.goals(measured)
    training = cells(
        table, workload="MLP, Office-Home, K=10", figure="training: plain twin / federico"
    )
    assert training[2:] == [">= 2", "3.38 (3 to 3.75)", "yes"]
    memory = cells(
        table, workload="K=4096, linear, 100 rounds in one process", figure="peak memory (GB)"
    )
    assert memory[2:] == ["<= 6", "7", "**no**"]


def test_phases_add_up_to_what_was_measured(measured: Measured) -> None:
    measured["mlp"] = measured["mlp"][:1]
    row = cells(tables.phases(measured), workload="MLP, Office-Home, K=10")
    assert row[1:] == ["0.01", "0.01", "1", "3", *["0.01"] * 5, "4.4"]


def test_others_are_named_with_their_seconds(measured: Measured) -> None:
    measured["cnn2"] = measured["cnn2"][:1]
    row = cells(tables.others(measured), workload="CNN2, CIFAR-10, K=8")
    assert row[1:] == ["50", "40", "30", "50", "1", "3", "1", "4", "2", "9"]


def test_growth_lists_every_size(measured: Measured) -> None:
    table = tables.growth(measured)
    assert cells(table, size="clients K", value="4096")[2:] == ["29.4", "6.4"]
    assert len(table.rows) == 5 + 4 + 4 + 3


@pytest.mark.parametrize("row", ["linear", "growth-model", "ranks"])
def test_one_row_alone_makes_tables_too(measured: Measured, row: str) -> None:
    found = tables.of({row: measured[row]})
    assert found
    assert all(table.rows for table in found)


def test_markdown_is_a_table() -> None:
    assert (
        tables.Table("t", ["a", "b"], [["1", "2"]]).markdown()
        == "| a | b |\n| --- | --- |\n| 1 | 2 |\n"
    )


@pytest.mark.parametrize("draw", [pictures.goals, pictures.phases, pictures.growth])
def test_pictures_can_be_drawn(measured: Measured, draw: Callable[[Measured], Any]) -> None:
    assert render(draw(measured)).startswith(b"\x89PNG")


def test_picture_of_goals_has_a_line_for_each(measured: Measured) -> None:
    labels = [label.get_text() for label in pictures.goals(measured).axes[0].texts]
    assert "MPI on CNN2: 2 ranks x 1 thread / 1 process x 2 threads (goal 1.15)" in labels
