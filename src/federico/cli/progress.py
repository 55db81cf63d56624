"""What a person sees while an experiment runs: its table as it fills in, and the cells at work."""

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

from federico.cli.console import PLAIN, print_lines
from federico.data.summary import DataSummary
from federico.experiment.grid import Cell
from federico.experiment.observer import Observer
from federico.experiment.tuning import final_figure
from federico.report.aggregate import aggregate
from federico.report.tables import result_tables
from federico.report.text_table import ForTerminal
from federico.runs.layout import CellDir, Description
from federico.runs.metric import Metric, metric_of
from federico.runs.records import Record
from federico.runs.results import CellResult, metric_of_result
from federico.runs.table import TableDescription


class LiveProgress(Observer):
    """The table so far, a bar for the whole experiment and one for every cell at work.

    Where the console is no terminal, one line for every cell that resumes or is finished.
    """

    def __init__(self, console: Console, table: TableDescription) -> None:
        self._console = console
        self._table = table
        self._bars = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[score]}", markup=False),
            TimeRemainingColumn(),
            console=console,
        )
        self._overall = self._bars.add_task("all runs, rounds", total=None, score="")
        self._total = 0
        self._at_work: dict[Path, TaskID] = {}
        self._results: dict[tuple[object, ...], CellResult] = {}
        self._live = Live(console=console, refresh_per_second=4)

    def __enter__(self) -> Self:
        """Show the table and the bars."""
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

    def data_loaded(self, summary: DataSummary) -> None:
        """Show what the data looks like, above the table."""
        print_lines(self._console, summary.lines)

    def started(self, cells: Sequence[Cell], finished: Sequence[CellResult]) -> None:
        """Count the rounds to come."""
        for line in finished:
            self._results[line.key] = line
        rounds = {cell.identity: cell.rounds for cell in cells}
        done = {cell.identity: cell.rounds for cell in cells if cell.key in self._results}
        self._total += sum(rounds.values())
        self._bars.update(self._overall, total=self._total)
        self._bars.advance(self._overall, sum(done.values()))
        self._refresh()

    def cell_started(self, cell: CellDir, rounds_before: int) -> None:
        """Show a bar for this cell."""
        label = label_of(cell.description)
        bar = self._bars.add_task(label, total=None, completed=rounds_before, score="")
        self._at_work[cell.path] = bar
        self._bars.advance(self._overall, rounds_before)
        resumes = 0 < rounds_before < self._table.rounds
        if resumes and not self._console.is_terminal:
            self._console.print(
                f"{label}: resuming after round {rounds_before} from the checkpoint in {cell.path}",
                **PLAIN,
            )

    def round_done(self, cell: CellDir, record: Record) -> None:
        """Move both bars on."""
        about = cell.description
        total = self._table.rounds if about.rate_kind != "tuning" else None
        score = _score(about, record)
        self._bars.update(
            self._at_work[cell.path], completed=record.round, total=total, score=score
        )
        self._bars.advance(self._overall)

    def cell_finished(self, cell: CellDir, results: Sequence[CellResult]) -> None:
        """Put a finished cell into the table."""
        self._bars.remove_task(self._at_work.pop(cell.path))
        if results and results[0].ended_after is not None:
            self._bars.advance(self._overall, results[0].rounds - results[0].ended_after)
        for line in results:
            self._results[line.key] = line
        if self._console.is_terminal:
            self._refresh()
            return
        for line in results:
            self._console.print(f"{label_of(line)}: {self._figure(line)}", **PLAIN)

    def say(self, message: str) -> None:
        """Show a warning or a remark above the bars."""
        self._console.print(f"note: {message}", style="yellow", **PLAIN)

    def _refresh(self) -> None:
        shown: list[RenderableType] = []
        if self._results:
            summary = aggregate(self._table, list(self._results.values()))
            shown += [ForTerminal(table) for table in result_tables(summary)]
        self._live.update(Group(*shown, self._bars))

    def _figure(self, line: CellResult) -> str:
        """The figure of a finished cell, and how it compares with the reference row's."""
        metric = metric_of_result(line)
        figure = final_figure(line)
        if figure is None:
            return "not evaluated"
        text = metric.named(figure)
        honest = line.without_hostile()
        if honest.alone is not None:
            sizes = np.add(honest.train_samples, honest.test_samples).tolist()
            text += _alone(metric, metric.mean(honest.alone, sizes))
        for other in self._results.values():
            same_place = (other.column, other.rate_kind, other.seed, other.rounds) == (
                line.column,
                line.rate_kind,
                line.seed,
                line.rounds,
            )
            theirs = final_figure(other)
            if other.row == self._table.reference != line.row and same_place and theirs is not None:
                return f"{text}, {metric.signed(figure - theirs)} against {other.title}"
        return text


def label_of(about: Description | CellResult) -> str:
    """What a cell is called, while it is at work and when it is finished."""
    label = about.title
    if about.column:
        label += f", {about.column}"
    if about.rate_kind == "tuning":
        label += f", tuning at {about.rate:g}"
    elif about.rate_kind == "best":
        label += f", best rate {about.rate:g}"
    return f"{label}, seed {about.seed}"


def _score(about: Description, record: Record) -> str:
    if record.figures is None:
        return ""
    metric = metric_of(about.task)
    score = metric.named(about.mean(metric, record.figures))
    if record.alone is not None:
        score += _alone(metric, about.mean(metric, record.alone))
    return score


def _alone(metric: Metric, mean: float) -> str:
    """What follows a figure where clients also trained alone: (alone 77.9)."""
    return f" (alone {metric.bare(mean)})"
