"""One run: its result in a sentence, its curves, who gains, what it costs, its settings."""

import base64
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from federico.errors import RunError
from federico.report import summarize, text
from federico.report.drawing import looks
from federico.report.entry import Entry
from federico.report.figures import CAPTIONS
from federico.report.table_summary import Population, Summary
from federico.report.tables import all_tables, worth_tables
from federico.report.text_table import MISSING, TableCell, TextTable
from federico.report.worth_it import by_gain
from federico.report.writing import OWN_FIGURE, for_dark_page
from federico.runs.comparison import sureness_in_short
from federico.runs.layout import CellDir, Description, RunDir
from federico.runs.table import OURS
from federico.ui import plain
from federico.ui.plain import Plain
from federico.ui.runs_view import alone_of, pace

FEDAVG = "fedavg"


def run_view(name: str, path: Path, summary: Summary | None = None) -> Plain:
    """All that is shown of a run but the rounds of its cells.

    `summary` is that of the run, if it is known already.
    """
    if summary is None:
        summary = summarize(path)
    cells = shown_cells(path)
    descriptions = [cell.description for cell in cells]
    return {
        "name": name,
        "title": summary.table.title,
        "headline": plain.typeset(text.headline(summary)),
        "trust": text.trust(summary),
        "extent": text.extent(summary),
        "progress": text.progress(summary),
        "pace": pace(path) if summary.unfinished else None,
        "warning": plain.typeset(text.worse_than_mean(summary)),
        "beside": text.beside(summary),
        "differences": text.differences(summary, beside_progress=True),
        "paper": _paper(summary),
        "worth": text.worth(summary),
        "worth_note": plain.typeset(_worth_note(summary)),
        "notes": plain.typeset(text.notes(summary)),
        "metric": plain.metric(summary.metric),
        "tables": [plain.table(each) for each in all_tables(summary)],
        "worth_tables": [plain.table(each) for each in worth_tables(summary)],
        "clients_table": _clients_table(summary),
        "clients_note": _clients_note(summary),
        "figure": _own_figure(path),
        "rows": _rows(summary),
        "cells": [_cell_line(cell) for cell in cells],
        "settings": _extent(summary) | _settings(descriptions),
        "sources": _sources(summary),
        "origins": _origins(descriptions),
        "versions": _versions(summary),
    }


def shown_cells(path: Path) -> list[CellDir]:
    """The cells of a run, FedeRiCo's first; those that only try learning rates are left out."""
    cells = []
    for cell in RunDir(path).cells():
        if cell.description.rate_kind != "tuning":
            cells.append(cell)
    return sorted(cells, key=lambda cell: cell.description.method != OURS)


def _cell_line(cell: CellDir) -> Plain:
    about = cell.description
    name = f"{about.title or about.method}, seed {about.seed}"
    if about.column:
        name += f", {about.column}"
    if about.rate_kind == "best":
        name += ", best learning rate"
    row = name.replace(f", seed {about.seed}", "", 1)
    return {
        "cell": cell.path.name,
        "name": name,
        "row": row,
        "seed": about.seed,
        "method": about.method,
    }


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
                    "title": entry.title,
                    "column": column,
                    "method": entry.row.method,
                    "color": styles[entry.row.name].color,
                    "rounds": curve.rounds,
                    "mean": plain.numbers(curve.mean),
                    "sd": plain.numbers(curve.sd),
                    "bytes": plain.numbers(entry.bytes_moved),
                    "seconds": plain.numbers(entry.processor_seconds),
                    "value": plain.number(entry.mean),
                    "spread": plain.number(entry.sd("seeds")),
                    "alone": plain.number(alone_of(summary, entry)),
                    "clients": _clients(entry, entries),
                    "seeds": len(entry.seeds),
                    "clients_of_seed": entry.clients_of_seed,
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
                "sure": plain.typeset(sureness_in_short(worth.together_chance)),
                "gain": plain.number(worth.gain),
                "fedavg": plain.number(fedavg.get(worth.client)),
            }
        )
    return found


def _clients_table(summary: Summary) -> Plain | None:
    """Each client's name, samples and distribution, and every row's figure in the first column."""
    entries = []
    for entry in summary.column(summary.table.columns[0], summary.shown_rate):
        if entry.by_client:
            entries.append(entry)
    if not entries:
        return None

    headings = ["client"]
    names = list(entries[0].by_client)
    population = summary.population
    if population is not None:
        headings += ["distribution", "training samples", "test samples"]
        names = population.clients
    for entry in entries:
        headings.append(entry.title)

    lines = []
    for place, name in enumerate(names[: text.MOST_CLIENTS]):
        line = [TableCell(name)]
        if population is not None:
            line += _samples(population, place)
        for entry in entries:
            if name in entry.by_client:
                value = entry.by_client[name]
                line.append(TableCell(summary.metric.bare(value)))
            else:
                line.append(MISSING)
        lines.append(line)
    return plain.table(TextTable("Clients", headings, lines))


def _samples(population: Population, client: int) -> list[TableCell]:
    """A client's distribution, training samples and test samples."""
    group = MISSING
    if population.distribution is not None:
        group = TableCell(str(population.distribution[client]))
    train = TableCell(str(population.train_samples[client]))
    test = TableCell(str(population.test_samples[client]))
    return [group, train, test]


def _clients_note(summary: Summary) -> str:
    figure = summary.metric.axis.capitalize()
    what = f"{figure} of each client"
    columns = summary.table.columns
    if len(columns) > 1:
        what += f" in {columns[0]}"

    parts = [f"{what}, mean over seeds."]
    not_listed = text.not_listed(summary.clients)
    if not_listed:
        parts.append(not_listed)
    population = summary.population
    if population is not None and not population.same_on_every_seed:
        parts.append(
            "Each seed distributes the data differently: samples and distributions are those of "
            f"seed {population.seed}."
        )
    return " ".join(parts)


def _worth_note(summary: Summary) -> str:
    """How to read what clients are alone and together."""
    note = (
        "Alone is a model that each client trained on its own data and showed to nobody. With "
        "collaborators are the models of others, weighed by trust, without it. Used is both: "
        "samples held out of training, never test data, decide how much the collaborators count, "
        "which is the share of collaborators. How sure it is which of the two is better comes from "
        "the same few samples, which also chose whom to trust: it is rather too sure than too "
        "doubtful."
    )
    if summary.metric.explains_variance:
        note += (
            " A gain is counted in shares of the variance of all clients' test targets together: "
            "R2 of a few nearly equal targets can be anything."
        )
    of_one_seed = [entry for entry in summary.worth_known if entry.clients_of_seed is not None]
    population = summary.population
    if of_one_seed:
        note += (
            " Each seed has clients of its own: single clients are those of "
            f"seed {of_one_seed[0].clients_of_seed}, and the sentence above counts those of all."
        )
    elif population is not None and not population.same_on_every_seed:
        note += " Each seed distributes the data differently: all figures are means over seeds."
    return note


def _own_figure(path: Path) -> Plain | None:
    """The figure in the manner of the paper, where one was drawn; not one from elsewhere."""
    file = path / f"{OWN_FIGURE}.png"
    if file.is_symlink() or not file.exists():
        return None
    try:
        dark = for_dark_page(file)
    except RunError:
        return None  # a damaged picture hides nothing else
    return {
        "address": _address(file.read_bytes()),
        "dark": _address(dark),
        "caption": CAPTIONS["figure"],
    }


def _address(image: bytes) -> str:
    """The picture as part of a page."""
    return f"data:image/png;base64,{base64.b64encode(image).decode('ascii')}"


def _paper(summary: Summary) -> str:
    """What the paper concludes of the same experiment; empty where it belongs to none."""
    paper = summary.table.paper
    if not paper.finding:
        return ""
    return f"The paper ({paper.where}): {paper.finding}"


def _sources(summary: Summary) -> list[Plain]:
    """Each command, what came from it, and with which code and where it ran."""
    found = []
    for source in summary.sources:
        part = ""
        if len(summary.sources) > 1:
            part = text.part(summary, source.command)
        found.append(
            {
                "command": source.provenance.command,
                "part": part,
                "origin": text.origin(source),
            }
        )
    return found


def _origins(cells: Sequence[Description]) -> list[Plain]:
    """What the data of every seed hashed to: more than once where columns differ in their data."""
    found = {(cell.seed, cell.data_hash, cell.partition_hash) for cell in cells}
    lines = []
    for seed, data, partition in sorted(found):
        lines.append({"seed": seed, "data": data, "partition": partition})
    return lines


def _versions(summary: Summary) -> dict[str, str]:
    """Each package with its version, or all of them where runs had several."""
    found: dict[str, set[str]] = defaultdict(set)
    for source in summary.sources:
        for package, version in source.provenance.versions.items():
            found[package].add(version)
    listed = {}
    for package, versions in found.items():
        listed[package] = ", ".join(sorted(versions))
    return listed


def _extent(summary: Summary) -> dict[str, str]:
    """What was asked for beside the settings: two runs may differ in nothing else."""
    table = summary.table
    found = {
        "methods": ", ".join(row.title for row in table.rows),
        "rounds": f"{table.rounds:,}",
        "seeds": ", ".join(str(seed) for seed in table.seeds),
    }
    if table.columns != ("",):
        found["columns"] = ", ".join(table.columns)
    return found


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
    """Every key with the tables it is in, and its value in words."""
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, _in_words(value)


def _in_words(value: object) -> str:
    if value is None:
        return "not set"
    if value is True:
        return "yes"
    if value is False:
        return "no"
    if value == []:
        return "none"
    if isinstance(value, list):
        return ", ".join(str(each) for each in value)
    return str(value)
