"""How long a study will take, from a miniature of each row or from what it has already run."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from federico.compare.drawable import check_figure
from federico.compare.queue import play
from federico.compare.run import EVERYTHING, Part, best_cells, check_cells, first_cells
from federico.compare.study import Cell, Study
from federico.compare.studydir import PlayedCell, StudyDir

MINIATURE = 4
"""Rounds of a miniature; the first of them is not like the others (caches, training alone) and does not count."""


@dataclass(frozen=True)
class Estimate:
    """What is to be done for one row."""

    row: str
    runs: int
    finished: int
    seconds: float
    """For all that is not finished."""


def estimate(study: Study, folder: StudyDir, part: Part = EVERYTHING) -> list[Estimate]:
    """One per row; runs at learning rates that are not chosen yet are counted as different from all others."""
    part.check(study)
    check_figure(study)
    cells = first_cells(study, folder, part)
    unchosen = _unchosen(study, folder, part)
    check_cells(cells)
    found = []
    for row in dict.fromkeys(cell.row for cell in [*cells, *unchosen]):
        mine = list(
            {
                cell.name: cell
                for cell in [*cells, *best_cells(study, folder, part)]
                if cell.row == row
            }.values()
        )
        mine += [cell for cell in unchosen if cell.row == row]
        done = folder.finished(mine)
        left = sum(cell.experiment.rounds - len(folder.cell(cell).records) for cell in mine)
        each = _seconds_per_round(mine[0], folder) if left else 0.0
        found.append(Estimate(row, len(mine), len(done), left * each))
    return found


def _unchosen(study: Study, folder: StudyDir, part: Part) -> list[Cell]:
    """The runs to come once their learning rate is known, taken at the given one."""
    if "best" not in part.rates(study):
        return []
    return [
        cell
        for row, column in part.pairs(study)
        if folder.best_rate(study, row, column) is None
        for cell in study.cells(row, column, "best")
    ]


def _seconds_per_round(cell: Cell, folder: StudyDir) -> float:
    played = folder.cell(cell)
    if len(played.spent) > 1:
        return _mean_round(played)
    short = cell.experiment.model_copy(update={"rounds": min(MINIATURE, cell.experiment.rounds)})
    small = Cell(cell.row, cell.column, cell.at, short)
    with tempfile.TemporaryDirectory() as place:
        play([small], Path(place), 1, lambda news: None)
        return _mean_round(StudyDir(Path(place)).cell(small))


def _mean_round(played: PlayedCell) -> float:
    rounds = [sum(spent.seconds.values()) for spent in played.spent]
    return float(np.mean(rounds[1:] or rounds))
