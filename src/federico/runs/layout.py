"""The run directory: what lies where, and what a cell (one method, one seed) says of itself.

runs/<name>/ config.toml  report.html  figures/
             <method>-<seed>/ cell.json  partition.npz  records.jsonl  timings.jsonl
                              checkpoint/  clients/<id>/  done.json
"""

import fcntl
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from federico.errors import RunError
from federico.runs.atomic import disk_errors, publish_text
from federico.runs.records import Record, read_records, read_spent
from federico.stopwatch import Spent
from federico.types import Task


@dataclass(frozen=True)
class Description:
    """What a cell is: enough to read its records, and to refuse to go on with something else."""

    method: str
    seed: int
    task: Task
    clients: list[str]
    distribution: list[int] | None
    train_samples: list[int]
    test_samples: list[int]
    label_names: list[str]
    label_counts: list[list[int]]
    """Training samples of each label, per client; empty for regression."""
    model_parameters: int
    model_bytes: int
    data_hash: str
    partition_hash: str
    options: dict[str, Any]
    """Every setting that can change a number."""
    versions: dict[str, str]
    command: str


class CellDir:
    """One method on one seed."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def description(self) -> Description:
        """What this cell says it is."""
        file = self.path / "cell.json"
        try:
            return Description(**_read_json(file))
        except TypeError as error:
            raise RunError(
                f"{file}: written by another version of federico ({error}); run the experiment again"
            ) from None

    def describe(self, description: Description) -> None:
        """Say what this cell is, or refuse if it has been something else before."""
        self.refuse_other(description)
        file = self.path / "cell.json"
        if not file.exists():
            publish_text(file, json.dumps(asdict(description), indent=1))

    @property
    def rounds_done(self) -> int:
        """Rounds of the finished cell, 0 as long as it is not."""
        file = self.path / "done.json"
        return int(_read_json(file).get("rounds", 0)) if file.exists() else 0

    def finish(self, rounds: int) -> None:
        """Mark the cell as finished."""
        publish_text(self.path / "done.json", json.dumps({"rounds": rounds}))

    @cached_property
    def records(self) -> list[Record]:
        """All rounds so far."""
        return read_records(self.path)

    @cached_property
    def spent(self) -> list[Spent]:
        """What every round so far took."""
        return read_spent(self.path)

    def refuse_other(self, new: Description) -> None:
        """Nothing may be added to a cell that has been something else before."""
        if not (self.path / "cell.json").exists():
            return
        # Options first: they say most. Numbers of a model differ alone where its code was changed.
        differences = [_difference(self.description.options, new.options)]
        for what in ("data_hash", "partition_hash", "model_bytes"):
            before, now = getattr(self.description, what), getattr(new, what)
            differences += [f"{what} {before} is now {now}"] if before != now else []
        difference = next(filter(None, differences), None)
        if difference is not None:
            raise RunError(
                f"{self.path}: holds another experiment ({difference}). "
                "Choose another --name, or delete the folder to start anew"
            )


class RunDir:
    """All cells of one experiment."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def cell(self, method: str, seed: int) -> CellDir:
        """The cell of this method and seed, there or not."""
        return CellDir(self.path / f"{method}-{seed}")

    def cells(self) -> list[CellDir]:
        """All cells that have begun, by method and seed."""
        found = [CellDir(file.parent) for file in self.path.glob("*/cell.json")]
        return sorted(found, key=lambda cell: (cell.description.method, cell.description.seed))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep a second process out while this one writes."""
        with disk_errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            file = (self.path / ".lock").open("w")
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RunError(
                    f"{self.path}: another process is running this experiment; wait for it or stop it"
                ) from None
            yield


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(f"{path}: cannot be read: {error}") from error
    return value


def _difference(before: Mapping[str, Any], now: Mapping[str, Any], path: str = "") -> str:
    """The first setting that is not as it was, or nothing."""
    for key in sorted(before.keys() | now.keys()):
        old, new = before.get(key), now.get(key)
        if isinstance(old, dict) and isinstance(new, dict) and old != new:
            return _difference(old, new, f"{path}{key}.")
        if old != new:
            return f"{path}{key} was {old!r}, now {new!r}"
    return ""
