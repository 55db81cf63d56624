"""Who is told how a run goes."""

from collections.abc import Sequence

from federico.data.summary import DataSummary
from federico.experiment.grid import Cell
from federico.runs.layout import CellDir
from federico.runs.records import Record
from federico.runs.results import CellResult


class Observer:
    """Is told how the run goes, to show it to somebody; does nothing that is not overridden."""

    def data_loaded(self, summary: DataSummary) -> None:
        """The data of the first cell that is to be run is loaded, and looks like this."""

    def started(self, cells: Sequence[Cell], finished: Sequence[CellResult]) -> None:
        """These cells are asked for; those in `finished` have their results already."""

    def cell_started(self, cell: CellDir, rounds_before: int) -> None:
        """A cell starts, or resumes after this many rounds."""

    def round_done(self, cell: CellDir, record: Record) -> None:
        """A round is over and recorded; `figures` are by metric, one for each client."""

    def cell_finished(self, cell: CellDir, results: Sequence[CellResult]) -> None:
        """A cell has all its rounds; it may stand in several rows of the table."""

    def say(self, message: str) -> None:
        """Something a person should know, in one line."""


class Callback(Observer):
    """Is told how a run goes: derive a class and override what you want to be told of.

    `federico.run(callbacks=[...])` takes objects of such classes. A cell is one method on one seed;
    `cell.description` names it. For example:

        class Rounds(federico.Callback):
            def round_done(self, cell, record):
                print(cell.description.method, record.round, record.figures)
    """


class Several(Observer):
    """Tells several observers, one after the other."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = tuple(observers)

    def data_loaded(self, summary: DataSummary) -> None:
        """Tell all of them."""
        for observer in self._observers:
            observer.data_loaded(summary)

    def started(self, cells: Sequence[Cell], finished: Sequence[CellResult]) -> None:
        """Tell all of them."""
        for observer in self._observers:
            observer.started(cells, finished)

    def cell_started(self, cell: CellDir, rounds_before: int) -> None:
        """Tell all of them."""
        for observer in self._observers:
            observer.cell_started(cell, rounds_before)

    def round_done(self, cell: CellDir, record: Record) -> None:
        """Tell all of them."""
        for observer in self._observers:
            observer.round_done(cell, record)

    def cell_finished(self, cell: CellDir, results: Sequence[CellResult]) -> None:
        """Tell all of them."""
        for observer in self._observers:
            observer.cell_finished(cell, results)

    def say(self, message: str) -> None:
        """Tell all of them."""
        for observer in self._observers:
            observer.say(message)
