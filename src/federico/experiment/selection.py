"""Which cells of a grid are to be run: those asked for, at the learning rates that are known."""

from collections.abc import Sequence
from dataclasses import dataclass

from federico.errors import ConfigError
from federico.experiment.grid import Cell, Grid, ordered
from federico.experiment.grid_options import GridColumn, GridRow
from federico.experiment.tuning import best_rate
from federico.runs.layout import RunDir
from federico.runs.results import CellResult, StoredAggregate, read_results
from federico.runs.table import ShownRate


@dataclass(frozen=True)
class Selection:
    """Which part of a grid to run now; what is empty means all of it."""

    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    rates: tuple[str, ...] = ()

    def check(self, grid: Grid) -> None:
        """Refuse names that the grid does not have."""
        _require(grid, "--row", self.rows, [row.name for row in grid.rows])
        _require(grid, "--column", self.columns, [column.name for column in grid.columns])
        _require(grid, "--rate", self.rates, grid.options.rates)

    def places(self, grid: Grid) -> list[tuple[GridRow, GridColumn]]:
        """The rows and columns to run."""
        places: list[tuple[GridRow, GridColumn]] = []
        for row, column in grid.places():
            is_row = not self.rows or row.name in self.rows
            is_column = not self.columns or column.name in self.columns
            if is_row and is_column:
                places.append((row, column))
        return places

    def kinds(self, grid: Grid) -> list[ShownRate]:
        """The kinds of learning rate to run at."""
        return [kind for kind in grid.options.rates if not self.rates or kind in self.rates]


EVERYTHING = Selection()


@dataclass(frozen=True)
class KnownResults:
    """Results that are kept elsewhere: what was tuned there is not tuned again."""

    cells: Sequence[CellResult] = ()
    aggregates: Sequence[StoredAggregate] = ()


NOTHING_KNOWN = KnownResults()


def first_cells(
    grid: Grid, selection: Selection, run: RunDir, known: KnownResults = NOTHING_KNOWN
) -> list[Cell]:
    """All that can be run before a learning rate is chosen: at the given one, then for tuning."""
    kinds = selection.kinds(grid)
    given: list[Cell] = []
    tuning: list[Cell] = []
    here, _ = read_results(run.path)
    for row, column in selection.places(grid):
        if "given" in kinds:
            given += grid.cells(row, column, "given")
        if "best" in kinds:
            chosen_here = best_rate(grid, row, column, here)
            chosen_before = best_rate(grid, row, column, known.cells, known.aggregates)
            # What is known from elsewhere is not tuned again, but what was tuned here stays here.
            if chosen_here is not None or chosen_before is None:
                tuning += grid.tuning_cells(row, column)
    return ordered(given, grid) + tuning


def best_cells(
    grid: Grid, selection: Selection, run: RunDir, known: KnownResults = NOTHING_KNOWN
) -> list[Cell]:
    """What is run at the chosen learning rates, as far as these are chosen."""
    cells: list[Cell] = []
    here, _ = read_results(run.path)
    for row, column in selection.places(grid):
        rate = best_rate(grid, row, column, here)
        if rate is None:
            rate = best_rate(grid, row, column, known.cells, known.aggregates)
        if rate is not None:
            cells += grid.cells(row, column, "best", rate)
    return ordered(cells, grid)


def _require(grid: Grid, option: str, asked: Sequence[str], known: Sequence[str]) -> None:
    """Refuse a name that is none of the known ones."""
    for name in asked:
        if name in known:
            continue
        there_are = ", ".join(each for each in known if each)
        if not there_are:
            there_are = "no names to choose from"
        raise ConfigError(f"{option} {name}: {grid.name} has none of that name; it has {there_are}")
