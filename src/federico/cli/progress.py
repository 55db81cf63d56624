"""What a person sees while an experiment runs."""

from collections.abc import Sequence
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

from federico.cli.console import PLAIN
from federico.methods import METHODS
from federico.runs.layout import CellDir
from federico.runs.records import Record, mean_accuracy, mean_loss


class LiveProgress:
    """A bar for the whole experiment and one for the cell at work, with its score against training alone.

    Where the console is no terminal, one line per finished cell.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bars = Progress(
            TextColumn("{task.description:<22}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[score]}"),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._local: dict[tuple[int, int], float] = {}
        self._overall = self._current = TaskID(0)

    def __enter__(self) -> "LiveProgress":
        """Show the bars."""
        self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the terminal as it was."""
        self._bars.stop()

    def started(self, cells: Sequence[tuple[str, int]], rounds: int) -> None:
        """Set up both bars."""
        self._overall = self._bars.add_task("all runs, rounds", total=len(cells) * rounds, score="")
        self._current = self._bars.add_task("", total=rounds, score="")

    def cell_started(self, cell: CellDir, rounds_before: int) -> None:
        """The current bar is now this cell's."""
        self._bars.reset(self._current, completed=rounds_before, description=_label(cell), score="")
        self._bars.advance(self._overall, rounds_before)

    def round_done(self, cell: CellDir, record: Record) -> None:
        """Both bars move on."""
        self._bars.update(self._current, completed=record.round, score=self._score(cell, record))
        self._bars.advance(self._overall)

    def cell_finished(self, cell: CellDir) -> None:
        """Keep the line of a finished cell above the bars."""
        self._console.print(
            f"{_label(cell):<22}{self._score(cell, cell.records[-1])}", highlight=False
        )

    def say(self, message: str) -> None:
        """A warning or a remark, above the bars."""
        self._console.print(f"note: {message}", style="yellow", **PLAIN)

    def _score(self, cell: CellDir, record: Record) -> str:
        about = cell.description
        sizes = [
            train + test
            for train, test in zip(about.train_samples, about.test_samples, strict=True)
        ]
        accuracy, loss = mean_accuracy(record, sizes), mean_loss(record, sizes)
        if loss is None:
            return ""
        value, unit = (
            (loss, "squared error") if accuracy is None else (100 * accuracy, "% accuracy")
        )
        text = f"{value:7.4g} {unit}" if accuracy is None else f"{value:5.1f} {unit}"
        place = (about.seed, record.round)
        if about.method == "local":
            self._local[place] = value
        elif place in self._local:
            text += f", {value - self._local[place]:+.3g} against local training"
        return text


def _label(cell: CellDir) -> str:
    name = cell.description.method
    title = METHODS[name].title if name in METHODS else name
    return f"{title}, seed {cell.description.seed}"
