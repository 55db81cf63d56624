"""Runs side by side: differences with intervals, by the one aggregation."""

from collections.abc import Mapping
from pathlib import Path

from federico.report import summarize
from federico.report.differences import compare_after
from federico.report.entry import Entry
from federico.report.table_summary import Summary
from federico.ui import plain
from federico.ui.plain import Plain


def compare_view(runs: Mapping[str, Path]) -> Plain:
    """Every row of every run, and how far it is from the same row of the first run."""
    summaries = {name: summarize(path) for name, path in runs.items()}
    first_name = next(iter(summaries))
    first = summaries[first_name]

    lines = []
    for name, summary in summaries.items():
        for entry in _entries(summary):
            line = _line(name, summary, entry)
            if name != first_name:
                line |= _difference(entry, first, summary)
            lines.append(line)
    return {"first": first_name, "metric": plain.metric(first.metric), "lines": lines}


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
        "value": summary.metric.text(entry.mean),
        "spread": "" if spread is None else summary.metric.bare(spread),
        "seeds": len(entry.seeds),
        "difference": "",
        "interval": "",
        "note": "",
    }


def _difference(entry: Entry, first: Summary, summary: Summary) -> Plain:
    """The difference to the same row of the first run in words, or why there is none."""
    if first.task != summary.task:
        return {"note": "another task"}
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
    line["note"] = f"after round {after}, {seeds}"
    return line
