"""One run: its result in a sentence, its curves, who gains, what it costs, its settings."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from federico.report import summarize, text
from federico.report.aggregate import Entry, Summary
from federico.report.drawing import looks
from federico.report.tables import all_tables, worth_tables
from federico.report.worth_it import by_gain
from federico.runs.layout import CellDir, Description, RunDir
from federico.ui import plain
from federico.ui.plain import Plain
from federico.ui.runs_view import alone_of

FEDAVG = "fedavg"


def run_view(name: str, path: Path) -> Plain:
    """All that is shown of a run but the rounds of its cells."""
    summary = summarize(path)
    cells = shown_cells(path)
    descriptions = [cell.description for cell in cells]
    return {
        "name": name,
        "title": summary.table.title,
        "headline": text.headline(summary),
        "trust": text.trust(summary),
        "extent": text.extent(summary),
        "progress": text.progress(summary),
        "warning": text.worse_than_mean(summary),
        "beside": text.beside(summary),
        "differences": text.differences(summary),
        "paper": _paper(summary),
        "worth": text.worth(summary),
        "notes": text.notes(summary),
        "metric": plain.metric(summary.metric),
        "tables": [plain.table(each) for each in all_tables(summary)],
        "worth_tables": [plain.table(each) for each in worth_tables(summary)],
        "rows": _rows(summary),
        "cells": [_cell_line(cell) for cell in cells],
        "settings": _settings(descriptions),
        "sources": _sources(summary),
        "origins": _origins(descriptions),
    }


def shown_cells(path: Path) -> list[CellDir]:
    """The cells of a run, FedeRiCo's first; those that only try learning rates are left out."""
    cells = []
    for cell in RunDir(path).cells():
        if cell.description.rate_kind != "tuning":
            cells.append(cell)
    return sorted(cells, key=lambda cell: cell.description.method != "federico")


def _cell_line(cell: CellDir) -> Plain:
    about = cell.description
    name = f"{about.title or about.method}, seed {about.seed}"
    if about.column:
        name += f", {about.column}"
    return {"cell": cell.path.name, "name": name, "method": about.method}


def _rows(summary: Summary) -> list[Plain]:
    """Every row in every column: its curve, its cost, and its clients."""
    styles = looks(summary.table.rows)
    found = []
    for column in summary.table.columns:
        entries = summary.column(column, summary.shown_rate)
        for entry in entries:
            name = entry.title
            if column:
                name += f", {column}"
            curve = entry.curve
            found.append(
                {
                    "name": name,
                    "method": entry.row.method,
                    "color": styles[entry.row.name].color,
                    "rounds": curve.rounds,
                    "mean": plain.numbers(curve.mean),
                    "sd": plain.numbers(curve.sd),
                    "bytes": plain.numbers(entry.bytes_moved),
                    "seconds": plain.numbers(entry.processor_seconds),
                    "value": plain.number(entry.mean),
                    "spread": plain.number(entry.sd("seeds")),
                    "by_seed": {
                        str(seed): plain.number(value) for seed, value in entry.by_seed.items()
                    },
                    "alone": plain.number(alone_of(summary, entry)),
                    "clients": _clients(entry, entries),
                }
            )
    return found


def _clients(entry: Entry, entries: Sequence[Entry]) -> list[Plain]:
    """What each client is alone, with FedAvg and here, the one that gains most first."""
    fedavg: dict[str, float] = {}
    for other in entries:
        if other.row.method == FEDAVG and other is not entry:
            fedavg = other.by_client
    found = []
    for worth in by_gain(entry.worth):
        found.append(
            {
                "client": worth.client,
                "alone": plain.number(worth.alone),
                "together": plain.number(worth.together),
                "used": plain.number(worth.used),
                "share": plain.number(worth.together_share),
                "gain": plain.number(worth.gain),
                "fedavg": plain.number(fedavg.get(worth.client)),
            }
        )
    return found


def _paper(summary: Summary) -> str:
    """What the paper concludes of the same experiment; empty where it belongs to none."""
    paper = summary.table.paper
    if not paper.finding:
        return ""
    return f"The paper ({paper.where}): {paper.finding}"


def _sources(summary: Summary) -> list[Plain]:
    found = []
    for source in summary.sources:
        found.append({"command": source.provenance.command, "origin": text.origin(source)})
    return found


def _origins(cells: Sequence[Description]) -> list[Plain]:
    """What the data of every seed hashed to."""
    found = {(cell.seed, cell.data_hash, cell.partition_hash) for cell in cells}
    lines = []
    for seed, data, partition in sorted(found):
        lines.append({"seed": seed, "data": data, "partition": partition})
    return lines


def _settings(cells: Sequence[Description]) -> dict[str, str]:
    """Every setting with its value; where rows or columns differ, every value they have."""
    values: dict[str, list[str]] = {}
    for cell in cells:
        for key, value in _flat(cell.options):
            seen = values.setdefault(key, [])
            if value not in seen:
                seen.append(value)
    return {key: " / ".join(seen) for key, seen in values.items()}


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Every key with the tables it is in, and its value."""
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, "not set" if value is None else str(value)
