"""The list of runs: how far each has come, and whether it was worth it."""

from datetime import datetime
from pathlib import Path

from federico.report import summarize, text
from federico.report.entry import Entry
from federico.report.table_summary import Summary
from federico.report.worth_it import worth_to_all
from federico.runs.layout import CellDir, RunDir
from federico.runs.records import RECORDS
from federico.runs.table import OURS
from federico.ui import plain
from federico.ui.plain import Plain


def broken_line(name: str, error: str, advice: str) -> Plain:
    """One line of the list for a run that cannot be read: why, and what to do."""
    return {"name": name, "title": name, "status": "broken", "error": error, "advice": advice}


def run_line(name: str, path: Path) -> Plain:
    """One line of the list."""
    summary = summarize(path)
    entry = shown_entry(summary)
    line: Plain = {
        "name": name,
        "title": summary.table.title,
        "status": "unfinished" if summary.unfinished else "finished",
        "error": "",
        "rounds": summary.table.rounds,
        "done": _rounds_done(summary),
        "missing": summary.unfinished,
        "when": _last_written(path, summary),
        "pace": pace(path) if summary.unfinished else None,
        "clients": summary.clients,
        "methods": [row.title for row in summary.table.rows],
        "data": _data(path, summary),
        "metric": plain.metric(summary.metric),
        "headline": plain.typeset(text.headline(summary)),
        "shown": "",
        "value": None,
        "alone": None,
        "spark": [],
    }
    if entry is not None:
        line["shown"] = entry.title
        line["value"] = plain.number(entry.mean)
        line["alone"] = plain.number(alone_of(summary, entry))
        line["spark"] = plain.numbers(entry.curve.mean)
    if entry is not None and entry.worth:
        # The same clients as in the sentence of the run: those of every seed that has others.
        worth = worth_to_all(entry.worth_over_runs)
        line["better"] = worth.better
        line["compared"] = worth.clients
    return line


def shown_entry(summary: Summary) -> Entry | None:
    """The row that a line is about: FedeRiCo's if there is one, else the first."""
    for column in summary.table.columns:
        found = summary.column(column, summary.shown_rate)
        if found:
            return min(found, key=lambda entry: entry.row.method != OURS)
    return None


def alone_of(summary: Summary, entry: Entry) -> float | None:
    """What training alone reaches: the private models of the row, else those of the Local row."""
    if entry.alone is not None:
        return entry.alone
    if summary.reference_is_local and summary.table.reference is not None:
        reference = summary.entry(summary.table.reference, entry.column, entry.rate_kind)
        if reference is not None:
            return reference.mean
    return None


def pace(path: Path) -> Plain | None:
    """When the last round of a run that is not finished was written, and what a round takes.

    None before the first round. Whether somebody works on the run is nowhere written down, and a
    process that was killed could not say so: the time since then tells.
    """
    newest: tuple[float, CellDir] | None = None
    for cell in RunDir(path).cells():
        records = cell.path / RECORDS
        if cell.rounds_done or not records.exists():
            continue
        written = records.stat().st_mtime
        if newest is None or written > newest[0]:
            newest = (written, cell)
    if newest is None:
        return None
    written, cell = newest
    rounds = [sum(spent.seconds.values()) for spent in cell.spent]
    usual = sum(rounds) / len(rounds) if rounds else 0.0
    return {"last": written, "usual": round(usual, 3)}


def _rounds_done(summary: Summary) -> int:
    """Rounds of the run that goes on, or that all have played."""
    going_on = [pending.round_index for pending in summary.pending]
    if going_on:
        return max(going_on)
    return max(summary.lengths, default=0)


def _data(path: Path, summary: Summary) -> str:
    """The kind of data; the title of results that are kept without cells, which names it."""
    for cell in RunDir(path).cells():
        data = cell.description.options.get("data")
        if isinstance(data, dict):
            return str(data.get("kind", ""))
    return summary.table.title


def _last_written(path: Path, summary: Summary) -> float | None:
    """When the run was last written to: its results, or the records of a cell that goes on.

    The files of results that are kept without cells are as old as the copy: those say themselves
    when they were finished, or nobody knows.
    """
    times = []
    for cell in RunDir(path).cells():
        records = cell.path / RECORDS
        if records.exists():
            times.append(records.stat().st_mtime)
    if times:
        return max(times)
    for source in summary.sources:
        if source.provenance.finished:
            times.append(datetime.fromisoformat(source.provenance.finished).timestamp())
    return max(times, default=None)
