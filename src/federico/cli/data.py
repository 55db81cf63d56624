"""`federico data`: show the data of an experiment, list the kinds of data, download datasets."""

from dataclasses import asdict
from pathlib import Path

from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Table

from federico.cli.console import PLAIN, err, out, print_json, print_lines
from federico.data.download import fetch
from federico.data.files import data_folder
from federico.data.sources import list_sources

PRESENT = {True: "here", False: "not here", None: "you name the files"}


def show_sources(*, as_json: bool) -> None:
    """Print every kind of data, and whether its files are here."""
    folder = data_folder()
    sources = list_sources(folder)
    if as_json:
        print_json([asdict(source) for source in sources])
        return

    title = f"Kinds of data; files are looked for in {folder}"
    table = Table("kind", "what", "files", title=title)
    for source in sources:
        table.add_row(source.kind, source.summary, PRESENT[source.present])
    out.print(table)


def show_data(file: Path, overrides: list[str], *, trust: bool, as_json: bool) -> None:
    """Print what the data of an experiment looks like; of a grid, that of its first column."""
    from federico.experiment.grid import load_grid
    from federico.experiment.problems import ProblemCache
    from federico.own_code import trust_if, trusting

    with trusting(trust_if(trust)):
        grid = load_grid(file, overrides)
        row, column = grid.places()[0]
        cell = grid.cells(row, column, "given")[0]
        summary = ProblemCache().summary(cell)
    if as_json:
        print_json({**summary.facts, "odd": list(summary.odd)})
    else:
        print_lines(out, summary.lines)


def get_data(name: str, *, url: str | None, sha256: str | None, quiet: bool) -> None:
    """Download and unpack a dataset, with a progress bar."""
    columns = (
        TextColumn(name),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    hidden = quiet or not err.is_terminal
    with Progress(*columns, console=err, disable=hidden) as bar:
        task = bar.add_task(name, total=None)

        def show(have: int, total: int | None) -> None:
            bar.update(task, completed=have, total=total)

        folder = fetch(name, data_folder(), show, url, sha256)

    if not quiet:
        out.print(f"{name} is in {folder}", **PLAIN)
