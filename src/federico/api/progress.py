"""What `federico.run` shows while it runs: bars in a notebook or a terminal, else nothing."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from federico.data.summary import DataSummary
from federico.experiment.grid import Cell
from federico.experiment.observer import Callback
from federico.printable import printable
from federico.runs.layout import CellDir, Description
from federico.runs.metric import metric_of
from federico.runs.records import Record
from federico.runs.results import CellResult

SECONDS_BETWEEN_DRAWINGS = 0.1
"""A notebook is not sent more pictures than anybody can see."""


class Quiet(Callback):
    """Shows nothing; what a person should know goes to standard error."""

    def say(self, message: str) -> None:
        """Write one line."""
        sys.stderr.write(f"federico: {printable(message)}\n")


class Brief(Quiet):
    """Says in a few lines what the data looks like, for a script that nobody watches."""

    def data_loaded(self, summary: DataSummary) -> None:
        """Write how much there is, and what is odd about it."""
        for line in summary.short:
            self.say(line)


@dataclass
class Bar:
    """How far one cell is."""

    title: str
    rounds: int | None
    """How many it plays; None if nobody knows."""
    played: int
    reached: str = ""
    """The figure after the last evaluated round."""


class RoundBars(Quiet, ABC):
    """A bar for every cell (a method on a seed), with the figure it has reached.

    Cells that were finished before have none.
    """

    def __init__(self) -> None:
        self._rounds: dict[str, int] = {}
        self._bar_of: dict[Path, Bar] = {}

    @abstractmethod
    def __enter__(self) -> Self:
        """Begin to show bars."""

    @abstractmethod
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the bars as they are."""

    @abstractmethod
    def show(self, cell: Path, bar: Bar) -> None:
        """The bar of this cell is new, or has moved."""

    def started(self, cells: Sequence[Cell], finished: Sequence[CellResult]) -> None:
        """Remember how many rounds each method plays."""
        for cell in cells:
            self._rounds[_name(cell.method, cell.seed, cell.column)] = cell.rounds

    def cell_started(self, cell: CellDir, rounds_before: int) -> None:
        """Show a bar for this cell."""
        about = cell.description
        bar = Bar(
            title=f"{about.title or about.method}, seed {about.seed}",
            rounds=self._rounds.get(_name(about.method, about.seed, about.column)),
            played=rounds_before,
        )
        self._bar_of[cell.path] = bar
        self.show(cell.path, bar)

    def round_done(self, cell: CellDir, record: Record) -> None:
        """Move the bar on."""
        bar = self._bar_of[cell.path]
        bar.played = record.round
        bar.reached = _reached(cell.description, record) or bar.reached
        self.show(cell.path, bar)


class TerminalBars(RoundBars):
    """Bars above the prompt of a terminal."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._shown = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[reached]}", markup=False),
            console=console,
        )
        self._task_of: dict[Path, TaskID] = {}

    def __enter__(self) -> Self:
        """Show the bars."""
        self._shown.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the bars as they are."""
        self._shown.stop()

    def data_loaded(self, summary: DataSummary) -> None:
        """Write what the data looks like above the bars."""
        for line in summary.lines:
            self._shown.console.print(printable(line), highlight=False, markup=False)

    def show(self, cell: Path, bar: Bar) -> None:
        """Draw the bar."""
        if cell not in self._task_of:
            self._task_of[cell] = self._shown.add_task(bar.title, total=bar.rounds, reached="")
        self._shown.update(self._task_of[cell], completed=bar.played, reached=bar.reached)

    def say(self, message: str) -> None:
        """Write one line above the bars."""
        line = f"federico: {printable(message)}"
        self._shown.console.print(line, highlight=False, markup=False)


class NotebookBars(RoundBars):
    """Bars below the code of a notebook.

    They are plain HTML that replaces itself: no widgets have to be installed, and a notebook that
    was saved still shows them.
    """

    def __init__(self) -> None:
        super().__init__()
        self._output: Any = None
        self._drawn_at = 0.0

    def __enter__(self) -> Self:
        """Nothing to show before the first bar."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Draw the bars as they are now."""
        if self._output is not None:
            self._output.update(self._page())

    def data_loaded(self, summary: DataSummary) -> None:
        """Write what the data looks like above the bars."""
        for line in summary.lines:
            sys.stdout.write(f"{printable(line)}\n")

    def show(self, cell: Path, bar: Bar) -> None:
        """Draw all bars, if they were not drawn just now."""
        from IPython.display import display

        if self._output is None:
            self._output = display(self._page(), display_id=True)
        elif monotonic() - self._drawn_at < SECONDS_BETWEEN_DRAWINGS:
            return
        else:
            self._output.update(self._page())
        self._drawn_at = monotonic()

    def _page(self) -> Any:
        from IPython.display import HTML

        lines = []
        for bar in self._bar_of.values():
            most = f' max="{bar.rounds}"' if bar.rounds else ""
            of = f" / {bar.rounds}" if bar.rounds else ""
            lines.append(
                f"<tr><td>{escape(bar.title)}</td>"
                f'<td><progress value="{bar.played}"{most}></progress></td>'
                f"<td>{bar.played}{of}</td><td>{escape(bar.reached)}</td></tr>"
            )
        return HTML(f"<table>{''.join(lines)}</table>")


def bars_wanted(progress: bool | None) -> bool:
    """Whether to show bars: as asked for, else only where a person is looking on."""
    if progress is not None:
        return progress
    return Console(stderr=True).is_terminal or _in_notebook()


def bars() -> RoundBars:
    """Bars below the code of a notebook, else on standard error."""
    if _in_notebook():
        return NotebookBars()
    return TerminalBars(Console(stderr=True, emoji=False))


def _in_notebook() -> bool:
    return Console().is_jupyter


def _name(method: str, seed: int, column: str) -> str:
    return f"{method} {seed} {column}"


def _reached(about: Description, record: Record) -> str:
    """The mean figure of honest clients; empty where the round was not evaluated."""
    if record.figures is None:
        return ""
    metric = metric_of(about.task)
    return metric.named(about.mean(metric, record.figures))
