"""What a person sees while a study runs: its table as it fills in, and the runs at work."""

from collections.abc import Sequence
from types import TracebackType

import numpy as np
from rich.console import Console, Group
from rich.live import Live
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

from federico.cli.console import PLAIN
from federico.compare.queue import News
from federico.compare.study import At, Cell, Column, Row, Study
from federico.compare.studydir import StudyDir
from federico.compare.tables import Grid, TableCell
from federico.compare.terminal import for_terminal
from federico.report.old.metric import metric_of
from federico.report.old.summary import title_of


class LiveStudy:
    """Where the console is no terminal, one line per finished run."""

    def __init__(self, console: Console, study: Study, folder: StudyDir) -> None:
        self._console, self._study, self._folder = console, study, folder
        self._bars = Progress(
            TextColumn("{task.description}", markup=False), BarColumn(bar_width=24), MofNCompleteColumn(),
            TimeRemainingColumn(), console=console,
        )  # fmt: skip
        self._overall = self._bars.add_task("all runs, rounds", total=None)
        self._running: dict[str, TaskID] = {}
        self._wanted: dict[str, int] = {}
        self._rounds: dict[str, int] = {}
        self._live = Live(console=console, refresh_per_second=4)
        self._at = study.compare.at[0]

    def __enter__(self) -> "LiveStudy":
        """Show the table."""
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the terminal to the result."""
        self._live.transient = error is None
        self._live.stop()

    def expect(self, cells: Sequence[Cell]) -> None:
        """Count the rounds to come."""
        finished = {cell.name for cell in self._folder.finished(cells)}
        for cell in cells:  # the same one may stand in several places
            self._wanted[cell.name] = cell.experiment.rounds
            self._rounds[cell.name] = cell.experiment.rounds if cell.name in finished else 0
        self._bars.update(
            self._overall, total=sum(self._wanted.values()), completed=sum(self._rounds.values())
        )
        self._show()

    def hear(self, news: News) -> None:
        """Move the bars on; a finished run goes into the table."""
        name = news.cell.name
        if news.note:
            self._console.print(f"note: {news.note}", style="yellow", **PLAIN)
            return
        self._at = "given" if news.cell.at == "given" else "best"
        self._rounds[name] = news.round
        self._bars.update(self._overall, completed=sum(self._rounds.values()))
        if name not in self._running:
            self._running[name] = self._bars.add_task(
                _label(news.cell), total=news.cell.experiment.rounds
            )
        self._bars.update(self._running[name], completed=news.round)
        if news.finished:
            self._bars.remove_task(self._running.pop(name))
            self._finished(news.cell)

    def _finished(self, cell: Cell) -> None:
        if self._console.is_terminal:
            self._show()
        else:
            self._console.print(f"{_label(cell)}: {self._figure([cell])}", **PLAIN)

    def _show(self) -> None:
        self._live.update(Group(for_terminal(self._grid(), self._console.width), self._bars))

    def _grid(self) -> Grid:
        """The table at the learning rate that is being run."""
        study, columns = self._study, self._study.compare.columns
        lines = [
            [title_of(row.name), *(self._entry(row, column, self._at) for column in columns)]
            for row in study.rows
        ]
        headings = ["", *(column.name or "mean" for column in columns)]
        return Grid(
            f"{study.title}, {self._at} rate", headings, [[*map(TableCell, line)] for line in lines]
        )

    def _entry(self, row: Row, column: Column, at: At) -> str:
        rate = self._folder.best_rate(self._study, row, column) if at == "best" else None
        if at == "best" and rate is None:
            return ""
        done = self._folder.finished(self._study.cells(row, column, at, rate))
        missing = len(self._study.file.seeds) - len(done)
        return self._figure(done) + (f" ({len(done)})" if done and missing else "")

    def _figure(self, cells: Sequence[Cell]) -> str:
        """Mean and standard deviation of finished runs."""
        played = [self._folder.cell(cell) for cell in cells]
        values = [cell.figure for cell in played if cell.figure is not None]
        if not values:
            return ""
        metric = metric_of(played[0].description.task)
        spread = (
            float(np.std(values, ddof=1)) if len(values) > 1 and np.isfinite(values).all() else None
        )
        return metric.bare(float(np.mean(values))) + metric.spread(spread)


def _label(cell: Cell) -> str:
    column = f", {cell.column}" if cell.column else ""
    rate = f", tuning at {cell.rate:g}" if cell.at == "tuning" else f", rate {cell.rate:g}"
    return f"{title_of(cell.row)}{column}{rate}, seed {cell.seed}"
