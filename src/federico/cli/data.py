"""`federico data`: list the kinds of data and download datasets."""

from dataclasses import asdict

from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Table

from federico.cli.console import PLAIN, err, out, print_json
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


def get_data(name: str, *, url: str | None, md5: str | None, quiet: bool) -> None:
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

        folder = fetch(name, data_folder(), show, url, md5)

    if not quiet:
        out.print(f"{name} is in {folder}", **PLAIN)
