"""Results that are kept: `results/<name>`, to which the results of runs are added.

A result may grow over days and machines. What is added is united with what is there; a cell with
the same key replaces the earlier one.
"""

from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path

from federico.errors import RunError
from federico.runs.atomic import disk_errors
from federico.runs.lock import locked
from federico.runs.results import CellResult, merge_results, read_results
from federico.runs.table import (
    TABLE,
    EntryKey,
    TableDescription,
    merge_tables,
    read_table,
    write_table,
)


def keep_results(target: Path, table: TableDescription, results: Sequence[CellResult]) -> None:
    """Add results to the folder that keeps them, or refuse if it has others of the same rows."""
    # What is read to be added to must still be what is there when the union is written.
    with locked(target.parent, patience=inf):
        with disk_errors(target):
            target.mkdir(exist_ok=True)
        refuse_changed(target, {entry_of(line): line.settings for line in results})
        if (target / TABLE).exists():
            table = merge_tables(read_table(target), table)
        merge_results(target, results)
        write_table(target, table)


def entry_of(line: CellResult) -> EntryKey:
    """Where a result stands in its table."""
    return (line.row, line.column, line.rate_kind)


def refuse_changed(target: Path, settings: Mapping[EntryKey, str]) -> None:
    """Refuse results whose settings are not those of the kept results in the same place."""
    kept, _ = read_results(target)
    for line in kept:
        row, column, _ = entry_of(line)
        if settings.get(entry_of(line), line.settings) != line.settings:
            in_column = f", column {column!r}" if column else ""
            raise RunError(
                f"{target}: holds results of other settings (row {row!r}{in_column}: an option, or "
                "the default of one, has changed since). Choose another name, or move the folder "
                "away"
            )
