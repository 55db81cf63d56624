"""Runs side by side: differences with intervals, by the one aggregation."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from federico.report import summarize
from federico.report.differences import compare_after
from federico.report.entry import Entry
from federico.report.table_summary import Summary
from federico.runs.layout import Description
from federico.ui import plain
from federico.ui.plain import Plain
from federico.ui.run_view import shown_cells


def compare_view(runs: Mapping[str, Path]) -> Plain:
    """Every row of every run, and how far it is from the same row of the first run."""
    summaries = {name: summarize(path) for name, path in runs.items()}
    cells = {name: [each.description for each in shown_cells(path)] for name, path in runs.items()}
    first_name = next(iter(summaries))
    first = summaries[first_name]

    lines = []
    for name, summary in summaries.items():
        for entry in _entries(summary):
            mine = _cells_of(cells[name], entry)
            line = _line(name, summary, entry)
            if name != first_name:
                line |= _difference(
                    entry, first, summary, _cells_of(cells[first_name], entry), mine
                )
            lines.append(line)
    return {"first": first_name, "metric": plain.metric(first.metric), "lines": lines}


def _cells_of(cells: Sequence[Description], entry: Entry) -> list[Description]:
    """The cells of an entry: each column has data of its own, and so may have a row."""
    here = (entry.column, entry.row.name)
    return [cell for cell in cells if (cell.column, cell.row) == here]


def _entries(summary: Summary) -> list[Entry]:
    found: list[Entry] = []
    for column in summary.table.columns:
        found += summary.column(column, summary.shown_rate)
    return found


def _line(run: str, summary: Summary, entry: Entry) -> Plain:
    spread = entry.sd("seeds")
    row = entry.title
    if entry.column:
        row += f", {entry.column}"
    return {
        "run": run,
        "row": row,
        "value": plain.typeset(_with_unit(summary, entry.mean)),
        "spread": "" if spread is None else summary.metric.bare(spread),
        "seeds": len(entry.seeds),
        "difference": "",
        "interval": "",
        "note": "",
    }


def _with_unit(summary: Summary, value: float) -> str:
    """The figure; with its name where a heading could not give it, as it has no unit."""
    if summary.metric.in_percent:
        return summary.metric.text(value)
    return summary.metric.named(value)


def _what_differs(first: Sequence[Description], other: Sequence[Description]) -> str:
    """Why seeds of two runs are not the same problem; empty if they are, or nobody knows.

    Kept results without cells do not say what their data hashed to.
    """
    data = {cell.seed: cell.data_hash for cell in first}
    partition = {cell.seed: cell.partition_hash for cell in first}
    for cell in other:
        if data.get(cell.seed, cell.data_hash) != cell.data_hash:
            return "not compared: other data than the first run, by its hash"
        if partition.get(cell.seed, cell.partition_hash) != cell.partition_hash:
            return "not compared: the data are distributed in another way than in the first run"
    return ""


def _difference(
    entry: Entry,
    first: Summary,
    summary: Summary,
    first_cells: Sequence[Description],
    cells: Sequence[Description],
) -> Plain:
    """The difference to the same row of the first run in words, or why there is none."""
    if first.task != summary.task:
        return {"note": "another task"}
    differ = _what_differs(first_cells, cells)
    if differ:
        return {"note": differ}
    other = first.entry(entry.row.name, entry.column, first.shown_rate)
    if other is None:
        return {"note": "the first run has no such row"}
    in_common = set(entry.evaluated) & set(other.evaluated)
    if not in_common:
        return {"note": "no evaluated round in common"}
    after = max(in_common)
    metric = summary.metric
    found = compare_after(after, entry, other, metric)
    if found is None:
        return {"note": "no seed in common"}

    line = {"difference": metric.signed(found.mean)}
    if found.interval is not None:
        low, high = found.interval
        line["interval"] = f"{metric.signed(low)} to {metric.signed(high)}"
    seeds = "one seed, so there is no interval"
    if found.runs > 1:
        seeds = f"{found.runs} seeds, better in {found.better}"
    ours = entry.after(after)
    theirs = other.after(after)
    if all(ours[seed] == theirs[seed] for seed in ours.keys() & theirs.keys()):
        seeds = "the same in one seed"
        if found.runs > 1:
            seeds = f"the same in all {found.runs} seeds"
    line["note"] = f"after round {after}, {seeds}"
    return line
