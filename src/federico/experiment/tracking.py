"""Writes the figures of every round to TensorBoard, MLflow or a module with wandb's interface.

A tracker is an observer like any other. The last round that it has written is noted in the cell's
folder. A run that was killed and resumes plays some rounds again and comes to the same figures:
these are left out, and rounds that are recorded but not written are written first.
"""

import json
import math
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from federico.experiment.observer import Callback, Observer, Several
from federico.experiment.track_logs import (
    Opening,
    TrackLog,
    import_tracker,
    open_log,
    safe_name,
)
from federico.experiment.track_options import Tracker, TrackOptions
from federico.runs.atomic import publish_text
from federico.runs.layout import CellDir
from federico.runs.metric import METRICS
from federico.runs.records import Record, read_records
from federico.runs.results import CellResult

FOLDER = "tracking"
"""Folder of a run directory for trackers that keep files."""


@contextmanager
def tracked(observer: Observer, options: TrackOptions, run: Path) -> Iterator[Observer]:
    """The observer, and beside it one for each tracker; a missing package is an error."""
    trackers = []
    for name in options.to:
        module = import_tracker(name, options)
        trackers.append(Tracking(name, module, options, run, observer.say))
    try:
        yield Several([observer, *trackers])
    finally:
        for tracker in trackers:
            tracker.close()


@dataclass
class TrackedCell:
    """A cell, how far it is written, and what is waiting to be written."""

    cell: CellDir
    note: Path
    identity: str
    last_round: int
    log: TrackLog | None = None
    waiting: list[Record] = field(default_factory=list)

    def write_note(self, *, closed: bool = False) -> None:
        """Note how far the cell is written, and whether its log was closed after that."""
        note = {"identity": self.identity, "round": self.last_round, "closed": closed}
        publish_text(self.note, json.dumps(note))


class Tracking(Callback):
    """Writes what happens in every cell to one tracker.

    A tracker that fails does not end the training: what it has missed is tried again after the
    next round.
    """

    def __init__(
        self,
        tracker: Tracker,
        module: ModuleType,
        options: TrackOptions,
        run: Path,
        say: Callable[[str], None],
    ) -> None:
        self._tracker = tracker
        self._module = module
        self._options = options
        self._run = run
        self._say = say
        self._cells: dict[Path, TrackedCell] = {}
        self._complained = False

    def cell_started(self, cell: CellDir, rounds_before: int) -> None:
        """Write the rounds that are recorded, but not written yet."""
        tracked = _read_note(cell, self._tracker)
        self._cells[cell.path] = tracked
        for record in read_records(cell.path):
            if tracked.last_round < record.round <= rounds_before:
                tracked.waiting.append(record)
        self._attempt(tracked, self._write)

    def round_done(self, cell: CellDir, record: Record) -> None:
        """Write the figures of the round, unless they are there already."""
        tracked = self._cells[cell.path]
        if record.round <= tracked.last_round:
            return
        tracked.waiting.append(record)
        self._attempt(tracked, self._write)

    def cell_finished(self, cell: CellDir, results: Sequence[CellResult]) -> None:
        """Keep the artefacts and close the log."""
        tracked = self._cells.pop(cell.path)
        self._attempt(tracked, self._finish)
        self._attempt(tracked, self._close)

    def close(self) -> None:
        """Close what is open, even if the run was interrupted."""
        for tracked in self._cells.values():
            self._attempt(tracked, self._close)

    def _attempt(self, tracked: TrackedCell, verb: Callable[[TrackedCell], None]) -> None:
        """Do it; whatever goes wrong inside a tracker is said once and must not end a training."""
        try:
            verb(tracked)
        except Exception as error:
            if not self._complained:
                reason = str(error) or type(error).__name__
                self._say(
                    f"track: {self._tracker} could not be written ({reason}); training goes on, "
                    "and it is tried again after every round"
                )
            self._complained = True

    def _write(self, tracked: TrackedCell) -> None:
        """Write what is waiting, and note it."""
        log = self._opened(tracked)
        while tracked.waiting:
            record = tracked.waiting[0]
            log.write(record.round, self._figures(tracked.cell, record))
            tracked.last_round = record.round
            tracked.write_note()
            tracked.waiting.pop(0)

    def _finish(self, tracked: TrackedCell) -> None:
        self._write(tracked)
        artefacts = [tracked.cell.path / "records.jsonl", self._run / "config.toml"]
        models = tracked.cell.path / "clients"
        if self._options.models and models.exists():
            artefacts.append(models)
        self._opened(tracked).finish(artefacts)

    def _close(self, tracked: TrackedCell) -> None:
        if tracked.log is not None:
            tracked.log.close()
            tracked.write_note(closed=True)

    def _opened(self, tracked: TrackedCell) -> TrackLog:
        if tracked.log is None:
            # The identity is noted first: a process that opens the log again finds the same.
            tracked.write_note()
            folder = self._run.absolute() / FOLDER
            opening = Opening(tracked.cell, folder, tracked.identity, tracked.last_round)
            tracked.log = open_log(self._tracker, self._module, opening)
        return tracked.log

    def _figures(self, cell: CellDir, record: Record) -> dict[str, float]:
        """Means over all clients, and the figures of the first clients by name."""
        figures = {"bytes moved": float(record.moved)}
        kinds = (("", record.figures), ("alone/", record.alone), ("together/", record.together))
        for kind, by_metric in kinds:
            if by_metric is not None:
                figures |= self._means(cell, by_metric, kind)
                figures |= self._of_clients(cell, by_metric, kind)
        return figures

    def _means(
        self, cell: CellDir, by_metric: Mapping[str, Sequence[float | None]], kind: str
    ) -> dict[str, float]:
        """The means that the tables of a run show, which are those of honest clients."""
        about = cell.description
        means = {}
        for metric in METRICS[about.task]:
            if metric.recorded_as not in by_metric:
                continue
            mean = about.mean(metric, by_metric)
            if math.isfinite(mean):
                means[kind + metric.recorded_as] = mean
        return means

    def _of_clients(
        self, cell: CellDir, by_metric: Mapping[str, Sequence[float | None]], kind: str
    ) -> dict[str, float]:
        """The figures of as many single clients as the options ask for, by name."""
        names = cell.description.clients[: self._options.clients]
        found = {}
        for place, name in enumerate(names):
            for metric, values in by_metric.items():
                value = values[place]
                if value is not None:
                    found[f"clients/{safe_name(name)}/{kind}{metric}"] = value
        return found


def _read_note(cell: CellDir, tracker: Tracker) -> TrackedCell:
    """How far a cell is written; a cell that is new to the tracker gets an identity."""
    file = cell.path / f"tracked-{tracker}.json"
    new = TrackedCell(cell, file, identity=uuid.uuid4().hex[:8], last_round=0)
    if not file.exists():
        return new
    note = json.loads(file.read_text(encoding="utf-8"))
    if tracker == "wandb" and not note.get("closed", True):
        # What wandb had not put on the disk when the process was killed is lost, and nobody can
        # tell how much that is: a log of its own has all rounds from the first.
        return new
    return TrackedCell(cell, file, identity=note["identity"], last_round=int(note["round"]))
