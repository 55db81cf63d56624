import csv
import io
from dataclasses import replace

import pytest
from rich.console import Console

from federico.report import summary_data, tables, text_table
from federico.report.aggregate import aggregate
from federico.report.table_summary import Summary
from federico.report.text_table import ForTerminal, TableCell, TextTable
from tests.support.results import (
    STORED,
    entry_of,
    make_aggregate,
    make_cell,
    make_table,
    two_columns,
)

SMALL = TextTable(
    "A & B",
    ["", "50 % _x_", "a|b"],
    [[TableCell("Local"), TableCell("1.0 ± 0.2", bold=True), TableCell("\N{MINUS SIGN}3")]],
)


@pytest.fixture(scope="module")
def summary() -> Summary:
    return two_columns()


def cell(table: TextTable, row: str, column: str) -> TableCell:
    (line,) = (line for line in table.lines if line[0].text == row)
    return line[table.headings.index(column)]


def printed(table: TextTable, width: int) -> list[str]:
    console = Console(width=width, file=io.StringIO())
    console.print(ForTerminal(table))
    output = console.file
    assert isinstance(output, io.StringIO)
    return output.getvalue().splitlines()


def test_ours_stands_beside_the_papers(summary: Summary) -> None:
    table = tables.result_tables(summary)[0]

    assert table.headings == ["", "two", "paper", "four"]
    assert table.title == "Accuracy (%), learning rate 0.01"
    assert cell(table, "FedeRiCo", "two").text == "91.0 ± 1.4"
    assert cell(table, "FedeRiCo", "paper").text == "56.6 ± 2.5"
    assert cell(table, "FedAvg", "paper").text == "-"


def test_the_best_of_each_column_is_bold_and_nothing_else(summary: Summary) -> None:
    table = tables.result_tables(summary)[0]

    bold = [
        (line[0].text, heading)
        for line in table.lines
        for heading, piece in zip(table.headings, line, strict=True)
        if piece.bold
    ]
    assert bold == [("FedeRiCo", "two"), ("FedeRiCo", "four")]


def test_gains_rates_and_costs_of_every_row(summary: Summary) -> None:
    _, given, _, best = tables.result_tables(summary)

    against = ["two, against Local", "four, against Local"]
    assert given.headings == ["", *against, "MB moved", "processor s"]
    assert best.headings == ["", *against, "learning rates", "MB moved", "processor s"]
    assert cell(given, "Local", "two, against Local").text == ""
    assert cell(given, "FedAvg", "two, against Local").text == "\N{MINUS SIGN}20.0 (0 of 2)"
    assert cell(best, "FedAvg", "learning rates").text == "0.1, 0.1"
    assert cell(best, "FedAvg", "MB moved").text == "0.00010"


def test_megabytes_of_a_column_have_as_many_decimals_each() -> None:
    cells = []
    for row, moved in (("federico", 100_000), ("local", 0), ("fedavg", 28_000)):
        cells.append(make_cell(row, 0.5, bytes_by_round=[moved]))
    (table,) = tables.result_tables(aggregate(make_table("federico", "local", "fedavg"), cells))
    shown = [cell(table, row, "MB moved").text for row in ("FedeRiCo", "Local", "FedAvg")]
    assert shown == ["0.100", "0.000", "0.028"]


def test_a_row_without_results_is_a_row_of_dashes(summary: Summary) -> None:
    without = replace(
        summary, entries=[entry for entry in summary.entries if entry.row.name != "fedavg"]
    )

    figures, gains = tables.result_tables(without)[2:]

    assert [piece.text for piece in figures.lines[2]] == ["FedAvg", "-", "-", "-"]
    assert [piece.text for piece in gains.lines[2]] == ["FedAvg", *["-"] * 5]


def test_missing_runs_and_other_rounds_are_said_and_nobody_is_best_then() -> None:
    table = make_table(rounds=2, seeds=(0, 1))
    cells = [make_cell("federico", 0.9), make_cell("local", 0.5, 0.6)]

    (shown,) = tables.result_tables(aggregate(table, cells))

    assert cell(shown, "FedeRiCo", "accuracy (%)") == TableCell("90.0 (1 of 2, 1 round)")
    assert cell(shown, "Local", "accuracy (%)") == TableCell("60.0 (1 of 2)")


def test_a_run_that_is_going_on_says_its_round() -> None:
    table = make_table("federico", rounds=3)

    (shown,) = tables.result_tables(
        aggregate(table, [], unfinished=[make_cell("federico", 0.4, 0.5)])
    )

    assert cell(shown, "FedeRiCo", "accuracy (%)").text == "50.0 (round 2)"


def test_figures_stored_as_means_are_marked_beside_others() -> None:
    table = make_table(rounds=2, seeds=(0, 1), stored=STORED)
    measured = [make_cell("local", 0.5, 0.6, seed=seed) for seed in (0, 1)]

    (mixed,) = tables.result_tables(aggregate(table, measured, [make_aggregate()]))
    (all_stored,) = tables.result_tables(aggregate(table, [], [make_aggregate()]))

    assert cell(mixed, "FedeRiCo", "accuracy (%)").text == "70.0 ± 14.1 *"
    assert cell(mixed, "Local", "accuracy (%)").text == "60.0"
    assert cell(all_stored, "FedeRiCo", "accuracy (%)").text == "70.0 ± 14.1"


def test_a_single_column_is_one_wide_table() -> None:
    posterior = {"on_own_distribution": 0.97, "effective_collaborators": 2.96}
    cells = [make_cell("federico", 0.9, **posterior), make_cell("local", 0.5)]

    (shown,) = tables.result_tables(aggregate(make_table(), cells))

    assert shown.headings == [
        "", "accuracy (%)", "against Local", "models used", "on own distribution", "MB moved",
        "processor s",
    ]  # fmt: skip
    assert cell(shown, "FedeRiCo", "models used").text == "3.0"
    assert cell(shown, "FedeRiCo", "on own distribution").text == "97 %"
    assert cell(shown, "Local", "models used").text == ""


def test_every_rate_that_was_tried_is_shown_and_the_chosen_one_is_bold(summary: Summary) -> None:
    (shown,) = tables.tuning_tables(summary)

    assert shown.headings == ["", "0.01", "0.1"]
    names = [line[0].text for line in shown.lines]
    assert names[:4] == ["FedeRiCo, two", "Local, two", "FedAvg, two", "FedeRiCo, four"]
    assert shown.lines[0][1:] == [TableCell("40.0"), TableCell("50.0", bold=True)]
    assert tables.tuning_tables(replace(summary, tuned=[])) == []


def test_a_rate_chosen_in_one_column_for_all_names_no_column(summary: Summary) -> None:
    once = [tuned for tuned in summary.tuned if tuned.column == "two"]

    (shown,) = tables.tuning_tables(replace(summary, tuned=once))

    assert [line[0].text for line in shown.lines] == ["FedeRiCo", "Local", "FedAvg"]


def test_markdown_has_bold_and_no_stray_bars() -> None:
    assert text_table.markdown(SMALL) == (
        "|  | 50 % _x_ | a/b |\n"
        "| --- | ---: | ---: |\n"
        "| Local | **1.0 ± 0.2** | \N{MINUS SIGN}3 |\n"
    )


def test_latex_is_escaped() -> None:
    written = text_table.latex(SMALL)

    assert r" & 50 \% \_x\_ & a|b \\" in written
    assert r"Local & \textbf{1.0 $\pm$ 0.2} & $-$3 \\" in written
    assert written.startswith("% A & B\n\\begin{tabular}{lrr}\n\\toprule\n")


def test_csv_has_a_line_for_each_run(summary: Summary) -> None:
    lines = list(csv.DictReader(io.StringIO(summary_data.as_csv(summary))))

    assert len(lines) == 2 * 2 * 3 * 2
    of_local = [
        float(line["accuracy"])
        for line in lines
        if (line["row"], line["column"], line["rate_kind"]) == ("local", "two", "given")
    ]
    assert of_local == pytest.approx(list(entry_of(summary, "local", "two").by_seed.values()))


def test_other_metrics_have_a_table_of_their_own() -> None:
    known = {"accuracy": [[0.5] * 3], "loss": [[1.25] * 3], "auroc": [[0.9, None, 0.9]]}
    cells = [make_cell("federico", 0.5, figures=known), make_cell("local", 0.5)]

    (shown,) = tables.metric_tables(aggregate(make_table(), cells))

    assert shown.headings == ["", "log loss", "AUROC (%)"]
    assert cell(shown, "FedeRiCo", "log loss").text == "1.25"
    assert cell(shown, "FedeRiCo", "AUROC (%)").text == "90.0"
    assert cell(shown, "Local", "AUROC (%)").text == "-"


def test_json_has_every_figure_and_null_for_diverged() -> None:
    bad, good = [[None, 0.1, 0.1]], [[0.2, 0.2, 0.2]]
    diverged = make_cell("local", 0.0, task="regression", figures={"r2": bad, "loss": bad})
    fine = make_cell("federico", 0.0, task="regression", figures={"r2": good, "loss": good})

    found = summary_data.as_json(aggregate(make_table(), [fine, diverged]))

    federico, local = found["entries"]
    assert federico["mean"] == pytest.approx(0.2)
    assert local["mean"] is None
    assert federico["other_metrics"] == {"loss": pytest.approx(0.2)}
    assert local["other_metrics"] == {"loss": None}
    assert local["by_client"] == {"a": None, "b": pytest.approx(0.1), "c": pytest.approx(0.1)}
    versus = federico["versus_reference"]
    assert (versus["difference"], versus["better"], versus["runs"]) == (None, 1, 1)
    assert (versus["interval"], versus["p_value"]) == (None, None)
    assert versus["clients"]["better"] == 1
    assert versus["clients"]["worst"] == pytest.approx(0.1)
    assert found["finished"]
    assert federico["wall_seconds"] == 1.5


def test_a_table_that_fits_is_printed_once() -> None:
    lines = printed(SMALL, 60)

    assert lines[0] == " A & B"
    assert sum("Local" in line for line in lines) == 1


def test_a_table_that_is_too_wide_continues_below_with_the_names_again() -> None:
    wide = TextTable(
        "Wide",
        ["", "first column", "paper", "second column", "third column"],
        [[TableCell(each) for each in ("Local", "12.3 ± 4.5", "9.9", "8.8", "7.7")]],
    )

    lines = printed(wide, 34)

    assert sum("Local" in line for line in lines) == 2
    assert max(len(line.rstrip()) for line in lines) <= 34
    (with_first,) = (line for line in lines if "12.3 ± 4.5" in line)
    assert "9.9" in with_first, "the paper's figure stays beside ours"
