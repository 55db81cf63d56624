"""What only the folders of the cells know; results that are kept without cells have none of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from federico.report.aggregate import aggregate
from federico.report.posteriors import Posteriors, read_posteriors
from federico.report.table_summary import Summary
from federico.runs.cell_result import cell_result
from federico.runs.layout import CellDir, Description, RunDir
from federico.runs.results import CellResult, read_results
from federico.runs.table import OURS, TableDescription, read_table


@dataclass(frozen=True)
class RunDetails:
    """Settings, data and posteriors of a run whose cells are there."""

    descriptions: list[Description]
    """What every cell says of itself, in the order of the table."""
    posteriors: Posteriors | None
    """Whose models the clients trust, in the cell that is shown in full."""


def summarize(folder: Path) -> Summary:
    """Read a run directory, finished or not, or a folder of kept results, and take all means."""
    table = read_table(folder)
    cells, stored = read_results(folder)
    return aggregate(table, cells, stored, unfinished_cells(folder, table))


def unfinished_cells(folder: Path, table: TableDescription) -> list[CellResult]:
    """The cells that have begun and are not finished, as far as they have come."""
    found = []
    for cell in RunDir(folder).cells():
        done = cell.rounds_done
        # Tuning may be shorter than the table asks for; how short is not known here.
        tuning = cell.description.rate_kind == "tuning"
        if not done or (done < table.rounds and not tuning):
            found.append(cell_result(cell))
    return found


def read_details(folder: Path, table: TableDescription) -> RunDetails:
    """Read what the cells of a run say of themselves."""
    rows = [row.name for row in table.rows]

    def order(cell: CellDir) -> tuple[int, int, int]:
        about = cell.description
        column = _place(about.column, table.columns)
        return column, _place(about.row, rows), about.seed

    # Tuning trains without a part of the data: its cells are not what the report is about.
    cells = []
    for cell in RunDir(folder).cells():
        if cell.description.rate_kind != "tuning":
            cells.append(cell)
    cells.sort(key=order)
    descriptions = [cell.description for cell in cells]
    return RunDetails(descriptions, _shown_posteriors(cells))


def _shown_posteriors(cells: list[CellDir]) -> Posteriors | None:
    """The posteriors of FedeRiCo's first cell, else of the first that has any over clients."""
    ours_first = sorted(cells, key=lambda cell: cell.description.method != OURS)
    tried: set[str] = set()
    for cell in ours_first:
        # What one cell of a row does not have, its other cells do not have either.
        row = cell.description.row
        if row in tried:
            continue
        tried.add(row)
        posteriors = read_posteriors(cell)
        if posteriors is not None and posteriors.of_clients:
            return posteriors
    return None


def _place(name: str, names: Sequence[str]) -> int:
    """Where the name stands; after all others if the table no longer has it."""
    if name not in names:
        return len(names)
    return names.index(name)
