"""federico from Python: run an experiment, load what it left, predict."""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from federico.data.arrays import dataset_from_clients
from federico.data.targets import many_classes_hint
from federico.errors import ConfigError, RunError
from federico.experiment.config import read
from federico.experiment.grid import make_grid
from federico.experiment.observer import Observer, Silent
from federico.experiment.runner import run_grid
from federico.runs.bundle import Bundle
from federico.runs.client_models import open_client
from federico.runs.layout import CellDir, RunDir
from federico.runs.records import Record
from federico.types import Array, Task

MOST_LISTED = 20
"""Clients and cells that an error message lists."""


class Run:
    """A run directory: its clients' personal models and its records."""

    def __init__(self, path: Path | str, model: Callable[[], nn.Module] | None = None) -> None:
        self.path = Path(path)
        self._model = model
        self._cells = RunDir(self.path).cells()
        if not self._cells:
            raise RunError(
                f"{path}: is not a run directory (it has no cell.json below it); "
                "`federico run` makes one"
            )

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}, clients={self.clients})"

    @property
    def clients(self) -> list[str]:
        """The clients' names."""
        return self._cells[0].description.clients

    def client(
        self,
        name: str | int,
        *,
        method: str = "federico",
        seed: int | None = None,
        row: str = "",
        column: str = "",
    ) -> Bundle:
        """One client's personal model; without a seed, row or column that of the first.

        `.save(folder)` puts it into a folder of its own, which can be moved to another machine.
        """
        cell = self._cell(method, seed, row, column)
        known = cell.description.clients
        if str(name) not in known:
            raise ConfigError(
                f"client {name!r}: there is none of that name in {self.path}; "
                f"it has {_listed(known)}"
            )
        return open_client(cell, str(name), self._model)

    def records(self, method: str = "federico", seed: int | None = None) -> list[Record]:
        """Every round of one method and seed."""
        return self._cell(method, seed).records

    def _cell(self, method: str, seed: int | None, row: str = "", column: str = "") -> CellDir:
        """The first cell that is what is asked for; tuning runs have no models."""
        for cell in self._cells:
            about = cell.description
            if (
                about.method == method
                and about.rate_kind != "tuning"
                and seed in (None, about.seed)
                and row in ("", about.row)
                and column in ("", about.column)
            ):
                return cell
        there = [
            f"{each.description.method} (seed {each.description.seed})" for each in self._cells
        ]
        raise ConfigError(
            f"{self.path}: holds no run of {method!r} with that seed; it has {_listed(there)}"
        )


class Quiet(Silent):
    """Shows nothing; what a person should know goes to standard error."""

    def say(self, message: str) -> None:
        """Write one line."""
        sys.stderr.write(f"federico: {message}\n")


def run(
    experiment: str | Path | None = None,
    *,
    clients: Mapping[str, tuple[Array, Array]] | None = None,
    model: Callable[[], nn.Module] | None = None,
    task: Task | None = None,
    label_names: Sequence[str] | None = None,
    directory: str | Path = "runs",
    observer: Observer | None = None,
    **settings: Any,
) -> Run:
    """Run an experiment file, or your own arrays and model.

    `clients` maps a name to (x, y); `model` is a function (or class) that makes a new, randomly
    initialised module. Further keywords are the keys of an experiment file: rounds=20,
    seeds=[0, 1], methods=[MyMethod], federico={"neighbors": 2}, ... The same name and settings
    resume, or just load what is finished.
    """
    observer = observer or Quiet()
    tables = read(Path(experiment)) if experiment else {}
    tables = _merged(tables, settings)
    dataset = None
    if clients is not None:
        tables["data"] = {"kind": "python"}
        tables["partition"] = settings.get("partition", {"kind": "natural"})
        dataset = dataset_from_clients(clients, task=task, label_names=label_names)
        hint = many_classes_hint(dataset.schema)
        if task is None and hint:
            observer.say(hint)
    if isinstance(model, nn.Module):
        raise ConfigError(
            "model: give a function that makes a new module (every peer starts from its own), "
            "not one"
        )
    if model is not None:
        tables["model"] = {"kind": "python"}

    done = run_grid(
        make_grid(tables, "federico.run"),
        Path(directory),
        observer,
        dataset=dataset,
        factory=model,
        command="federico.run",
    )
    return Run(done.path, model)


def load(path: str | Path, model: Callable[[], nn.Module] | None = None) -> Run:
    """Open a run directory; `model` is needed only where the run was given one in Python."""
    return Run(path, model)


def _merged(table: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The table with changes.

    Inner tables are changed key by key, unless they become another kind.
    """
    merged = dict(table)
    for key, value in changes.items():
        inner = merged.get(key)
        if isinstance(inner, Mapping) and isinstance(value, Mapping):
            same_kind = value.get("kind") in {None, inner.get("kind")}
            merged[key] = _merged(inner, value) if same_kind else value
        else:
            merged[key] = value
    return merged


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:MOST_LISTED])
    if len(names) > MOST_LISTED:
        shown += f" and {len(names) - MOST_LISTED} more"
    return shown
