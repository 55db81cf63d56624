"""The tables of a report, laid out once for all the ways in which they are written."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from federico.report import text
from federico.report.entry import Difference, Entry
from federico.report.table_summary import Summary, TunedRate
from federico.report.text_table import MISSING, NOTHING, PAPER, SECONDS, TableCell, TextTable
from federico.report.worth_it import WorthToClient, by_gain
from federico.runs.comparison import share_in_words, sureness_in_short
from federico.runs.metric import METRICS, Metric, tuning_metric
from federico.runs.table import ShownRate, TableRow

MOST_LISTED = 30
"""Clients that a table of clients lists one by one."""
LISTED_AT_EACH_END = 10
"""Of more than that: how many of those who gain most are listed, and of those who gain least."""
MOVED = "MB moved"
ALONE = "alone"
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
