"""The logs of TensorBoard, MLflow and of modules with wandb's interface: one for each cell.

Each is opened where it was left, and keeps no round twice, not even one that a killed process
had written without noting it. Unless the environment says otherwise, nothing leaves this machine.
"""

import contextvars
import importlib
import inspect
import io
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from federico import compat
from federico.errors import MissingDependencyError
from federico.experiment.track_options import Tracker, TrackOptions
from federico.runs.layout import CellDir

INSTALL = {
    "tensorboard": "pip install 'federico[track]'",
    "mlflow": "pip install 'federico[track]'",
    "wandb": "pip install {module}",
}
ENVIRONMENT = {
    "WANDB_MODE": "offline",
    "WANDB_SILENT": "true",  # else it prints a summary of its own between our lines
    "WANDB_ERROR_REPORTING": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ALLOW_FILE_STORE": "true",  # a database needs packages that mlflow-skinny lacks
}
"""Keeps trackers off the network and off the screen, unless these variables are set already."""

LONGEST_PARAMETER = 500
"""Characters of a setting that every release of MLflow takes."""
PARAMETERS_AT_ONCE = 100
"""Settings that MLflow takes in one call."""


@dataclass(frozen=True)
class Opening:
    """What a log is opened with."""

    cell: CellDir
    folder: Path
    """Where trackers that keep files put them."""
    identity: str
    """The same each time the log of this cell is opened, and of no other cell anywhere."""
    rounds_before: int
    """The rounds that are known to be in it."""


class TrackLog(Protocol):
    """The open log of one cell."""

    def write(self, round_index: int, figures: Mapping[str, float]) -> None:
        """Write the figures of a round."""

    def finish(self, artefacts: Sequence[Path]) -> None:
        """The cell has all its rounds: keep these files and folders, where any are kept."""

    def close(self) -> None:
        """Nothing is written any more by this process, whether the cell is finished or not."""


def import_tracker(tracker: Tracker, options: TrackOptions) -> ModuleType:
    """The module that a tracker needs; an error says how to install it."""
    compat.default_environment(ENVIRONMENT)
    names = {"tensorboard": "torch.utils.tensorboard", "mlflow": "mlflow", "wandb": options.module}
    try:
        return importlib.import_module(names[tracker])
    except ImportError as error:
        install = INSTALL[tracker].format(module=options.module)
        missing = error.name or options.module
        raise MissingDependencyError(
            f"track.to = {tracker!r}: {missing} is not installed: {install}"
        ) from error


def open_log(tracker: Tracker, module: ModuleType, opening: Opening) -> TrackLog:
    """The log of a cell, at the place where it was left."""
    if tracker == "tensorboard":
        return TensorBoardLog(module, opening)
    if tracker == "mlflow":
        return MLflowLog(module, opening)
    return WandbLog(module, opening)


class TensorBoardLog:
    """A folder of event files."""

    def __init__(self, module: ModuleType, opening: Opening) -> None:
        # What lies after the rounds that are known was written by a process that was killed.
        purge_step = opening.rounds_before + 1
        folder = opening.folder / "tensorboard" / opening.cell.path.name
        self._writer: Any = module.SummaryWriter(str(folder), purge_step=purge_step)

    def write(self, round_index: int, figures: Mapping[str, float]) -> None:
        """Write the figures of a round."""
        for name, value in figures.items():
            self._writer.add_scalar(name, value, round_index)
        self._writer.flush()

    def finish(self, artefacts: Sequence[Path]) -> None:
        """TensorBoard keeps no artefacts."""

    def close(self) -> None:
        """Close the event file."""
        self._writer.close()


class MLflowLog:
    """A run of MLflow: in a folder, or wherever MLFLOW_TRACKING_URI says."""

    def __init__(self, module: ModuleType, opening: Opening) -> None:
        place = os.environ.get("MLFLOW_TRACKING_URI", "")
        if not place:
            folder = opening.folder / "mlflow"
            folder.mkdir(parents=True, exist_ok=True)
            place = folder.as_uri()
        self._entities: Any = module.entities
        self._client: Any = module.MlflowClient(tracking_uri=place)
        self._run_id = self._find_or_create(opening)
        # A killed process may have begun to write a round: looked for until one is not there.
        self._may_be_there = True

    def write(self, round_index: int, figures: Mapping[str, float]) -> None:
        """Write the figures of a round."""
        new = dict(figures)
        if self._may_be_there:
            for name in figures:
                if self._has(name, round_index):
                    del new[name]
            self._may_be_there = len(new) < len(figures)
        for name, value in new.items():
            self._client.log_metric(self._run_id, name, value, step=round_index)

    def finish(self, artefacts: Sequence[Path]) -> None:
        """Keep the artefacts and mark the run as finished."""
        for path in artefacts:
            if path.is_dir():
                self._client.log_artifacts(self._run_id, str(path), artifact_path=path.name)
            else:
                self._client.log_artifact(self._run_id, str(path))
        self._client.set_terminated(self._run_id)

    def close(self) -> None:
        """Nothing is open between two writes."""

    def _find_or_create(self, opening: Opening) -> str:
        """The id of the run, which is in an experiment of the run directory's name."""
        cell = opening.cell.path.name
        project = opening.cell.path.absolute().parent.name
        experiment = self._client.get_experiment_by_name(project)
        if experiment is None:
            experiment_id = self._client.create_experiment(project)
        else:
            experiment_id = experiment.experiment_id

        there = self._client.search_runs([experiment_id], f"tags.federico = '{opening.identity}'")
        if there:
            return str(there[0].info.run_id)
        tags = {"federico": opening.identity}
        created = self._client.create_run(experiment_id, tags=tags, run_name=cell)
        run_id = str(created.info.run_id)
        self._log_settings(run_id, settings_of(opening.cell))
        return run_id

    def _log_settings(self, run_id: str, settings: Mapping[str, Any]) -> None:
        """Log the settings as parameters, none longer and no more at once than MLflow takes."""
        parameters = []
        for name, value in settings.items():
            text = str(value)[:LONGEST_PARAMETER]
            parameters.append(self._entities.Param(name, text))
        for start in range(0, len(parameters), PARAMETERS_AT_ONCE):
            some = parameters[start : start + PARAMETERS_AT_ONCE]
            self._client.log_batch(run_id, params=some)

    def _has(self, name: str, round_index: int) -> bool:
        history = self._client.get_metric_history(self._run_id, name)
        return any(point.step == round_index for point in history)


class WandbLog:
    """A run of wandb, or of a module with the same interface."""

    def __init__(self, module: ModuleType, opening: Opening) -> None:
        cell = opening.cell.path
        about: dict[str, Any] = {
            "project": cell.absolute().parent.name,
            "name": cell.name,
            "config": settings_of(opening.cell),
            "resume": "allow",
        }
        self._cell = cell.name
        self._log_options: dict[str, Any] = {}
        if "id" in inspect.signature(module.init).parameters:
            folder = opening.folder / "wandb"
            folder.mkdir(parents=True, exist_ok=True)
            # Several cells may run at a time, hence a new run beside those that are open.
            about |= {"id": opening.identity, "dir": str(folder), "reinit": "create_new"}
            self._log_options["commit"] = True  # else a round is kept back until the next
        else:
            # trackio finds a run again by its name alone.
            about["name"] = f"{cell.name}-{opening.identity}"
        # trackio keeps its current run in the context: opening another ends that one, and what is
        # current at the end of the process is ended again, with a line on standard output.
        own_context = contextvars.copy_context()
        with _nothing_printed():
            self._run: Any = own_context.run(module.init, **about)

    def write(self, round_index: int, figures: Mapping[str, float]) -> None:
        """Write the figures of a round."""
        self._run.log(dict(figures), step=round_index, **self._log_options)

    def finish(self, artefacts: Sequence[Path]) -> None:
        """Keep the artefacts."""
        for path in artefacts:
            name = f"{self._cell}-{path.stem}"
            with _nothing_printed():
                self._run.log_artifact(str(path), name=name, type="federico")

    def close(self) -> None:
        """End the run in this process; another may resume it."""
        with _nothing_printed():
            self._run.finish()


def _nothing_printed() -> AbstractContextManager[object]:
    """Standard output is for results, maybe as JSON: trackio's greetings do not belong there."""
    return redirect_stdout(io.StringIO())


def settings_of(cell: CellDir) -> dict[str, Any]:
    """Method, seed and every setting of a cell, in one level: training.learning_rate, ..."""
    about = cell.description
    settings: dict[str, Any] = {"method": about.method, "seed": about.seed}
    if about.row != about.method:
        settings["row"] = about.row
    if about.column:
        settings["column"] = about.column
    _add_flat(settings, about.options, "")
    return settings


def _add_flat(flat: dict[str, Any], options: Mapping[str, Any], prefix: str) -> None:
    for key, value in options.items():
        if isinstance(value, Mapping):
            _add_flat(flat, value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value


def safe_name(name: str) -> str:
    """A client's name as a part of a metric's name, which not every tracker lets be anything."""
    return re.sub(r"[^\w\-. ]", "_", name)
