"""The directory of a study: a run directory per cell, and what is read from them.

runs/<study>/ comparison/   report.html  table.md  table.tex  runs.csv  figures/
              <method>-<seed>-<hash of its settings>/   the run directory of a cell, as `federico run` would write it
"""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from federico.compare.study import Cell, Column, Row, Study
from federico.compare.tuning import Tuned
from federico.errors import RunError
from federico.report.old.metric import metric_of
from federico.runs.layout import CellDir, RunDir
from federico.runs.records import Record
from federico.stopwatch import Spent


class PlayedCell(CellDir):
    """A cell as it stands, or as it stood after the rounds that were asked for: it may have gone on since."""

    def __init__(self, path: Path, cell: Cell) -> None:
        super().__init__(path)
        self.cell, self.rounds = cell, cell.experiment.rounds

    @cached_property
    def records(self) -> list[Record]:
        """Rounds that count."""
        return [record for record in super().records if record.round <= self.rounds]

    @cached_property
    def spent(self) -> list[Spent]:
        """What the rounds that count took."""
        return super().spent[: self.rounds]

    @property
    def finished(self) -> bool:
        """Whether all rounds that were asked for are there."""
        return self.rounds_done >= self.rounds

    @property
    def figure(self) -> float | None:
        """What it is judged by, at its last evaluated round."""
        metric = metric_of(self.description.task)
        found = [metric.mean(record, self.description) for record in reversed(self.records)]
        return next((value for value in found if value is not None), None)


class StudyDir:
    """Where the cells of a study are run and read."""

    def __init__(self, path: Path, earlier: Sequence[Tuned] = ()) -> None:
        """With the learning rates that were chosen earlier, in runs that need not be here."""
        self.path, self.earlier = path, earlier
        self._read: dict[tuple[str, int], PlayedCell] = {}

    def cell(self, cell: Cell) -> PlayedCell:
        """The cell's directory, there or not; a finished one is read once."""
        key = cell.name, cell.experiment.rounds
        if key not in self._read or not self._read[key].finished:
            folder = RunDir(self.path / cell.name).cell(cell.method, cell.seed).path
            self._read[key] = PlayedCell(folder, cell)
        return self._read[key]

    def finished(self, cells: Sequence[Cell]) -> list[Cell]:
        """Those that have all their rounds."""
        return [cell for cell in cells if self.cell(cell).finished]

    def best_rate(self, study: Study, row: Row, column: Column) -> float | None:
        """The learning rate that scored best on the clients' validation parts; None before all of them are run."""
        found = self.tuned(study, row, column)
        return None if found is None else found.rate

    def tuned(self, study: Study, row: Row, column: Column) -> Tuned | None:
        """How the best learning rate was chosen: by the runs here, or earlier; None before it is."""
        return self._tuned_here(study, row, column) or self._tuned_earlier(study, row, column)

    def tuning_cells(self, study: Study, row: Row, column: Column) -> list[Cell]:
        """What is to be run to choose the rate; nothing where it was chosen earlier."""
        if self._tuned_earlier(study, row, column) and not self._tuned_here(study, row, column):
            return []
        return study.tuning_cells(row, column)

    def _tuned_earlier(self, study: Study, row: Row, column: Column) -> Tuned | None:
        return next((found for found in self.earlier if found.answers(study, row, column)), None)

    def _tuned_here(self, study: Study, row: Row, column: Column) -> Tuned | None:
        cells = study.tuning_cells(row, column)
        if len(self.finished(cells)) < len(cells):
            return None
        metric = metric_of(self.cell(cells[0]).description.task)
        scores = {
            rate: float(np.mean([_scored(self.cell(cell)) for cell in cells if cell.rate == rate]))
            for rate in study.compare.tuning.rates
        }
        return Tuned(
            row=row.name,
            column=column.name,
            settings=cells[0].settings,
            rounds=cells[0].experiment.rounds,
            seeds=list(dict.fromkeys(cell.seed for cell in cells)),
            scores=scores,
            rate=max(
                scores,
                key=lambda rate: (
                    metric.gain(scores[rate]) if np.isfinite(scores[rate]) else -np.inf
                ),
            ),
        )


def _scored(played: PlayedCell) -> float:
    if played.figure is None:
        raise RunError(
            f"{played.path.parent}: was tuned for more rounds before, and scored after the last of them only; "
            "delete the folder to tune anew, or choose another --directory"
        )
    return played.figure
