"""What a round leaves behind: one JSON line in `records.jsonl`, the same for the same experiment.

Seconds differ from run to run and so have a file of their own, `timings.jsonl`. Nothing here needs
torch.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from pydantic import TypeAdapter, ValidationError

from federico.bounded_files import TooLargeError, whole_lines
from federico.errors import RunError
from federico.open_files import once_files_are_free
from federico.runs.atomic import disk_errors, publish_text
from federico.runs.comparison import Comparisons
from federico.stopwatch import Spent

RECORDS = "records.jsonl"
TIMINGS = "timings.jsonl"
WEIGHTS_PER_ROUND = 64 * 64
"""Posterior weights that a record may hold: all of them for up to 64 clients."""

OPTIONAL = (
    "effective_collaborators",
    "on_own_distribution",
    "alone",
    "together",
    "together_share",
    "together_chance",
    "gains",
    "standing",
    "refusals",
    "epsilon",
    "delta",
    "kept_rounds",
    "kept_losses",
    "without_gain",
)
"""Parts of a record that are left out where there is nothing to say."""

T = TypeVar("T")


@dataclass(frozen=True)
class Record:
    """One round. Lists follow the order of the cell's clients."""

    round: int
    figures: dict[str, list[float | None]] | None
    """By metric, how good each client's predictions for its own test data are; None where the round
    was not evaluated. A figure that is undefined or not finite is None."""
    neighbors: list[list[str]]
    """The peers that each client visited."""
    posterior: list[dict[str, float]]
    """Each client's weights over the models it has met: the peers it has evaluated, FedEM's
    components, its cluster. With many clients only the largest, see `weights_kept`; what is
    missing to 1 is the sum of the rest."""
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
    effective_collaborators: list[float] | None = None
    """Each client's 1 / sum of squared weights, where `posterior` does not hold all weights."""
    on_own_distribution: list[float] | None = None
    """Each client's weight on peers of its own true distribution, where `posterior` does not hold
    all weights and the distributions are known."""
    alone: dict[str, list[float | None]] | None = None
    """Like `figures`, of the model that each client trained alone and shows to nobody; None where
    the method trains none. With a thousand clients only some rounds say it, the last one always."""
    together: dict[str, list[float | None]] | None = None
    """Like `alone`, of the collaborators' models without the one trained alone."""
    together_share: list[float] | None = None
    """How much the collaborators' models count in what each client predicts with, from 0 to 1; the
    model trained alone has the rest."""
    together_chance: list[float | None] | None = None
    """How probable it is, for each client, that the collaborators' models do better than the one
    trained alone, from 0 to 1, as its held-out samples tell; None for a client without
    collaborators or without such samples, and in the records of older versions."""
    gains: list[dict[str, float | None]] | None = None
    """What the models that each client judged were worth to it, in nats against a guess on the
    samples that it held out; None for a model whose outputs were not finite, or that was an echo of
    the client's own. None where the method judges no models so, and with more than a thousand
    clients."""
    standing: list[dict[str, float]] | None = None
    """What is left to the contributors whose updates each client has had to refuse, of what they
    may count for at this client: from 0 to 1. With many clients only the least; None where nothing
    was ever refused. With a thousand clients only some rounds say it, the last one always."""
    refusals: list[dict[str, int]] | None = None
    """How many updates of these contributors were refused so far."""
    epsilon: list[float] | None = None
    """What all that each client has sent so far costs in differential privacy of its samples; None
    where training is not private."""
    delta: float | None = None
    """The probability with which the bound of `epsilon` may fail."""
    kept_rounds: list[int] | None = None
    """The round whose personal model each client keeps, and whose figures these are; None where
    every client keeps that of the last round."""
    kept_losses: list[float | None] | None = None
    """The loss of what each client keeps on the samples that it has set aside; None without any, or
    where it is not finite."""
    without_gain: list[int] | None = None
    """For how many evaluated rounds each client has not found anything better to keep."""

    @property
    def comparisons(self) -> Comparisons | None:
        """What each client is alone, together and as used; None where the round does not say."""
        if self.figures is None or self.alone is None or self.together is None:
            return None
        if self.together_share is None:
            return None
        return Comparisons(
            self.alone, self.together, self.figures, self.together_share, self.together_chance
        )

    @classmethod
    def joined(cls, parts: Sequence["Record"]) -> "Record":
        """The record of all clients from those of the processes that host them, in order."""
        neighbors: list[list[str]] = []
        posterior: list[dict[str, float]] = []
        for part in parts:
            neighbors += part.neighbors
            posterior += part.posterior
        return cls(
            round=parts[0].round,
            figures=_joined_figures([part.figures for part in parts]),
            neighbors=neighbors,
            posterior=posterior,
            sent=_sums([part.sent for part in parts]),
            received=_sums([part.received for part in parts]),
            moved=sum(part.moved for part in parts),
            evaluation_sent=_sums([part.evaluation_sent for part in parts]),
            evaluation_received=_sums([part.evaluation_received for part in parts]),
            evaluation_moved=sum(part.evaluation_moved for part in parts),
            effective_collaborators=_end_to_end([part.effective_collaborators for part in parts]),
            on_own_distribution=_end_to_end([part.on_own_distribution for part in parts]),
            alone=_joined_figures([part.alone for part in parts]),
            together=_joined_figures([part.together for part in parts]),
            together_share=_end_to_end([part.together_share for part in parts]),
            together_chance=_end_to_end([part.together_chance for part in parts]),
            gains=_end_to_end([part.gains for part in parts]),
            standing=_where_any([(part.standing, part.neighbors) for part in parts]),
            refusals=_where_any([(part.refusals, part.neighbors) for part in parts]),
            epsilon=_end_to_end([part.epsilon for part in parts]),
            delta=parts[0].delta,
            kept_rounds=_end_to_end([part.kept_rounds for part in parts]),
            kept_losses=_end_to_end([part.kept_losses for part in parts]),
            without_gain=_end_to_end([part.without_gain for part in parts]),
        )


RECORD = TypeAdapter(Record)
SPENT = TypeAdapter(Spent)


def weights_kept(clients: int) -> int:
    """How many weights of each client's posterior a record keeps, the largest ones.

    Written out in full, the posteriors of a thousand clients would grow to megabytes a round.
    """
    return max(1, WEIGHTS_PER_ROUND // clients)


class Journal:
    """The two files of a cell, open for appending."""

    def __init__(self, folder: Path) -> None:
        self.records = folder / RECORDS
        self.timings = folder / TIMINGS

    def rewind(self, records_bytes: int, round_index: int) -> None:
        """Forget what was written after this point: it is about to be written again."""
        with disk_errors(self.records):
            with self.records.open("ab") as file:
                if file.tell() < records_bytes:
                    raise RunError(
                        f"{self.records}: shorter than at the last checkpoint; bring the lost "
                        "lines "
                        f"back, or delete {self.records.parent} to start over"
                    )
                file.truncate(records_bytes)
            kept = [line for line in _timings(self.timings) if line["round"] <= round_index]
            publish_text(self.timings, "".join(json.dumps(line) + "\n" for line in kept))

    def append(self, record: Record) -> None:
        """Add what a round did."""
        with disk_errors(self.records):
            _append(self.records, _without_none(dict(vars(record))))

    def append_spent(self, round_index: int, spent: Spent) -> None:
        """Add what a round took, by phase."""
        with disk_errors(self.timings):
            line = {"round": round_index} | asdict(spent)
            if not spent.samples:
                del line["samples"]
            _append(self.timings, line)

    def size(self) -> int:
        """Bytes of records so far."""
        return self.records.stat().st_size


def read_records(folder: Path) -> list[Record]:
    """All rounds of a cell."""
    return [parsed_part(line, RECORD, folder) for line in iterate_lines(folder)]


def iterate_parts(folder: Path, part: TypeAdapter[T]) -> Iterator[T]:
    """A part of every record of a cell: the fields of `Record` that this type has.

    Whole records of thousands of clients do not fit in memory, and take ten times as long to read.
    """
    for line in iterate_lines(folder):
        yield parsed_part(line, part, folder)


def iterate_lines(folder: Path, start: int = 0) -> Iterator[bytes]:
    """The whole lines of a cell's records from this byte on; nothing before the first round."""
    return _whole_lines(folder / RECORDS, start)


def parsed_part(line: bytes, part: TypeAdapter[T], folder: Path) -> T:
    """A part of one of these lines, checked."""
    try:
        return part.validate_json(line)
    except ValidationError as error:
        raise _damaged(folder / RECORDS, error.errors()[0]["msg"]) from None


def iterate_some_parts(folder: Path, part: TypeAdapter[T], most: int) -> Iterator[T]:
    """The same of at most this many rounds, evenly from all, the first and last among them."""
    count = sum(1 for _ in iterate_lines(folder))
    places = np.linspace(0, count - 1, min(count, most))
    wanted = set(places.astype(int).tolist())
    for number, line in enumerate(iterate_lines(folder)):
        if number in wanted:
            yield parsed_part(line, part, folder)


def read_last_record(folder: Path) -> Record | None:
    """The last round of a cell; None before the first."""
    last = None
    for line in iterate_lines(folder):
        last = line
    if last is None:
        return None
    return parsed_part(last, RECORD, folder)


def read_last_evaluated(folder: Path) -> Record | None:
    """The last round of a cell that was evaluated; None before the first."""
    last = None
    for record in iterate_parts(folder, RECORD):
        if record.figures is not None:
            last = record
    return last


def read_spent(folder: Path) -> list[Spent]:
    """What every round of a cell took; nothing if the first ones are not known, or one is damaged.

    Sums would be too small.
    """
    found = []
    for expected, line in enumerate(_timings(folder / TIMINGS), start=1):
        if line["round"] != expected:
            return []
        try:
            found.append(SPENT.validate_python(line))
        except ValidationError:
            return []
    return found


def _joined_figures(
    parts: Sequence[dict[str, list[float | None]] | None],
) -> dict[str, list[float | None]] | None:
    """The figures of all clients; None where the round was not evaluated."""
    if parts[0] is None:
        return None
    joined: dict[str, list[float | None]] = {name: [] for name in parts[0]}
    for part in parts:
        for name, values in (part or {}).items():
            joined[name] += values
    return joined


def _end_to_end(parts: Sequence[list[T] | None]) -> list[T] | None:
    """All lists in one; None where there are none."""
    if parts[0] is None:
        return None
    return [value for part in parts for value in part or ()]


def _where_any(
    parts: Sequence[tuple[list[dict[str, T]] | None, Sequence[Any]]],
) -> list[dict[str, T]] | None:
    """All lists in one, with nothing for each of the clients of a process that has none."""
    if all(values is None for values, _ in parts):
        return None
    joined: list[dict[str, T]] = []
    for values, clients in parts:
        joined += [{} for _ in clients] if values is None else values
    return joined


def _sums(parts: Sequence[Sequence[int]]) -> list[int]:
    """The sum of the first entries, of the second, and so on."""
    return [sum(counts) for counts in zip(*parts, strict=True)]


def _without_none(line: dict[str, Any]) -> dict[str, Any]:
    """Without what only records of many clients, or of some methods, have."""
    for name in OPTIONAL:
        if line[name] is None:
            del line[name]
    return line


def _append(path: Path, value: dict[str, Any]) -> None:
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    with once_files_are_free(lambda: path.open("a", encoding="utf-8")) as file:
        file.write(text + "\n")


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    for line in _whole_lines(path):
        try:
            found: dict[str, Any] = json.loads(line)
        except (ValueError, RecursionError) as error:  # also of what is nested too deeply
            raise _damaged(path, str(error)) from None
        yield found


def _whole_lines(path: Path, start: int = 0) -> Iterator[bytes]:
    """Whole lines only: the last one may have been cut short by a crash."""
    if not path.exists():
        return
    try:
        yield from whole_lines(path, start)
    except TooLargeError as error:
        raise _damaged(path, str(error.strerror)) from None


def _damaged(path: Path, fault: str) -> RunError:
    return RunError(
        f"{path}: damaged ({fault}); delete the folder {path.parent} and run the experiment again"
    )


def _timings(path: Path) -> list[dict[str, Any]]:
    """Seconds are nice to have: a damaged file of them is as good as none."""
    needed = {"round", "seconds", "processor_seconds"}
    try:
        return [line for line in _lines(path) if line.keys() >= needed]
    except (RunError, AttributeError):
        return []
