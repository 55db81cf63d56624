"""federico from Python: run an experiment, load what it left, predict."""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from federico.data.arrays import dataset_from_clients
from federico.errors import ConfigError, RunError
from federico.experiment.config import read, validate
from federico.experiment.runner import Observer, simulate
from federico.runs.bundle import Bundle, folder_name
from federico.runs.layout import CellDir, RunDir
from federico.runs.records import Record
from federico.types import Array, Task


class Run:
    """A run directory: its clients' personal models, its records, its report."""

    def __init__(self, path: Path | str, model: Callable[[], nn.Module] | None = None) -> None:
        self.path = Path(path)
        self._model = model
        self._cells = RunDir(self.path).cells()
        if not self._cells:
            raise RunError(
                f"{path}: is not a run directory (it has no cell.json below it); `federico run` makes one"
            )

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}, clients={self.clients})"

    @property
    def clients(self) -> list[str]:
        """The clients' names."""
        return self._cells[0].description.clients

    def client(
        self, name: str | int, *, method: str = "federico", seed: int | None = None
    ) -> Bundle:
        """One client's personal model; without a seed, that of the first."""
        cell = self._cell(method, seed)
        folder = cell.path / "clients" / folder_name(str(name))
        if not folder.exists():
            known = cell.description.clients
            if str(name) in known:
                raise RunError(
                    f"{cell.path}: not finished yet; `federico run` it again and it goes on where it was"
                )
            raise ConfigError(
                f"client {name!r}: there is none of that name in {self.path}; it has {', '.join(known)}"
            )
        return Bundle(folder, self._model)

    def records(self, method: str = "federico", seed: int | None = None) -> list[Record]:
        """Every round of one method and seed."""
        return self._cell(method, seed).records

    def _cell(self, method: str, seed: int | None) -> CellDir:
        found = [cell for cell in self._cells if cell.description.method == method]
        if seed is not None:
            found = [cell for cell in found if cell.description.seed == seed]
        if not found:
            there = ", ".join(
                f"{cell.description.method} (seed {cell.description.seed})" for cell in self._cells
            )
            raise ConfigError(
                f"{self.path}: holds no run of {method!r} with that seed; it has {there}"
            )
        return found[0]


class Quiet:
    """Shows nothing; what a person should know goes to standard error."""

    def started(self, cells: Sequence[tuple[str, int]], rounds: int) -> None:
        """Nothing to show."""

    def cell_started(self, cell: CellDir, rounds_before: int) -> None:
        """Nothing to show."""

    def round_done(self, cell: CellDir, record: Record) -> None:
        """Nothing to show."""

    def cell_finished(self, cell: CellDir) -> None:
        """Nothing to show."""

    def say(self, message: str) -> None:
        """One line."""
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

    `clients` maps a name to (x, y); `model` is a function (or class) that makes a new, randomly initialised module.
    Further keywords are the keys of an experiment file: rounds=20, seeds=[0, 1], federico={"neighbors": 2}, ...
    The same name and settings resume, or just load what is finished.
    """
    raw = _merged(read(Path(experiment)) if experiment else {}, settings)
    if clients is not None:
        raw |= {
            "data": {"kind": "python"},
            "partition": settings.get("partition", {"kind": "natural"}),
        }
    if model is not None:
        if isinstance(model, nn.Module):
            raise ConfigError(
                "model: give a function that makes a new module (every peer starts from its own), not one"
            )
        raw["model"] = {"kind": "python"}
    dataset = (
        None
        if clients is None
        else dataset_from_clients(clients, task=task, label_names=label_names)
    )
    chosen = validate(raw, "federico.run")
    done = simulate(
        chosen,
        Path(directory),
        observer or Quiet(),
        dataset=dataset,
        factory=model,
        command="federico.run",
    )
    return Run(done.path, model)


def _merged(table: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The table with changes; inner tables are changed key by key, unless they become another kind."""
    merged = dict(table)
    for key, value in changes.items():
        inner, merged[key] = merged.get(key), value
        if (
            isinstance(inner, Mapping)
            and isinstance(value, Mapping)
            and value.get("kind") in {None, inner.get("kind")}
        ):
            merged[key] = _merged(inner, value)
    return merged


def load(path: str | Path, model: Callable[[], nn.Module] | None = None) -> Run:
    """Open a run directory; `model` is needed only where the run was given one in Python."""
    return Run(path, model)
