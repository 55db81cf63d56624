"""What a round leaves behind: one JSON line each in `records.jsonl`, the same bytes for the same experiment.

Seconds differ from run to run and so have a file of their own, `timings.jsonl`.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from federico.errors import RunError
from federico.exchange.protocol import ByteCount, Purpose
from federico.learning.learner import Scores
from federico.methods.method import Round, Spent
from federico.runs.atomic import disk_errors, publish_text
from federico.types import FloatArray


@dataclass(frozen=True)
class Record:
    """One round. Lists follow the order of the cell's clients."""

    round: int
    accuracy: list[float] | None
    """On each client's own test data; None where the round was not evaluated or the task is regression."""
    loss: list[float | None] | None
    """Mean loss on each client's own test data; a loss that is not finite is None."""
    neighbors: list[list[str]]
    """Whom each client visited."""
    posterior: list[dict[str, float]]
    """Each client's weights over the models it has met: the peers it has evaluated, FedEM's components, its cluster."""
    sent: list[int]
    """Bytes each client sent."""
    received: list[int]
    """Bytes each client received."""
    moved: int
    """Bytes of all messages, each counted once, to and from a server included."""
    evaluation_sent: list[int]
    """Bytes each client sent so that others could evaluate its model."""
    evaluation_received: list[int]
    """Bytes each client received to evaluate: the models it read after the round."""
    evaluation_moved: int
    """Bytes of all messages that only evaluation needed, each counted once."""

    @classmethod
    def joined(cls, parts: Sequence["Record"]) -> "Record":
        """The record of all clients from those of the processes that host them, in order."""
        first = parts[0]
        return cls(
            first.round,
            None
            if first.accuracy is None
            else [value for part in parts for value in part.accuracy or ()],
            None if first.loss is None else [value for part in parts for value in part.loss or ()],
            [row for part in parts for row in part.neighbors],
            [row for part in parts for row in part.posterior],
            [sum(counts) for counts in zip(*(part.sent for part in parts), strict=True)],
            [sum(counts) for counts in zip(*(part.received for part in parts), strict=True)],
            sum(part.moved for part in parts),
            [sum(counts) for counts in zip(*(part.evaluation_sent for part in parts), strict=True)],
            [
                sum(counts)
                for counts in zip(*(part.evaluation_received for part in parts), strict=True)
            ],
            sum(part.evaluation_moved for part in parts),
        )

    @classmethod
    def of(
        cls,
        index: int,
        names: Sequence[str],
        clients: int,
        scores: Scores | None,
        played: Round,
        traffic: Mapping[Purpose, ByteCount],
    ) -> "Record":
        """From what a round and its evaluation gave; `names` are the clients', then those of other owners."""
        training = traffic["training"]
        evaluation = traffic["evaluation"]
        return cls(
            index,
            None if scores is None or scores.accuracy is None else scores.accuracy.tolist(),
            None if scores is None else _finite(scores.loss),
            [[names[j] for j in sampled] for sampled in played.neighbors],
            [
                {
                    names[j]: weight
                    for j, weight in zip(row.peers, row.weights.tolist(), strict=True)
                }
                for row in played.posteriors
            ],
            training.sent[:clients].tolist(),
            training.received[:clients].tolist(),
            training.moved,
            evaluation.sent[:clients].tolist(),
            evaluation.received[:clients].tolist(),
            evaluation.moved,
        )


class Journal:
    """The two files of a cell, open for appending."""

    def __init__(self, folder: Path) -> None:
        self.records = folder / "records.jsonl"
        self.timings = folder / "timings.jsonl"

    def rewind(self, records_bytes: int, round_index: int) -> None:
        """Forget what was written after this point: it is about to be written again."""
        with disk_errors(self.records):
            with self.records.open("ab") as file:
                if file.tell() < records_bytes:
                    raise RunError(
                        f"{self.records}: shorter than at the last checkpoint; bring the lost lines back, or delete "
                        f"{self.records.parent} to start it anew"
                    )
                file.truncate(records_bytes)
            kept = [line for line in _timings(self.timings) if line["round"] <= round_index]
            publish_text(self.timings, "".join(json.dumps(line) + "\n" for line in kept))

    def append(self, record: Record) -> None:
        """Add what a round did."""
        with disk_errors(self.records):
            _append(self.records, asdict(record))

    def append_spent(self, round_index: int, spent: Spent) -> None:
        """Add what a round took, per phase."""
        with disk_errors(self.timings):
            _append(self.timings, {"round": round_index} | asdict(spent))

    def size(self) -> int:
        """Bytes of records so far."""
        return self.records.stat().st_size


def read_records(folder: Path) -> list[Record]:
    """All rounds of a cell."""
    return [Record(**line) for line in _lines(folder / "records.jsonl")]


def read_spent(folder: Path) -> list[Spent]:
    """What every round of a cell took; nothing if the first ones are not known: sums would be too small."""
    lines = _timings(folder / "timings.jsonl")
    if [line["round"] for line in lines] != list(range(1, len(lines) + 1)):
        return []
    return [Spent(line["seconds"], line["processor_seconds"]) for line in lines]


def mean_accuracy(record: Record, samples: Iterable[int]) -> float | None:
    """The paper's figure: each client's own accuracy, weighted by the size of its data."""
    return (
        None
        if record.accuracy is None
        else float(np.average(record.accuracy, weights=list(samples)))
    )


def mean_loss(record: Record, samples: Iterable[int]) -> float | None:
    """The same for the loss; a client whose loss is not finite makes the mean infinite."""
    if record.loss is None:
        return None
    return float(
        np.average(
            [np.inf if loss is None else loss for loss in record.loss], weights=list(samples)
        )
    )


def _append(path: Path, value: dict[str, Any]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(value, allow_nan=False) + "\n")


def _lines(path: Path) -> list[dict[str, Any]]:
    """Whole lines only: the last one may have been cut short by a crash."""
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8", errors="replace")
    try:
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
    except ValueError as error:
        raise RunError(
            f"{path}: damaged ({error}); delete the folder {path.parent} and run the experiment again"
        ) from None


def _timings(path: Path) -> list[dict[str, Any]]:
    """Seconds are nice to have: a damaged file of them is as good as none."""
    try:
        return [
            line
            for line in _lines(path)
            if line.keys() >= {"round", "seconds", "processor_seconds"}
        ]
    except (RunError, AttributeError):
        return []


def _finite(values: FloatArray) -> list[float | None]:
    return [value if np.isfinite(value) else None for value in values.tolist()]
