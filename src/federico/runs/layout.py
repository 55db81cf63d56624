"""The run directory: what lies where, and what a cell (one method on one seed) says of itself.

    runs/<name>/  config.toml    the experiment with every default spelled out; it can be run again
                  table.json     the table that the results are for
                  results.jsonl  one line for every finished cell
                  report.html  figures/
                  <cell>/        cell.json  partition.npz  records.jsonl  timings.jsonl
                                 checkpoint/  clients/  done.json

A cell's folder is called `<method>-<seed>`. Where an experiment has several settings of one method,
a hash of the settings is added. Cells are found by what `cell.json` says, not by these names.

One run directory holds one experiment. Rounds, seeds, rows, columns and learning rates may be added
to it; where a setting of a row has changed, running it again is refused and another name has to be
chosen. Nothing here needs torch.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from federico.bounded_files import read_bounded
from federico.errors import RunError
from federico.runs.atomic import publish_text
from federico.runs.lock import locked
from federico.runs.metric import Metric
from federico.runs.records import Record, read_records, read_spent
from federico.runs.results import RateKind
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
    """Training samples of each label, by client; empty for regression."""
    model_parameters: int
    model_bytes: int
    data_hash: str
    partition_hash: str
    options: dict[str, Any]
    """Every setting that can change a number."""
    versions: dict[str, str]
    command: str
    row: str = ""
    """The row of the table that the cell was first run for, and likewise its title and column."""
    title: str = ""
    column: str = ""
    rate: float = 0.0
    rate_kind: RateKind = "given"
    settings: str = ""
    """A hash of `options` without the learning rate."""
    model_structure: str = ""
    """A hash of the model's layers, of the names and shapes of its tensors and of the code that a
    user wrote for it; empty where it was not written down."""
    hostile: list[str] = field(default_factory=list)
    """The clients that are hostile, in a simulation of an attack."""
    clients_drawn: bool | None = None
    """Whether clients of the same name are others on another seed; None where nobody wrote it."""

    @cached_property
    def honest(self) -> list[int]:
        """The numbers of the clients that figures are about: hostile ones do not count."""
        hostile = set(self.hostile)
        return [place for place, name in enumerate(self.clients) if name not in hostile]

    @cached_property
    def honest_samples(self) -> list[int]:
        """How many samples, training and test, each honest client has: its weight in means."""
        return [self.train_samples[place] + self.test_samples[place] for place in self.honest]

    def of_honest(
        self, figures: Mapping[str, Sequence[float | None]]
    ) -> Mapping[str, Sequence[float | None]]:
        """The figures of honest clients alone, by metric."""
        if not self.hostile:
            return figures
        found = {}
        for name, by_client in figures.items():
            found[name] = [by_client[place] for place in self.honest]
        return found

    def mean(self, metric: Metric, figures: Mapping[str, Sequence[float | None]]) -> float:
        """The mean over honest clients of one round, as every table has it."""
        return metric.mean(self.of_honest(figures), self.honest_samples)


DESCRIPTION = TypeAdapter(Description)


class CellDir:
    """The folder of one cell."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def description(self) -> Description:
        """What this cell says it is."""
        file = self.path / "cell.json"
        values = _read_json(file)
        try:
            description = Description(**values)
            DESCRIPTION.validate_python(values)
        except TypeError as error:
            raise RunError(
                f"{file}: not written by this version of federico ({error}); "
                "run the experiment again under another name"
            ) from None
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"])
            raise RunError(
                f"{file}: damaged ({place}: {first['msg']}); bring it back from a copy, or delete "
                f"the folder {self.path} and run the experiment again"
            ) from None
        return description

    def describe(self, description: Description) -> None:
        """Say what this cell is, or refuse if it has been something else before."""
        self.refuse_other(description)
        file = self.path / "cell.json"
        if not file.exists():
            publish_text(file, json.dumps(asdict(description), indent=1))

    @property
    def rounds_done(self) -> int:
        """Rounds of the finished cell; 0 as long as it is not finished."""
        file = self.path / "done.json"
        if not file.exists():
            return 0
        rounds = _read_json(file).get("rounds")
        if not isinstance(rounds, int):
            raise RunError(f"{file}: damaged: it does not say how many rounds; delete it to resume")
        return rounds

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
        """Refuse to add to a cell that has been something else before."""
        if not (self.path / "cell.json").exists():
            return

        # Options first: they say most. Numbers of a model differ alone where its code was changed.
        before = self.description
        difference = first_difference(before.options, new.options)
        if not difference and before.data_hash != new.data_hash:
            difference = "the data is not what it was"
        if not difference and before.partition_hash != new.partition_hash:
            difference = "samples are divided otherwise among clients"
        if not difference and before.model_bytes != new.model_bytes:
            difference = f"a model had {before.model_bytes} bytes, now {new.model_bytes}"
        structures = (before.model_structure, new.model_structure)
        if not difference and all(structures) and structures[0] != structures[1]:
            difference = "the model has other layers, tensors or code than before"
        if difference:
            raise another_experiment(self.path, difference)

    @contextmanager
    def locked(self, patience: float = 0.0) -> Iterator[None]:
        """Keep a second process out of this cell, or wait this many seconds for one to leave."""
        with locked(self.path, patience):
            yield


class RunDir:
    """The folder of one experiment, with all its cells."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def cell(self, method: str, seed: int) -> CellDir:
        """The cell of the only settings that the experiment has of this method, there or not."""
        return CellDir(self.path / f"{method}-{seed}")

    def cells(self) -> list[CellDir]:
        """All cells that have begun, by method and seed."""
        found = [CellDir(file.parent) for file in self.path.glob("*/cell.json")]
        return sorted(
            found,
            key=lambda cell: (cell.description.method, cell.description.seed, cell.path.name),
        )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep a second process out while this one writes."""
        with locked(self.path):
            yield


def first_difference(before: Mapping[str, Any], now: Mapping[str, Any], path: str = "") -> str:
    """The first setting that is not as it was, in words; empty if all are."""
    for key in sorted(before.keys() | now.keys()):
        old = before.get(key)
        new = now.get(key)
        if old == new:
            continue
        if isinstance(old, dict) and isinstance(new, dict):
            return first_difference(old, new, f"{path}{key}.")
        return f"{path}{key} was {old!r}, now {new!r}"
    return ""


def another_experiment(path: Path, difference: str) -> RunError:
    """The error for a folder that must not be added to."""
    return RunError(
        f"{path}: holds another experiment ({difference}). "
        "Choose another name, or delete the folder to start over "
        "(in Python: overwrite=True)"
    )


def _read_json(path: Path) -> dict[str, Any]:
    """The table in a JSON file; an error says what to do where it is damaged."""
    try:
        value = json.loads(read_bounded(path))
    except (OSError, ValueError, RecursionError) as error:
        raise RunError(
            f"{path}: cannot be read: {error}; bring it back from a copy, or delete the folder "
            f"{path.parent} and run the experiment again"
        ) from error
    if not isinstance(value, dict):
        raise RunError(f"{path}: damaged: holds {type(value).__name__}, not a table of settings")
    return value
