"""Writes the figures of every round to TensorBoard, MLflow or a module with wandb's interface.

A tracker is an observer like any other. What it has written is noted in the cell's folder, so that
a run that was killed resumes without a point that is there already: rounds that are played again
come to the same figures, and are left out. Nothing here contacts a network by itself.
"""

import importlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from federico.errors import MissingDependencyError
from federico.experiment.observer import Callback
from federico.experiment.track_options import Tracker, TrackOptions
from federico.runs.atomic import publish_text
from federico.runs.layout import CellDir
from federico.runs.records import Record
from federico.runs.results import CellResult

INSTALL = {
    "tensorboard": "pip install 'federico[track]'",
    "mlflow": "pip install 'federico[track]'",
    "wandb": "pip install {module}",
}
FOLDER = "tracking"
ON_THIS_MACHINE = {
    "WANDB_MODE": "offline",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ALLOW_FILE_STORE": "true",  # a database needs packages that mlflow-skinny lacks
}
"""Settings of the environment that keep trackers off the network, unless they are set already."""


class Writer(Protocol):
    """The open log of one cell."""

    def write(self, round_index: int, figures: dict[str, float]) -> None:
        """Write the figures of a round."""

    def finish(self, files: Sequence[Path]) -> None:
        """Keep these files and close the log."""


class Tracking(Callback):
    """Writes what happens in every cell to one tracker."""

    def __init__(self, tracker: Tracker, options: TrackOptions, run: Path) -> None:
        self._tracker = tracker
        self._options = options
        self._run = run
        self._module = _import(tracker, options)
        self._writers: dict[Path, Writer] = {}

    def cell_started(self, cell: CellDir, rounds_before: int) -> None:
        """Open the log of the cell, or the one it had before."""
        folder = self._run.absolute() / FOLDER
        if self._tracker == "tensorboard":
            writer: Writer = _TensorBoard(self._module, folder / "tensorboard", cell)
        elif self._tracker == "mlflow":
            writer = _MLflow(self._module, folder / "mlflow", cell)
        else:
            writer = _Wandb(self._module, cell)
        self._writers[cell.path] = writer

    def round_done(self, cell: CellDir, record: Record) -> None:
        """Write the figures of the round, unless they are there already."""
        note = self._note(cell)
        if record.figures is None or record.round <= _last_written(note):
            return
        self._writers[cell.path].write(record.round, self._figures(cell, record))
        publish_text(note, json.dumps({"round": record.round}))

    def cell_finished(self, cell: CellDir, results: Sequence[CellResult]) -> None:
        """Keep the artefacts and close the log."""
        files = [cell.path / "records.jsonl", self._run / "config.toml"]
        if self._options.models:
            files += sorted((cell.path / "clients").iterdir())
        self._writers.pop(cell.path).finish(files)

    def _note(self, cell: CellDir) -> Path:
        return cell.path / f"tracked-{self._tracker}.json"

    def _figures(self, cell: CellDir, record: Record) -> dict[str, float]:
        """Means over clients, and the figures of the first clients, by name."""
        figures = {"bytes moved": float(record.moved)}
        names = cell.description.clients
        for metric, values in (record.figures or {}).items():
            known = [value for value in values if value is not None]
            if known:
                figures[metric] = sum(known) / len(known)
            shown = list(zip(names, values, strict=True))[: self._options.clients]
            for name, value in shown:
                if value is not None:
                    figures[f"clients/{name}/{metric}"] = value
        return figures


def trackings(options: TrackOptions, run: Path) -> list[Tracking]:
    """One observer for each tracker that the options name."""
    return [Tracking(tracker, options, run) for tracker in options.to]


class _TensorBoard:
    """A folder of event files for each cell."""

    def __init__(self, module: ModuleType, folder: Path, cell: CellDir) -> None:
        self._writer: Any = module.SummaryWriter(str(folder / cell.path.name))

    def write(self, round_index: int, figures: dict[str, float]) -> None:
        """See `Writer`."""
        for name, value in figures.items():
            self._writer.add_scalar(name, value, round_index)
        self._writer.flush()

    def finish(self, files: Sequence[Path]) -> None:
        """TensorBoard keeps no files."""
        self._writer.close()


class _MLflow:
    """A run of MLflow for each cell, in a folder of this machine."""

    def __init__(self, module: ModuleType, folder: Path, cell: CellDir) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._client: Any = module.MlflowClient(tracking_uri=folder.as_uri())
        about = cell.description
        experiment = self._client.get_experiment_by_name("federico")
        if experiment is None:
            experiment_id = self._client.create_experiment("federico")
        else:
            experiment_id = experiment.experiment_id

        chosen = f"tags.cell = '{cell.path.name}'"
        before = self._client.search_runs([experiment_id], chosen)
        if before:
            self._run = before[0].info.run_id
            return
        tags = {"cell": cell.path.name, "method": about.method, "seed": str(about.seed)}
        run = self._client.create_run(experiment_id, tags=tags, run_name=cell.path.name)
        self._run = run.info.run_id

    def write(self, round_index: int, figures: dict[str, float]) -> None:
        """See `Writer`."""
        for name, value in figures.items():
            self._client.log_metric(self._run, name, value, step=round_index)

    def finish(self, files: Sequence[Path]) -> None:
        """Keep the files as artefacts."""
        for file in files:
            self._client.log_artifact(self._run, str(file))
        self._client.set_terminated(self._run)


class _Wandb:
    """A run of wandb, or of a module with the same interface, for each cell."""

    def __init__(self, module: ModuleType, cell: CellDir) -> None:
        project = cell.path.parent.name
        name = cell.path.name
        config = {"method": cell.description.method, "seed": cell.description.seed}
        self._run: Any = module.init(project=project, name=name, config=config, resume="allow")

    def write(self, round_index: int, figures: dict[str, float]) -> None:
        """See `Writer`."""
        self._run.log(figures, step=round_index)

    def finish(self, files: Sequence[Path]) -> None:
        """The files stay in the run directory: not every such module keeps any."""
        self._run.finish()


def _import(tracker: Tracker, options: TrackOptions) -> ModuleType:
    for variable, value in ON_THIS_MACHINE.items():
        os.environ.setdefault(variable, value)
    name = {"tensorboard": "torch.utils.tensorboard", "mlflow": "mlflow"}.get(tracker)
    try:
        return importlib.import_module(name or options.module)
    except ImportError as error:
        install = INSTALL[tracker].format(module=options.module)
        raise MissingDependencyError(
            f"track.to = {tracker!r}: {error.name or options.module} is not installed: {install}"
        ) from error


def _last_written(note: Path) -> int:
    if not note.exists():
        return 0
    return int(json.loads(note.read_text(encoding="utf-8"))["round"])
