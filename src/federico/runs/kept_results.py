"""Results that are kept: `results/<name>`, to which the results of runs are added.

A result may grow over days and machines. What is added is united with what is there; a cell with
the same key replaces the earlier one.
"""

import fcntl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from federico.errors import RunError
from federico.runs.atomic import disk_errors
from federico.runs.results import CellResult, RateKind, merge_results, read_results
from federico.runs.table import TABLE, TableDescription, merge_tables, read_table, write_table

LOCK = ".lock"


def keep_results(target: Path, table: TableDescription, results: Sequence[CellResult]) -> None:
    """Add results to the folder that keeps them, or refuse if it has others of the same rows."""
    with _locked(target.parent):
        with disk_errors(target):
            target.mkdir(exist_ok=True)
        refuse_changed(target, {place_of(line): line.settings for line in results})
        if (target / TABLE).exists():
            table = merge_tables(read_table(target), table)
        merge_results(target, results)
        write_table(target, table)


Place: TypeAlias = tuple[str, str, RateKind]
"""A row, a column, and a kind of learning rate."""


def place_of(line: CellResult) -> Place:
    """Where a result stands in its table."""
    return (line.row, line.column, line.rate_kind)


def refuse_changed(target: Path, settings: Mapping[Place, str]) -> None:
    """Refuse results whose settings are not those of the kept results in the same place."""
    kept, _ = read_results(target)
    for line in kept:
        row, column, _ = place_of(line)
        if settings.get(place_of(line), line.settings) != line.settings:
            in_column = f", column {column!r}" if column else ""
            raise RunError(
                f"{target}: holds results of other settings (row {row!r}{in_column}: an option, or "
                "the default of one, has changed since). Choose another name, or move the folder "
                "away"
            )


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Wait for other commands that save, and keep them waiting.

    What is read to be added to must still be what is there when the union is written.
    """
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / LOCK).open("w")
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
