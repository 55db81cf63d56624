"""What `federico.run` shows while it runs: a bar in a notebook or a terminal, else nothing."""

import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from federico.data.summary import DataSummary
from federico.experiment.grid import Cell
from federico.experiment.observer import Callback
from federico.runs.layout import CellDir, Description
from federico.runs.metric import metric_of
from federico.runs.records import Record
from federico.runs.results import CellResult


class Quiet(Callback):
    """Shows nothing; what a person should know goes to standard error."""

    def say(self, message: str) -> None:
        """Write one line."""
        sys.stderr.write(f"federico: {message}\n")


class RoundBars(Quiet):
    """A bar for every cell (a method on a seed), with the figure it has reached.

    Cells that were finished before have none. In a notebook the bars stay below the code, in a
    terminal above the prompt.
    """

    def __init__(self, console: Console) -> None:
        self._bars = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[reached]}", markup=False),
            console=console,
        )
        self._rounds: dict[str, int] = {}
        self._bar_of: dict[Path, TaskID] = {}

    def __enter__(self) -> Self:
        """Show the bars."""
        self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the bars as they are."""
        self._bars.stop()

    def data_loaded(self, summary: DataSummary) -> None:
        """Write what the data looks like above the bars."""
        for line in summary.lines:
            self._bars.console.print(line, highlight=False, markup=False)

    def started(self, cells: Sequence[Cell], finished: Sequence[CellResult]) -> None:
        """Remember how many rounds each method plays."""
        for cell in cells:
            self._rounds[_name(cell.method, cell.seed, cell.column)] = cell.rounds

    def cell_started(self, cell: CellDir, rounds_before: int) -> None:
        """Show a bar for this cell."""
        about = cell.description
        name = _name(about.method, about.seed, about.column)
        self._bar_of[cell.path] = self._bars.add_task(
            f"{about.title or about.method}, seed {about.seed}",
            total=self._rounds.get(name),
            completed=rounds_before,
            reached="",
        )

    def round_done(self, cell: CellDir, record: Record) -> None:
        """Move the bar on."""
        self._bars.update(
            self._bar_of[cell.path],
            completed=record.round,
            reached=_reached(cell.description, record),
        )

    def say(self, message: str) -> None:
        """Write one line above the bars."""
        self._bars.console.print(f"federico: {message}", highlight=False, markup=False)


def bars_wanted(progress: bool | None) -> bool:
    """Whether to show bars: as asked for, else only where a person is looking on."""
    if progress is not None:
        return progress
    return Console(stderr=True).is_terminal or Console().is_jupyter


def bars() -> RoundBars:
    """Bars on standard error, or below the code of a notebook."""
    in_notebook = Console().is_jupyter
    return RoundBars(Console(stderr=not in_notebook, emoji=False))


def _name(method: str, seed: int, column: str) -> str:
    return f"{method} {seed} {column}"


def _reached(about: Description, record: Record) -> str:
    """The mean figure of all clients; empty where the round was not evaluated."""
    if record.figures is None:
        return ""
    metric = metric_of(about.task)
    samples = []
    for train, test in zip(about.train_samples, about.test_samples, strict=True):
        samples.append(train + test)
    return metric.named(metric.mean(record.figures, samples))
