"""One HTML page that needs nothing else: figures inside, no script, no request to anywhere."""

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, Template

from federico.report.old import words
from federico.report.old.figures import GALLERY
from federico.report.old.summary import Summary
from federico.report.old.table import row
from federico.runs.layout import Description


@dataclass(frozen=True)
class Settings:
    """One table of the options."""

    title: str
    values: list[tuple[str, str]]


@dataclass(frozen=True)
class Origin:
    """What one seed's data hashed to."""

    seed: int
    data: str
    partition: str


def page(summary: Summary, images: Mapping[str, bytes]) -> str:
    """The page; `images` are the PNGs by the name of their picture. Names and commands are escaped by the template."""
    return template("federico.report.old").render(
        summary=summary,
        headline=words.headline(summary),
        trust=words.trust(summary),
        progress=words.progress(summary),
        extent=_extent(summary),
        rows=[(method, row(summary, method)[1:]) for method in summary.methods],
        pictures=[
            (picture, embedded(images[picture.name]))
            for picture in GALLERY
            if picture.name in images
        ],
        collaborators=_collaborators(summary),
        clients=list(_clients(summary)),
        not_listed=words.not_listed(len(summary.first.clients)),
        settings=_settings(summary.cells),
        origins=_origins(summary.cells),
        versions=_versions(summary.cells),
        commands=sorted({cell.command for cell in summary.cells if cell.command}),
    )


def template(package: str) -> Template:
    """The `page.html` of a package; its style is that of all pages."""
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package, ""), PackageLoader("federico.report.old", "")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html")


def embedded(png: bytes) -> str:
    """The address of an image that is inside the page."""
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")


def _extent(summary: Summary) -> str:
    first = summary.first
    parts = [
        words.count(len(first.clients), "client"),
        words.count(len(summary.methods), "method"),
        words.count(len(summary.seeds), "seed"),
        *([words.count(summary.rounds, "round")] if summary.rounds else []),
        f"models of {first.model_parameters:,} parameters",
    ]
    return ", ".join(parts)


def _collaborators(summary: Summary) -> list[str]:
    shown = summary.collaboration
    return [] if shown is None else list(words.collaborators(shown.description, shown.latest))


def _clients(summary: Summary) -> Iterator[tuple[str, ...]]:
    """Name, distribution, samples, and each method's mean over seeds."""
    first, metric = summary.first, summary.metric
    for place, client in enumerate(first.clients[: words.MOST_CLIENTS]):
        values = [method.by_client.get(client) for method in summary.methods]
        yield (
            client,
            "-" if first.distribution is None else str(first.distribution[place]),
            str(first.train_samples[place]),
            str(first.test_samples[place]),
            *("-" if value is None else metric.bare(value) for value in values),
        )


def _settings(cells: list[Description]) -> list[Settings]:
    """The options of all methods together; what is common to them is the same in all."""
    merged: dict[str, Any] = {}
    for cell in cells:
        merged |= cell.options
    tables = [
        Settings(title, list(_flat(values)))
        for title, values in merged.items()
        if isinstance(values, dict)
    ]
    loose = [(key, _spoken(value)) for key, value in merged.items() if not isinstance(value, dict)]
    return [*tables, Settings("other", loose)] if loose else tables


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, _spoken(value)


def _spoken(value: object) -> str:
    match value:
        case None:
            return "not set"
        case bool():
            return "yes" if value else "no"
        case list():
            return ", ".join(map(str, value)) or "none"
        case _:
            return str(value)


def _origins(cells: list[Description]) -> list[Origin]:
    found = {Origin(cell.seed, cell.data_hash, cell.partition_hash) for cell in cells}
    return sorted(found, key=lambda origin: origin.seed)


def _versions(cells: list[Description]) -> dict[str, str]:
    """Each package with its version, or all of them where a run was continued with another."""
    found: dict[str, set[str]] = {}
    for cell in cells:
        for package, version in cell.versions.items():
            found.setdefault(package, set()).add(version)
    return {package: ", ".join(sorted(versions)) for package, versions in found.items()}
