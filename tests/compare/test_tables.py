import csv
import io
from dataclasses import replace
from typing import Any

import pytest

from federico.compare import tables
from federico.compare.result import Result
from federico.compare.tables import Grid, TableCell
from federico.report.old.summary import Curve

GRID = Grid(
    "A & B",
    ["", "50 % _x_", "a|b"],
    [[TableCell("Local"), TableCell("1.0 ± 0.2", bold=True), TableCell("\N{MINUS SIGN}3")]],
)


def cell(grid: Grid, row: str, column: str) -> TableCell:
    (line,) = (line for line in grid.lines if line[0].text == row)
    return line[grid.headings.index(column)]


def test_ours_stands_beside_the_papers(result: Result) -> None:
    grid = tables.grids(result)[0]
    assert grid.headings == ["", "two", "paper", "four"]
    assert grid.title == "Accuracy (%), learning rate 0.01"
    assert cell(grid, "FedeRiCo", "paper").text == "56.6 ± 2.5"
    assert cell(grid, "FedAvg", "paper").text == "-"
    entry = result.entry("fedavg", "four", "given")
    assert entry is not None
    spread = entry.sd("seeds")
    assert spread is not None
    assert cell(grid, "FedAvg", "four").text == f"{100 * entry.mean:.1f} ± {100 * spread:.1f}"


def test_the_best_of_each_column_is_bold_and_nothing_else(result: Result) -> None:
    for grid, at in zip(tables.grids(result)[::2], result.at, strict=True):
        bold = {
            (line[0].text, grid.headings[place])
            for line in grid.lines
            for place, p in enumerate(line)
            if p.bold
        }
        best = [(column, result.best(column, at)) for column in result.columns]
        assert bold == {(entry.title, column) for column, entry in best if entry is not None}


def test_gains_rates_and_costs_of_every_row(result: Result) -> None:
    given, best = tables.grids(result)[1], tables.grids(result)[3]
    assert given.headings == [
        "",
        "two, against Local",
        "four, against Local",
        "MB moved",
        "processor s",
    ]
    assert cell(given, "Local", "two, against Local").text == ""
    assert cell(given, "FedAvg", "two, against Local").text.endswith(" of 2)")
    rates = [result.entry("fedavg", column, "best") for column in result.columns]
    assert cell(best, "FedAvg", "learning rates").text == ", ".join(
        f"{entry.rate:g}" for entry in rates if entry
    )
    without = replace(result, entries=[entry for entry in result.entries if entry.row != "fedavg"])
    assert cell(tables.grids(without)[3], "FedAvg", "learning rates").text == "-"


def test_what_is_missing_is_said(result: Result) -> None:
    (first, *rest) = result.entries
    short = replace(result, entries=[replace(first, by_seed={0: 0.5}), *rest[1:]])
    grid = tables.grids(short)[0]
    assert cell(grid, first.title, "two").text == "50.0 (1 of 2)"
    assert cell(grid, rest[0].title, "two").text == "-"


def test_other_rounds_are_said_and_nobody_is_best_then(result: Result) -> None:
    (first, *rest) = result.entries
    longer = replace(
        result, entries=[replace(first, by_seed={0: 0.999}, curve=Curve([9], [0.5], [0.0])), *rest]
    )
    grid = tables.grids(longer)[0]
    assert cell(grid, first.title, "two") == TableCell("99.9 (1 of 2, 9 rounds)")
    assert not any(cell(grid, line[0].text, "two").bold for line in grid.lines)
    assert any(cell(grid, line[0].text, "four").bold for line in grid.lines)


def test_every_rate_that_was_tried_is_shown_and_the_chosen_one_is_bold(result: Result) -> None:
    (grid,) = tables.tuning(result)
    assert grid.headings == ["", "0.01", "0.1"]
    assert [line[0].text for line in grid.lines][:4] == [
        "FedeRiCo, two",
        "Local, two",
        "FedAvg, two",
        "FedeRiCo, four",
    ]
    for line, tuned in zip(grid.lines, result.tuned, strict=True):
        assert [piece.text for piece in line[1:]] == [
            f"{100 * score:.1f}" for score in tuned.scores.values()
        ]
        assert [
            heading for heading, piece in zip(grid.headings, line, strict=True) if piece.bold
        ] == [f"{tuned.rate:g}"]
    assert tables.tuning(replace(result, tuned=[])) == []


def test_a_rate_that_was_chosen_for_all_columns_is_shown_once(result: Result) -> None:
    shared = [replace(each, settings="same") for each in result.tuned]
    (grid,) = tables.tuning(replace(result, tuned=shared))
    assert [line[0].text for line in grid.lines] == ["FedeRiCo", "Local", "FedAvg"]


def test_a_single_column_is_one_wide_table(played: Any) -> None:
    result = replace(played.result, columns=["two"], at=["given"])
    (grid,) = tables.grids(result)
    assert grid.headings == [
        "", "accuracy (%)", "paper", "against Local", "models used", "on own distribution", "MB moved", "processor s",
    ]  # fmt: skip
    assert cell(grid, "FedeRiCo", "on own distribution").text.endswith("%")
    assert cell(grid, "Local", "models used").text == ""


def test_markdown_has_bold_and_no_stray_bars() -> None:
    assert tables.markdown(GRID) == (
        "|  | 50 % _x_ | a/b |\n| --- | ---: | ---: |\n| Local | **1.0 ± 0.2** | \N{MINUS SIGN}3 |\n"
    )


def test_latex_is_escaped() -> None:
    text = tables.latex(GRID)
    assert r" & 50 \% \_x\_ & a|b \\" in text
    assert r"Local & \textbf{1.0 $\pm$ 0.2} & $-$3 \\" in text
    assert text.startswith("% A & B\n\\begin{tabular}{lrr}\n\\toprule\n")


def test_csv_has_a_line_per_run(result: Result) -> None:
    lines = list(csv.DictReader(io.StringIO(tables.as_csv(result))))
    assert len(lines) == 2 * 2 * 3 * 2
    entry = result.entry("local", "two", "given")
    assert entry is not None
    found = [
        float(line["accuracy"])
        for line in lines
        if (line["row"], line["column"], line["at"]) == ("local", "two", "given")
    ]
    assert found == pytest.approx(list(entry.by_seed.values()))
