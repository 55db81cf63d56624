"""The tables of a report: laid out once, written for a terminal, as Markdown, LaTeX or CSV."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderResult
from rich.table import Table as TerminalTable
from rich.text import Text

from federico.report import text
from federico.report.entry import Difference, Entry
from federico.report.table_summary import Summary, TunedRate
from federico.report.worth_it import WorthToClient, by_gain
from federico.runs.comparison import share_in_words, sureness_in_short
from federico.runs.metric import METRICS, Metric, tuning_metric
from federico.runs.spreadsheet import csv_text
from federico.runs.table import ShownRate, TableRow

MOST_LISTED = 30
"""Clients that a table of clients lists one by one."""
LISTED_AT_EACH_END = 10
"""Of more than that: how many of those who gain most are listed, and of those who gain least."""
NOTHING = "-"
PAPER = "paper"
MOVED = "MB moved"
SECONDS = "processor s"
ALONE = "alone"
STAYS = (PAPER, SECONDS)
"""Columns that a narrow terminal does not part from the one before."""
ESCAPED_IN_LATEX = {
    "\\": r"\textbackslash ",
    "&": r"\&",
    "%": r"\%",
    "#": r"\#",
    "_": r"\_",
    "$": r"\$",
    "<": "$<$",
    "±": r"$\pm$",
    "\N{MINUS SIGN}": "$-$",
}


@dataclass(frozen=True)
class TableCell:
    """What stands in one place of a table."""

    text: str
    bold: bool = False


MISSING = TableCell(NOTHING)


@dataclass(frozen=True)
class TextTable:
    """A table, the names of its rows in the first column."""

    title: str
    headings: list[str]
    lines: list[list[TableCell]]


Show: TypeAlias = Callable[[Entry], TableCell]


def result_tables(summary: Summary) -> list[TextTable]:
    """For each learning rate the figures beside the paper's, the differences, and the cost."""
    found = []
    for rate_kind in summary.table.rates:
        if not summary.filled(rate_kind):
            continue
        if len(summary.table.columns) == 1:
            found.append(_single_column(summary, rate_kind))
        else:
            found.append(_figures(summary, rate_kind))
            found.append(_gain_and_cost(summary, rate_kind))
    return found


def all_tables(summary: Summary) -> list[TextTable]:
    """The tables of results, of gains and other metrics, and how learning rates were chosen."""
    return [
        *result_tables(summary),
        *gain_tables(summary),
        *metric_tables(summary),
        *tuning_tables(summary),
    ]


def metric_tables(summary: Summary) -> list[TextTable]:
    """For each learning rate the metrics beside the one that the table of results shows."""
    found = []
    for rate_kind in summary.table.rates:
        table = _other_metrics(summary, rate_kind)
        if table is not None:
            found.append(table)
    return found


def _other_metrics(summary: Summary, rate_kind: ShownRate) -> TextTable | None:
    """A row for each method, and a column for each metric; None where no other metric is known."""
    columns = summary.table.columns
    headings = [""]
    shown: list[tuple[str, Metric]] = []
    for column in columns:
        begun = summary.column(column, rate_kind)
        for metric in METRICS[summary.task][1:]:
            if all(entry.other_figure(metric) is None for entry in begun):
                continue
            shown.append((column, metric))
            heading = metric.axis
            if len(columns) > 1:
                heading = f"{column}, {heading}"
            headings.append(heading)
    if not shown:
        return None

    by_column = []
    entries: Sequence[Entry | None]
    for column, metric in shown:
        entries = [summary.entry(row.name, column, rate_kind) for row in summary.table.rows]
        by_column.append(_other_metric(entries, metric))
    lines = []
    for place, row in enumerate(summary.table.rows):
        lines.append([TableCell(row.title), *[cells[place] for cells in by_column]])
    return TextTable(f"Other metrics, {text.rate(summary, rate_kind)}", headings, lines)


def _other_metric(entries: Sequence[Entry | None], metric: Metric) -> list[TableCell]:
    """A column of figures with as many decimals each."""
    values = [None if entry is None else entry.other_figure(metric) for entry in entries]
    decimals = metric.decimals(value for value in values if value is not None)
    cells = []
    for value in values:
        cells.append(MISSING if value is None else TableCell(metric.bare(value, decimals)))
    return cells


def gain_tables(summary: Summary) -> list[TextTable]:
    """For each learning rate, what every row is worth to the clients against the reference row."""
    found = []
    for rate_kind in summary.table.rates:
        table = _gains(summary, rate_kind)
        if table.lines:
            found.append(table)
    return found


def _gains(summary: Summary, rate_kind: ShownRate) -> TextTable:
    """A line for every row in every column that can be compared over at least two runs."""
    lines = []
    for column in summary.table.columns:
        for entry in summary.column(column, rate_kind):
            if entry.versus is None:
                continue
            name = entry.title
            if len(summary.table.columns) > 1:
                name += f", {column}"
            lines.append([TableCell(name), *_gain_cells(summary, entry.versus)])

    against = summary.reference_title
    if summary.reference_is_local:
        against = "training alone"
    title = f"Against {against}, {text.rate(summary, rate_kind)}"
    gain = "mean gain"
    if summary.metric.in_percent:
        gain = "mean gain (points)"
    headings = ["", gain, text.INTERVAL, "p", "better off", "not worse"]
    headings += ["clearly worse", "worst client", "spread"]
    return TextTable(title, headings, lines)


def _gain_cells(summary: Summary, versus: Difference) -> list[TableCell]:
    """Gain, interval and p over runs, then shares, worst and spread over clients."""
    metric = summary.metric
    cells = [TableCell(metric.signed(metric.gain(versus.mean)))]
    if versus.interval is None or versus.p_value is None:
        cells += [MISSING, MISSING]
    else:
        ends = sorted(metric.gain(end) for end in versus.interval)
        low, high = [metric.signed(end) for end in ends]
        cells += [TableCell(f"{low} to {high}"), TableCell(_p_value(versus.p_value))]

    clients = versus.clients
    if clients is None:
        return cells + [MISSING] * 5
    for share in (clients.better, clients.not_worse, clients.clearly_worse):
        cells.append(TableCell(text.percent(share)))
    cells.append(TableCell(metric.signed(clients.worst)))
    if clients.spread is None:
        cells.append(MISSING)
    else:
        cells.append(TableCell(metric.bare(clients.spread)))
    return cells


def _p_value(p: float) -> str:
    if p < 0.001:
        return "< 0.001"
    return f"{p:.3f}"


def worth_tables(summary: Summary) -> list[TextTable]:
    """What each client of the first row that knows it is alone and together, the best off first.

    Of many clients only those at both ends are listed.
    """
    if not summary.worth_known:
        return []
    entry = summary.worth_known[0]
    metric = summary.metric
    in_order = by_gain(entry.worth)
    left_out = 0
    listed = in_order
    if len(in_order) > MOST_LISTED:
        left_out = len(in_order) - 2 * LISTED_AT_EACH_END
        listed = in_order[:LISTED_AT_EACH_END] + in_order[-LISTED_AT_EACH_END:]
    lines = [_worth_line(worth, metric) for worth in listed]

    gain = "gain"
    if metric.in_percent:
        gain = "gain (points)"
    headings = ["client", "training samples", "alone", "with collaborators", "used", gain]
    headings.append("predicts")
    if any(worth.together_chance is not None for worth in listed):
        headings.append("how sure")
        for line, worth in zip(lines, listed, strict=True):
            line.append(TableCell(sureness_in_short(worth.together_chance)))
    if left_out > 0:
        between = [TableCell(f"... {left_out:,} others")]
        between += [TableCell("")] * (len(headings) - 1)
        lines.insert(LISTED_AT_EACH_END, between)

    name = entry.title
    if entry.column:
        name += f", {entry.column}"
    title = f"{metric.axis.capitalize()} alone and together, {name}{text.of_seed(entry)}"
    return [TextTable(title, headings, lines)]


def _worth_line(worth: WorthToClient, metric: Metric) -> list[TableCell]:
    return [
        TableCell(worth.client),
        TableCell(f"{worth.train_samples:,.0f}"),
        TableCell(metric.bare(worth.alone)),
        TableCell(metric.bare(worth.together)),
        TableCell(metric.bare(worth.used)),
        TableCell(metric.signed(worth.gain)),
        TableCell(share_in_words(worth.together_share)),
    ]


def tuning_tables(summary: Summary) -> list[TextTable]:
    """How the best learning rates were chosen, if they were: every rate that was tried."""
    if not summary.tuned:
        return []

    # In the order in which they were tried first.
    rates: list[float] = []
    for tuned in summary.tuned:
        for rate in tuned.scores:
            if rate not in rates:
                rates.append(rate)
    headings = [""]
    for rate in rates:
        headings.append(f"{rate:g}")

    metric = tuning_metric(summary.task)
    decimals_of = {}
    for rate in rates:
        scores = [tuned.scores[rate] for tuned in summary.tuned if rate in tuned.scores]
        decimals_of[rate] = metric.decimals(scores)

    rows = Counter(tuned.row.name for tuned in summary.tuned)
    lines = []
    for tuned in summary.tuned:
        name = tuned.row.title
        if rows[tuned.row.name] > 1:
            name += f", {tuned.column}"
        line = [TableCell(name)]
        for rate in rates:
            line.append(_tried(summary, tuned, rate, decimals_of[rate]))
        lines.append(line)

    title = f"How learning rates were chosen: {metric.axis} on the clients' validation parts"
    return [TextTable(title, headings, lines)]


def markdown(table: TextTable) -> str:
    """The table in Markdown, without its title."""
    figures = len(table.headings) - 1
    rule = ["---"] + ["---:"] * figures
    written = _markdown_line(table.headings)
    written += _markdown_line(rule)

    for line in table.lines:
        texts = []
        for cell in line:
            shown = cell.text
            if cell.bold:
                shown = f"**{shown}**"
            texts.append(shown)
        written += _markdown_line(texts)
    return written


def _markdown_line(texts: Sequence[str]) -> str:
    joined = " | ".join(each.replace("|", "/") for each in texts)
    return f"| {joined} |\n"


def latex(table: TextTable) -> str:
    """The table in LaTeX, with the rules of the package booktabs."""
    headings = [TableCell(heading) for heading in table.headings]
    body = [_latex_line(line) for line in table.lines]
    figures = len(table.headings) - 1
    columns = "l" + "r" * figures
    parts = [
        f"% {table.title}",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        _latex_line(headings),
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(parts) + "\n"


def _latex_line(line: Sequence[TableCell]) -> str:
    texts = []
    for cell in line:
        shown = cell.text
        for character, escaped in ESCAPED_IN_LATEX.items():
            shown = shown.replace(character, escaped)
        if cell.bold:
            shown = rf"\textbf{{{shown}}}"
        texts.append(shown)
    joined = " & ".join(texts)
    return rf"{joined} \\"


def as_csv(summary: Summary) -> str:
    """One line for each run, for programs."""
    figure = summary.metric.name.replace(" ", "_")
    rows: list[list[object]] = [
        ["row", "method", "column", "rate_kind", "learning_rate", "rounds", "seed", figure]
    ]
    for entry in summary.entries:
        place = [entry.row.name, entry.row.method, entry.column, entry.rate_kind, entry.rate]
        for seed, value in entry.by_seed.items():
            rows.append([*place, entry.rounds, seed, value])
    return csv_text(rows)


def gains_as_csv(summary: Summary) -> str:
    """One line for each client of each run that is compared with the reference, for programs."""
    headings = ["row", "column", "rate_kind", "learning_rate", "seed", "client"]
    figures = ["figure", "reference", "gain", "standard_error", "clearly_worse"]
    rows: list[list[object]] = [[*headings, *figures]]
    for entry in summary.entries:
        if entry.versus is None or entry.versus.clients is None:
            continue
        place = [entry.row.name, entry.column, entry.rate_kind, entry.rate]
        for seed, run in entry.versus.clients.by_seed.items():
            for client in run:
                values = [client.figure, client.reference, client.gain, client.standard_error]
                clearly_worse = int(client.is_clearly_worse)
                rows.append([*place, seed, client.client, *values, clearly_worse])
    return csv_text(rows)


def as_json(summary: Summary) -> dict[str, Any]:
    """All figures for programs: accuracies are fractions, what has diverged is null."""
    table = summary.table
    return {
        "name": table.name,
        "title": table.title,
        "task": summary.task,
        "metric": summary.metric.name,
        "higher_is_better": summary.metric.higher_is_better,
        "rounds": table.rounds,
        "seeds": list(table.seeds),
        "finished": not summary.unfinished,
        "unfinished": summary.unfinished,
        "headline": text.headline(summary),
        "differences": text.differences(summary),
        "reference": table.reference,
        "entries": [_entry_as_json(summary, entry) for entry in summary.entries],
        "tuned": [_tuned_as_json(tuned) for tuned in summary.tuned],
    }


def _tuned_as_json(tuned: TunedRate) -> dict[str, Any]:
    scores = {}
    for rate, score in tuned.scores.items():
        scores[f"{rate:g}"] = _finite(score)
    return {
        "row": tuned.row.name,
        "column": tuned.column,
        "rounds": tuned.rounds,
        "learning_rate": tuned.rate,
        "scores": scores,
    }


def _entry_as_json(summary: Summary, entry: Entry) -> dict[str, Any]:
    versus = None
    if entry.versus is not None:
        versus = _versus_as_json(entry.versus)

    by_seed = {}
    for seed, value in entry.by_seed.items():
        by_seed[str(seed)] = _finite(value)
    by_client = {}
    for client, value in entry.by_client.items():
        by_client[client] = _finite(value)
    return {
        "row": entry.row.name,
        "title": entry.title,
        "method": entry.row.method,
        "column": entry.column,
        "rate_kind": entry.rate_kind,
        "learning_rate": entry.rate,
        "rounds": entry.rounds,
        "mean": _finite(entry.mean),
        "sd": entry.sd(summary.table.spread),
        "by_seed": by_seed,
        "by_client": by_client,
        "clients_of_seed": entry.clients_of_seed,
        "clients_worse_than_mean": entry.worse_than_mean,
        "other_metrics": _other_metrics_as_json(summary, entry),
        "alone": None if entry.alone is None else _finite(entry.alone),
        "worth": _worth_as_json(entry),
        "versus_reference": versus,
        "on_own_distribution": entry.on_own_distribution,
        "effective_collaborators": entry.effective_collaborators,
        "bytes_moved": entry.bytes_moved[-1],
        "processor_seconds": entry.processor_seconds[-1],
        "wall_seconds": entry.wall_seconds,
        "finished": entry.finished,
        "stored_as_mean": entry.stored_as_mean,
    }


def _other_metrics_as_json(summary: Summary, entry: Entry) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for metric in METRICS[summary.task][1:]:
        value = entry.other_figure(metric)
        if value is not None:
            found[metric.recorded_as] = _finite(value)
    return found


def _worth_as_json(entry: Entry) -> dict[str, dict[str, float | None]]:
    """What each client is alone, together and as used; empty without private models."""
    found: dict[str, dict[str, float | None]] = {}
    for worth in entry.worth:
        found[worth.client] = {
            "alone": _finite(worth.alone),
            "together": _finite(worth.together),
            "used": _finite(worth.used),
            "together_share": worth.together_share,
            "together_chance": worth.together_chance,
            "gain": _finite(worth.gain),
        }
    return found


def _versus_as_json(versus: Difference) -> dict[str, Any]:
    clients = None
    if versus.clients is not None:
        clients = {
            "better": versus.clients.better,
            "not_worse": versus.clients.not_worse,
            "clearly_worse": versus.clients.clearly_worse,
            "worst": _finite(versus.clients.worst),
            "spread": versus.clients.spread,
        }
    return {
        "difference": _finite(versus.mean),
        "better": versus.better,
        "runs": versus.runs,
        "interval": versus.interval,
        "p_value": versus.p_value,
        "clients": clients,
    }


def megabyte_decimals(counts: Sequence[float]) -> int:
    """Decimals of a column of megabytes: one, more only where one would read as nothing."""
    moved = [count for count in counts if count > 0]
    if not moved:
        return 1
    least = min(moved) / 1e6
    if least >= 0.05:
        return 1
    first_digit = math.floor(math.log10(least))
    return 1 - first_digit


def megabytes(count: float, decimals: int) -> str:
    """A number of bytes in megabytes."""
    return f"{count / 1e6:,.{decimals}f}"


class ForTerminal:
    """A table for a terminal, however narrow.

    What is too wide continues below, with the names of the rows again. A heading may take several
    lines, a figure never does.
    """

    def __init__(self, table: TextTable) -> None:
        self.table = table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Called by rich when the table is printed."""
        table = self.table
        on_one_line = []
        broken = []
        for place, heading in enumerate(table.headings):
            on_one_line.append(_width(table, place, [heading]))
            broken.append(_width(table, place, heading.split()))

        if _total(on_one_line) <= options.max_width:
            widths = on_one_line
            parts = [list(range(1, len(widths)))]
        else:
            widths = broken
            parts = _side_by_side(table, widths, options.max_width)

        yield Text(f" {table.title}", "bold")
        for part in parts:
            yield _terminal_part(table, [0, *part], widths)
        yield ""


def _width(table: TextTable, place: int, heading: Sequence[str]) -> int:
    """The width of a column whose heading is broken into these pieces."""
    texts = list(heading)
    for line in table.lines:
        texts.append(line[place].text)
    return max(map(cell_len, texts), default=0)


def _total(widths: Sequence[int]) -> int:
    """The width of columns with three spaces between them, and one at either end."""
    return sum(widths) + 3 * len(widths) - 1


def _side_by_side(table: TextTable, widths: Sequence[int], width: int) -> list[list[int]]:
    """Columns that fit side by side after the names."""
    headings = [*table.headings, ""]
    parts: list[list[int]] = [[]]
    for place in range(1, len(widths)):
        together = [place]
        if headings[place + 1] in STAYS:
            together.append(place + 1)

        line = [0, *parts[-1], *together]
        needed = _total([widths[each] for each in line])
        if parts[-1] and needed > width:
            parts.append([])
        parts[-1].append(place)
    return parts


def _terminal_part(table: TextTable, places: Sequence[int], widths: Sequence[int]) -> TerminalTable:
    drawn = TerminalTable(box=SIMPLE_HEAD, show_edge=False)
    for place in places:
        justify: JustifyMethod = "right"
        if place == 0:
            justify = "left"
        heading = Text(table.headings[place])
        drawn.add_column(heading, justify=justify, width=widths[place])

    for line in table.lines:
        texts = []
        for place in places:
            cell = line[place]
            style = ""
            if cell.bold:
                style = "bold"
            texts.append(Text(cell.text, style))
        drawn.add_row(*texts)
    return drawn


def _single_column(summary: Summary, rate_kind: ShownRate) -> TextTable:
    """A single column: everything about a row side by side."""
    column = summary.table.columns[0]
    entries = summary.column(column, rate_kind)

    shown: dict[str, Show] = {summary.metric.axis: lambda entry: _figure(summary, entry)}
    if any(entry.alone is not None for entry in entries):
        shown[ALONE] = lambda entry: _alone(summary, entry)
    if _paper_knows(summary, column):
        shown[PAPER] = lambda entry: _paper(summary, entry.row, column)
    if any(entry.versus for entry in entries):
        shown[f"against {summary.reference_title}"] = lambda entry: _versus(summary, entry)
    if any(entry.effective_collaborators is not None for entry in entries):
        shown["models used"] = _models_used
    if any(entry.on_own_distribution is not None for entry in entries):
        shown["on own distribution"] = _on_own_distribution
    if rate_kind == "best":
        shown["learning rate"] = lambda entry: TableCell(f"{entry.rate:g}")
    decimals = megabyte_decimals([entry.bytes_moved[-1] for entry in entries])
    shown[MOVED] = lambda entry: _megabytes_moved([entry], decimals)
    shown[SECONDS] = lambda entry: _processor_seconds([entry])

    lines = []
    for row in summary.table.rows:
        entry = summary.entry(row.name, column, rate_kind)
        line = [TableCell(row.title)]
        for show in shown.values():
            if entry is None:
                line.append(MISSING)
            else:
                line.append(show(entry))
        lines.append(line)

    title = f"{summary.metric.name.capitalize()}, {text.rate(summary, rate_kind)}"
    return TextTable(title, ["", *shown], lines)


def _figures(summary: Summary, rate_kind: ShownRate) -> TextTable:
    """Our figures in every column, and the paper's beside them."""
    headings = [""]
    for column in summary.table.columns:
        headings.append(column)
        if _paper_knows(summary, column):
            headings.append(PAPER)

    lines = []
    for row in summary.table.rows:
        line = [TableCell(row.title)]
        for column in summary.table.columns:
            entry = summary.entry(row.name, column, rate_kind)
            line.append(_figure(summary, entry))
            if _paper_knows(summary, column):
                line.append(_paper(summary, row, column))
        lines.append(line)

    title = f"{summary.metric.axis.capitalize()}, {text.rate(summary, rate_kind)}"
    return TextTable(title, headings, lines)


def _gain_and_cost(summary: Summary, rate_kind: ShownRate) -> TextTable:
    """Differences to the reference in every column, chosen learning rates, the cost of one run."""
    columns = summary.table.columns
    reference = summary.reference_title

    headings = [""]
    if reference:
        for column in columns:
            headings.append(f"{column}, against {reference}")
    knows_alone = any(entry.alone is not None for entry in summary.entries)
    if knows_alone:
        for column in columns:
            headings.append(f"{column}, {ALONE}")
    if rate_kind == "best":
        headings.append("learning rates")
    headings += [MOVED, SECONDS]

    of_rows = [summary.row(row.name, rate_kind) for row in summary.table.rows]
    decimals = megabyte_decimals([_mean_moved(known) for known in of_rows if known])

    lines = []
    for row in summary.table.rows:
        line = [TableCell(row.title)]
        if reference:
            for column in columns:
                entry = summary.entry(row.name, column, rate_kind)
                line.append(_versus(summary, entry))
        if knows_alone:
            for column in columns:
                line.append(_alone(summary, summary.entry(row.name, column, rate_kind)))
        if rate_kind == "best":
            line.append(_best_rates(summary, row))
        known = summary.row(row.name, rate_kind)
        line += [_megabytes_moved(known, decimals), _processor_seconds(known)]
        lines.append(line)
    return TextTable(f"Gain and cost, {text.rate(summary, rate_kind)}", headings, lines)


def _best_rates(summary: Summary, row: TableRow) -> TableCell:
    """A row's best learning rate in every column."""
    if not summary.row(row.name, "best"):
        return MISSING
    rates = []
    for column in summary.table.columns:
        entry = summary.entry(row.name, column, "best")
        if entry is None:
            rates.append(NOTHING)
        else:
            rates.append(f"{entry.rate:g}")
    return TableCell(", ".join(rates))


def _figure(summary: Summary, entry: Entry | None) -> TableCell:
    """Mean and deviation; what is missing of the runs or differs in rounds is said behind it."""
    if entry is None:
        return MISSING
    metric = summary.metric
    sd = entry.sd(summary.table.spread)
    shown = metric.bare(entry.mean) + metric.spread(sd)
    if entry.stored_as_mean and len(summary.stored_as_means) < len(summary.entries):
        shown += " *"

    remarks = []
    runs = len(entry.seeds)
    asked = len(summary.table.seeds)
    if runs < asked:
        remarks.append(f"{runs} of {asked}")
    if not entry.finished:
        remarks.append(f"round {entry.rounds}")
    elif entry.rounds != summary.table.rounds:
        remarks.append(text.count(entry.rounds, "round"))
    if remarks:
        shown += f" ({', '.join(remarks)})"
    best = summary.best(entry.column, entry.rate_kind)
    return TableCell(shown, bold=entry is best)


def _tried(summary: Summary, tuned: TunedRate, rate: float, decimals: int | None) -> TableCell:
    score = tuned.scores.get(rate)
    if score is None:
        return MISSING
    metric = tuning_metric(summary.task)
    return TableCell(metric.bare(score, decimals), bold=rate == tuned.rate)


def _paper_knows(summary: Summary, column: str) -> bool:
    return any(column in values for values in summary.table.paper.values.values())


def _paper(summary: Summary, row: TableRow, column: str) -> TableCell:
    by_column = summary.table.paper.values.get(row.name, {})
    if column not in by_column:
        return MISSING
    mean, sd = by_column[column]
    return TableCell(f"{mean:.1f} ± {sd:.1f}")


def _versus(summary: Summary, entry: Entry | None) -> TableCell:
    """The difference to the reference row; empty for that row itself."""
    if entry is None:
        return MISSING
    versus = entry.versus
    if versus is None:
        return TableCell("")
    difference = summary.metric.signed(versus.mean)
    return TableCell(f"{difference} ({versus.better} of {versus.runs})")


def _alone(summary: Summary, entry: Entry | None) -> TableCell:
    """What the row's clients would be alone; empty for a method that trains no private models."""
    if entry is None:
        return MISSING
    if entry.alone is None:
        return TableCell("")
    return TableCell(summary.metric.bare(entry.alone))


def _models_used(entry: Entry) -> TableCell:
    collaborators = entry.effective_collaborators
    if collaborators is None:
        return TableCell("")
    return TableCell(f"{collaborators:.1f}")


def _on_own_distribution(entry: Entry) -> TableCell:
    share = entry.on_own_distribution
    if share is None:
        return TableCell("")
    return TableCell(text.percent(share))


def _mean_moved(entries: Sequence[Entry]) -> float:
    """Bytes of one run, mean over columns."""
    return float(np.mean([entry.bytes_moved[-1] for entry in entries]))


def _megabytes_moved(entries: Sequence[Entry], decimals: int) -> TableCell:
    """Megabytes of one run, mean over columns."""
    if not entries:
        return MISSING
    return TableCell(megabytes(_mean_moved(entries), decimals))


def _processor_seconds(entries: Sequence[Entry]) -> TableCell:
    """Processor seconds of one run, mean over columns."""
    if not entries:
        return MISSING
    seconds = [entry.processor_seconds[-1] for entry in entries]
    return TableCell(f"{np.mean(seconds):,.1f}")


def _finite(value: float) -> float | None:
    """The value for JSON, which has no infinity."""
    if not math.isfinite(value):
        return None
    return value
