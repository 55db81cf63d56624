"""Results that are kept: `results/<name>`, to which the results of runs are added.

A result may grow over days and machines. What is added is united with what is there; a cell with
the same key replaces the earlier one.
"""

import fcntl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from federico.errors import RunError
from federico.runs.atomic import disk_errors
from federico.runs.results import CellResult, merge_results, read_results
from federico.runs.table import TABLE, TableDescription, merge_tables, read_table, write_table

LOCK = ".lock"


def keep_results(target: Path, table: TableDescription, results: Sequence[CellResult]) -> None:
    """Add results to the folder that keeps them, or refuse if it has others of the same rows."""
    with _locked(target.parent):
        with disk_errors(target):
            target.mkdir(exist_ok=True)
        _refuse_changed(target, results)
        if (target / TABLE).exists():
            table = merge_tables(read_table(target), table)
        merge_results(target, results)
        write_table(target, table)


def _refuse_changed(target: Path, results: Sequence[CellResult]) -> None:
    """Refuse results of a row whose kept results come from other settings."""
    kept, _ = read_results(target)
    settings = {(line.row, line.column, line.rate_kind): line.settings for line in kept}
    for line in results:
        place = (line.row, line.column, line.rate_kind)
        if settings.get(place, line.settings) != line.settings:
            column = f", column {line.column!r}" if line.column else ""
            raise RunError(
                f"{target}: holds another experiment (row {line.row!r}{column} had other "
                "settings). "
                "Choose another --name, or move the folder away"
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
