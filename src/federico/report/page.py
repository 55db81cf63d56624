"""One HTML page that needs nothing else: sentences, tables, pictures, settings, sources."""

import base64
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from federico.report import text
from federico.report.about_client import about_client
from federico.report.aggregate import Population, Summary
from federico.report.details import RunDetails
from federico.report.figures import CAPTIONS, WORTH, trust_beside
from federico.report.tables import MISSING, TableCell, TextTable, all_tables, worth_tables
from federico.runs.layout import Description


@dataclass(frozen=True)
class PagePicture:
    """A picture inside the page."""

    name: str
    caption: str
    address: str


@dataclass(frozen=True)
class SettingsTable:
    """One table of settings: its title, and every key with its value."""

    title: str
    values: list[tuple[str, str]]


@dataclass(frozen=True, order=True)
class DataOrigin:
    """What the data of one seed hashed to."""

    seed: int
    data: str
    partition: str


def page(summary: Summary, details: RunDetails, images: Mapping[str, bytes]) -> str:
    """The page; `images` are PNGs by name. The template escapes names and commands."""
    environment = Environment(
        loader=PackageLoader("federico.report", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    posteriors = details.posteriors
    not_listed = ""
    if posteriors is not None:
        not_listed = text.not_listed(len(posteriors.clients))

    pictures = _pictures(summary, details, images)
    template = environment.get_template("page.html")
    return template.render(
        table=summary.table,
        headline=text.headline(summary),
        trust=text.trust(summary),
        extent=text.extent(summary),
        progress=text.progress(summary),
        worse_than_mean=text.worse_than_mean(summary),
        beside=text.beside(summary),
        differences=text.differences(summary),
        tables=all_tables(summary),
        notes=text.notes(summary),
        worth=text.worth(summary),
        worth_note=_worth_note(summary),
        worth_pictures=[picture for picture in pictures if picture.name == WORTH],
        worth_tables=worth_tables(summary),
        pictures=[picture for picture in pictures if picture.name != WORTH],
        posteriors=posteriors,
        collaborators=_collaborators(details),
        clients=_clients(summary),
        clients_note=_clients_note(summary),
        settings=_settings(details.descriptions),
        sources=_sources(summary),
        origins=_origins(details.descriptions),
        versions=_versions(summary),
        not_listed=not_listed,
    )


def _pictures(
    summary: Summary, details: RunDetails, images: Mapping[str, bytes]
) -> list[PagePicture]:
    found = []
    for name, png in images.items():
        caption = CAPTIONS[name]
        if name == "overview" and trust_beside(summary, details.posteriors):
            caption = f"{caption} {CAPTIONS['trust']}"
        encoded = base64.b64encode(png).decode("ascii")
        found.append(PagePicture(name, caption, f"data:image/png;base64,{encoded}"))
    return found


def _collaborators(details: RunDetails) -> list[str]:
    shown = details.posteriors
    if shown is None:
        return []
    groups: dict[str, int] = {}
    if shown.groups is not None:
        groups = dict(zip(shown.clients, shown.groups, strict=True))
    listed = shown.evidence[: text.MOST_CLIENTS]
    return [about_client(evidence, groups) for evidence in listed]


def _clients(summary: Summary) -> TextTable | None:
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
    return TextTable("Clients", headings, lines)


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

    population = summary.population
    parts = [f"{what}, mean over seeds."]
    if population is not None and not population.same_on_every_seed:
        parts = [
            f"{what} with seed {population.seed}: every seed divides the data anew, and a client "
            "of the same name is then another one."
        ]
    not_listed = text.not_listed(summary.clients)
    if not_listed:
        parts.append(not_listed)
    return " ".join(parts)


def _worth_note(summary: Summary) -> str:
    """How to read what clients are alone and together."""
    note = (
        "Alone is a model that each client trained on its own data and showed to nobody. With "
        "collaborators are the models of others, weighed by trust, without it. Used is both: "
        "samples held out of training, never test data, decide how much the collaborators count, "
        "which is the share in the last column."
    )
    if summary.metric.explains_variance:
        note += (
            " A gain is counted in shares of the variance of all clients' test targets together: "
            "R2 of a few nearly equal targets can be anything."
        )
    population = summary.population
    if population is not None and not population.same_on_every_seed:
        note += " Every seed divides the data anew: these are the clients of one seed."
    return note


def _settings(cells: Sequence[Description]) -> list[SettingsTable]:
    """The options of all cells; where rows or columns differ, every value they have."""
    # By the title of the table, then by the name of the setting.
    merged: dict[str, dict[str, list[str]]] = {}
    for cell in cells:
        for key, value in _flat(cell.options):
            title, _, name = key.partition(".")
            if not name:
                title = "other"
                name = key
            by_name = merged.setdefault(title, {})
            values = by_name.setdefault(name, [])
            if value not in values:
                values.append(value)

    tables = []
    for title, by_name in merged.items():
        rows = []
        for name, values in by_name.items():
            rows.append((name, " / ".join(values)))
        tables.append(SettingsTable(title, rows))
    # What belongs to no table comes last.
    return sorted(tables, key=lambda table: table.title == "other")


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


def _sources(summary: Summary) -> list[tuple[str, str, str]]:
    """What came from each command, the command, and with which code and where it ran."""
    found = []
    for source in summary.sources:
        part = text.part(summary, source.command)
        origin = text.origin(source)
        found.append((part, source.provenance.command, origin))
    return found


def _origins(cells: Sequence[Description]) -> list[DataOrigin]:
    """What the data of every seed hashed to: more than once where columns differ in their data."""
    found = set()
    for cell in cells:
        found.add(DataOrigin(cell.seed, cell.data_hash, cell.partition_hash))
    return sorted(found)


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
