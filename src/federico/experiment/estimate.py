"""How long an experiment will take, from a miniature of each row or from what has been run."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from federico import compat
from federico.exchange.processes import SingleProcess
from federico.experiment.figure_check import check_figure
from federico.experiment.grid import Cell, Grid
from federico.experiment.observer import Callback
from federico.experiment.problems import ProblemCache
from federico.experiment.runner import GridRun, prepare_process, run_cell
from federico.experiment.selection import (
    EVERYTHING,
    NOTHING_KNOWN,
    KnownResults,
    Selection,
    best_cells,
    first_cells,
)
from federico.runs.layout import CellDir, RunDir
from federico.runs.results import read_results

MINIATURE = 4
"""Rounds of a miniature. The first is not like the others (caches, training alone) and left out."""


@dataclass(frozen=True)
class Estimate:
    """What is left to be done for one row."""

    row: str
    title: str
    runs: int
    finished: int
    seconds: float
    """Seconds by the clock on the wall for all that is not finished, one run after the other."""


def estimate(
    grid: Grid,
    root: Path,
    selection: Selection = EVERYTHING,
    known: KnownResults = NOTHING_KNOWN,
) -> list[Estimate]:
    """One estimate for each row; nothing is written.

    Runs at learning rates that are not chosen yet are counted as different from all others.
    """
    selection.check(grid)
    check_figure(grid)
    run = RunDir(root / grid.name)
    problems = ProblemCache()
    work = GridRun(grid, run, Callback(), problems, "", SingleProcess(), jobs=1)
    cells = first_cells(grid, selection, run, known)
    work.check(cells, everything=False)
    best: list[Cell] = []
    if "best" in selection.kinds(grid):
        best = best_cells(grid, selection, run, known)
    unchosen = _unchosen(grid, selection, best)

    found = []
    for row in grid.rows:
        # A cell that stands in several places is run once.
        chosen = {cell.identity: cell for cell in [*cells, *best] if cell.row == row.name}
        mine = [*chosen.values(), *(cell for cell in unchosen if cell.row == row.name)]
        if mine:
            found.append(_estimate_row(mine, work, problems))
    return found


def _estimate_row(cells: Sequence[Cell], work: GridRun, problems: ProblemCache) -> Estimate:
    """How long the cells of a row that are not finished would take, by playing a miniature."""
    results, _ = read_results(work.run.path)
    keys = {line.key for line in results}
    finished = sum(cell.key in keys for cell in cells)
    rounds_left = 0
    for cell in cells:
        if cell.key not in keys:
            rounds_left += cell.rounds - len(work.folder(cell).spent)

    seconds = 0.0
    if rounds_left > 0:
        seconds = rounds_left * _seconds_per_round(cells[0], work, problems)
    return Estimate(cells[0].row, cells[0].title, len(cells), finished, seconds)


def _unchosen(grid: Grid, selection: Selection, best: Sequence[Cell]) -> list[Cell]:
    """The runs to come once their learning rate is known, taken at the given one."""
    if "best" not in selection.kinds(grid):
        return []
    chosen = {(cell.row, cell.column) for cell in best}
    cells: list[Cell] = []
    for row, column in selection.places(grid):
        if (row.name, column.name) not in chosen:
            cells += grid.cells(row, column, "best")
    return cells


def _seconds_per_round(cell: Cell, work: GridRun, problems: ProblemCache) -> float:
    """Seconds of one round: as measured before, or of a short run in a temporary folder."""
    folder = work.folder(cell)
    if len(folder.spent) > 1:
        return _mean_round(folder)

    rounds = min(MINIATURE, cell.rounds)
    miniature = replace(cell, experiment=cell.experiment.model_copy(update={"rounds": rounds}))
    setup = problems.setup(miniature)
    threads = compat.thread_count()
    with tempfile.TemporaryDirectory() as place:
        run = RunDir(Path(place))
        storage = prepare_process(setup, run, SingleProcess(), threads)
        folder = CellDir(run.path / miniature.identity)
        run_cell(folder, miniature, setup, Callback(), storage=storage)
        seconds = _mean_round(folder)
    compat.use_threads(threads)
    return seconds


def _mean_round(folder: CellDir) -> float:
    rounds = [sum(spent.seconds.values()) for spent in folder.spent]
    return float(np.mean(rounds[1:] or rounds))
