"""Which cell of a run stands in which place of its table: a row and a column."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from federico.runs.layout import CellDir
from federico.runs.results import read_results
from federico.runs.table import TABLE, read_table


@dataclass(frozen=True)
class Place:
    """A row and a column of the table, and a cell that stands there."""

    row: str
    column: str
    cell: CellDir


def in_table_order(folder: Path, cells: Sequence[CellDir]) -> list[CellDir]:
    """By method, then by row, column, kind of learning rate and seed as the table lists them.

    Where no table was written down, they stay as they are.
    """
    if not (folder / TABLE).is_file():
        return list(cells)
    table = read_table(folder)
    rows = [row.name for row in table.rows]

    def place(cell: CellDir) -> tuple[str, int, int, int, int]:
        about = cell.description
        return (
            about.method,
            _position(about.row, rows),
            _position(about.column, table.columns),
            _position(about.rate_kind, table.rates),
            about.seed,
        )

    return sorted(cells, key=place)


def places(folder: Path, cells: Sequence[CellDir]) -> list[Place]:
    """Every place of every cell, first the one that it was run for.

    Settings that make no difference to a method are run once: its cell then stands in several
    places, and the lines of results say in which.
    """
    found = [Place(cell.description.row, cell.description.column, cell) for cell in cells]

    lines, _ = read_results(folder)
    for cell in cells:
        about = cell.description
        settings = (about.method, about.settings, about.rate, about.seed)
        for line in lines:
            if (line.method, line.settings, line.rate, line.seed) == settings:
                found.append(Place(line.row, line.column, cell))
    return found


def _position(name: str, names: Sequence[str]) -> int:
    """Where a name stands in a list; what is not in it comes last."""
    return names.index(name) if name in names else len(names)
