"""`federico data`."""

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
from federico.data.sources import catalogue

PRESENT = {True: "here", False: "not here", None: "you name the files"}


def show_sources(*, as_json: bool) -> None:
    """Every kind of data, and whether its files are there."""
    entries = catalogue(data_folder())
    if as_json:
        print_json([asdict(entry) for entry in entries])
        return
    table = Table(
        "kind", "what", "files", title=f"Kinds of data; files are looked for in {data_folder()}"
    )
    for entry in entries:
        table.add_row(entry.kind, entry.summary.splitlines()[0], PRESENT[entry.present])
    out.print(table)


def get_data(name: str, *, url: str | None, md5: str | None, quiet: bool) -> None:
    """Download and unpack, with a bar."""
    columns = (
        TextColumn(name),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err, disable=quiet or not err.is_terminal) as bar:
        task = bar.add_task(name, total=None)
        place = fetch(
            name,
            data_folder(),
            lambda have, total: bar.update(task, completed=have, total=total),
            url,
            md5,
        )
    if not quiet:
        out.print(f"{name} is in {place}", **PLAIN)
