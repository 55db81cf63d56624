"""The rounds of a cell, as far as the page shows them.

A run that goes on adds a line to its records for every round. What was read of the lines before is
kept, so that a new round costs no more than itself.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from federico.errors import RunError
from federico.report.drawing import true_groups
from federico.runs.layout import CellDir, Description
from federico.runs.records import (
    RECORD,
    Record,
    iterate_lines,
    parsed_part,
    read_spent,
    weights_kept,
)
from federico.stopwatch import Spent
from federico.types import FloatArray, IntArray

MOST_ROUNDS = 400
"""Rounds of a cell that are shown at most, beside the first and the last."""
MOST_READ = 400_000
"""The same, counted in the clients of all these rounds: of thousands of clients fewer are read."""


class NoRoundYetError(RunError):
    """The cell has only just begun."""


@dataclass(frozen=True)
class RoundRead:
    """What is read of every round that is shown, see `Record`."""

    round: int
    figures: dict[str, list[float | None]] | None
    posterior: list[dict[str, float]]
    neighbors: list[list[str]]
    moved: int
    evaluation_moved: int
    sent: list[int]
    received: list[int]
    evaluation_sent: list[int]
    evaluation_received: list[int]
    alone: dict[str, list[float | None]] | None = None
    together: dict[str, list[float | None]] | None = None
    gains: list[dict[str, float | None]] | None = None
    together_share: list[float] | None = None
    effective_collaborators: list[float] | None = None
    on_own_distribution: list[float] | None = None


@dataclass(frozen=True)
class RoundBytes:
    """What each client sent and received in a round, see `Record`."""

    sent: list[int]
    received: list[int]
    evaluation_sent: list[int]
    evaluation_received: list[int]


ROUND_READ = TypeAdapter(RoundRead)
ROUND_BYTES = TypeAdapter(RoundBytes)


@dataclass(frozen=True)
class TrustOfRound:
    """The posteriors of a round: a few numbers for each weight, as there may be millions."""

    starts: IntArray
    """Where the weights of each client begin; the last entry is where all end, [clients + 1]."""
    owners: IntArray
    """Whose model each weight is for, by its number in the cell's `Owners`, [weights]."""
    weights: FloatArray
    """[weights]"""

    def of(self, place: int) -> tuple[IntArray, FloatArray]:
        """The owners and weights of the client at this place; none without a posterior."""
        if place + 1 >= len(self.starts):
            return self.owners[:0], self.weights[:0]
        first = int(self.starts[place])
        end = int(self.starts[place + 1])
        owners = self.owners[first:end]
        weights = self.weights[first:end]
        return owners, weights

    def weight(self, place: int, owner: int) -> float:
        """How much the client at this place trusts this owner's model."""
        owners, weights = self.of(place)
        return float(weights[owners == owner].sum())

    @property
    def clients(self) -> IntArray:
        """The place of the client that each weight is of, [weights]."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))


class Owners:
    """Numbers for all owners of models: the clients first, then others such as components."""

    def __init__(self, clients: Sequence[str]) -> None:
        self.names = list(clients)
        self.all_weights_kept = weights_kept(len(clients)) >= len(clients)
        """Whether the records hold every weight, not only the largest."""
        self._numbers = {name: number for number, name in enumerate(self.names)}

    def number(self, name: str) -> int:
        """The number of this owner, which may be new."""
        found = self._numbers.get(name)
        if found is None:
            found = len(self.names)
            self._numbers[name] = found
            self.names.append(name)
        return found

    def trust(self, posterior: Sequence[Mapping[str, float]]) -> TrustOfRound:
        """The same posteriors with numbers in place of names."""
        counts = [len(row) for row in posterior]
        total = sum(counts)
        numbers = (self.number(owner) for row in posterior for owner in row)
        weights = (weight for row in posterior for weight in row.values())
        return TrustOfRound(
            starts=np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int64),
            owners=np.fromiter(numbers, np.int32, total),
            weights=np.fromiter(weights, np.float32, total),
        )


@dataclass(frozen=True)
class ShownRound:
    """What is shown of a round, see `Record`."""

    round: int
    figures: dict[str, list[float | None]] | None
    alone: dict[str, list[float | None]] | None
    together: dict[str, list[float | None]] | None
    trust: TrustOfRound
    neighbors: list[list[str]]
    gains: list[dict[str, float | None]] | None
    moved: int
    evaluation_moved: int
    traffic: IntArray
    """Bytes that each client sent and received to train and to evaluate, [4, clients]."""
    shares: dict[str, list[float]]
    """By name, see `SHARES`, what the record says of each client; what it does not say is not
    there."""
    made: dict[str, Any] = field(default_factory=dict)
    """What views have made of it: the round does not change any more."""


@dataclass(frozen=True)
class ShownCell:
    """A cell, or a site, that has finished a round at least."""

    path: Path
    about: Description
    """What the cell says of itself."""
    last: Record
    rounds: list[ShownRound]
    """Some of them, see `shown_rounds`."""
    owners: Owners
    traffic: RoundBytes
    """The bytes of all rounds together."""
    read: int = 0
    """Bytes of records that were read; what comes after them is newer."""
    last_line: bytes = b""
    spent_before: list[Spent] = field(default_factory=list)
    """What is known of `spent`."""

    @property
    def spent(self) -> list[Spent]:
        """What every round took. It is read once for the views of all clients."""
        if len(self.spent_before) < self.last.round:
            # The seconds of a round are written after its record.
            self.spent_before[:] = read_spent(self.path)
        return self.spent_before

    @cached_property
    def known_groups(self) -> dict[str, int] | None:
        """The true distribution of each client; None where unknown, or where they group nobody."""
        truth = true_groups(self.about.distribution)
        if truth is None:
            return None
        return dict(zip(self.about.clients, truth, strict=True))

    @property
    def knows_trust(self) -> bool:
        """Whether its clients have weights over each other's models."""
        return bool((self.rounds[-1].trust.owners < len(self.about.clients)).any())


def read_cell(path: Path, before: ShownCell | None = None) -> ShownCell:
    """Read the rounds of the cell in this folder; `before` is what was read of it earlier."""
    cell = CellDir(path)
    if before is not None and not _goes_on(before, cell):
        before = None
    start = 0 if before is None else before.read
    sizes = [len(line) for line in iterate_lines(path, start)]
    if sizes:
        return _read_on(cell, before, start, sizes)
    if before is None:
        raise NoRoundYetError(f"{path.name} has not finished a round yet; wait for the first")
    return before


def _goes_on(before: ShownCell, cell: CellDir) -> bool:
    """Whether the records begin with those that were read: a run may have been started over."""
    if before.about != cell.description:
        return False
    tail = before.read - len(before.last_line)
    return next(iterate_lines(cell.path, tail), b"") == before.last_line


def _read_on(
    cell: CellDir, before: ShownCell | None, start: int, sizes: Sequence[int]
) -> ShownCell:
    """What was read before and the new lines, which begin at `start` and have these sizes.

    Rounds that are too many are left out again.
    """
    owners = Owners(cell.description.clients)
    known: dict[int, ShownRound] = {}
    traffic: list[RoundBytes] = []
    first = 1
    if before is not None:
        owners = before.owners
        known = {each.round: each for each in before.rounds}
        traffic.append(before.traffic)
        first = before.last.round + 1

    shown = shown_rounds(first - 1 + len(sizes), len(cell.description.clients))
    wanted = set(shown)
    line = b""
    # Lines that have come since they were counted are for the next time.
    numbers = range(first, first + len(sizes))
    for number, line in zip(numbers, iterate_lines(cell.path, start), strict=False):
        if number in wanted:
            found = parsed_part(line, ROUND_READ, cell.path)
            known[number] = _shown(found, number, owners)
            traffic.append(_bytes_of(found))
        else:
            traffic.append(parsed_part(line, ROUND_BYTES, cell.path))
    return ShownCell(
        path=cell.path,
        about=cell.description,
        last=parsed_part(line, RECORD, cell.path),
        rounds=[known[number] for number in shown if number in known],
        owners=owners,
        traffic=_sum(traffic),
        read=start + sum(sizes),
        last_line=line,
    )


def read_site(state_folder: Path, about: Description) -> ShownCell:
    """Read the rounds of a site: its records are about itself alone, the first of these clients."""
    lines = list(iterate_lines(state_folder, 0))
    if not lines:
        raise NoRoundYetError(f"{state_folder.name} has not finished a round yet")
    owners = Owners(about.clients)
    wanted = set(shown_rounds(len(lines), clients=1))
    rounds = []
    traffic = []
    for number, line in enumerate(lines, start=1):
        found = parsed_part(line, ROUND_READ, state_folder)
        # A peer counts its own bytes only, whatever its number among the members.
        own = replace(
            found,
            sent=[sum(found.sent)],
            received=[sum(found.received)],
            evaluation_sent=[sum(found.evaluation_sent)],
            evaluation_received=[sum(found.evaluation_received)],
        )
        traffic.append(_bytes_of(own))
        if number in wanted:
            rounds.append(_shown(own, number, owners))
    last = parsed_part(lines[-1], RECORD, state_folder)
    return ShownCell(state_folder, about, last, rounds, owners, _sum(traffic))


def shown_rounds(count: int, clients: int) -> list[int]:
    """The rounds of this many that are shown, where each is of this many clients.

    All of them, or every second, fourth, eighth and so on, and the first and the last: rounds that
    are shown of a longer run were shown before.
    """
    if count == 0:
        return []
    most = max(2, min(MOST_ROUNDS, MOST_READ // clients))
    step = 1
    while count / step > most:
        step *= 2
    return sorted({1, *range(step, count + 1, step), count})


def _shown(found: RoundRead, number: int, owners: Owners) -> ShownRound:
    return ShownRound(
        round=number,
        figures=found.figures,
        alone=found.alone,
        together=found.together,
        trust=owners.trust(found.posterior),
        neighbors=found.neighbors,
        gains=found.gains,
        moved=found.moved,
        evaluation_moved=found.evaluation_moved,
        traffic=np.array(
            [found.sent, found.received, found.evaluation_sent, found.evaluation_received],
            dtype=np.int64,
        ),
        shares=_shares(found, owners),
    )


def _shares(found: RoundRead, owners: Owners) -> dict[str, list[float]]:
    """What the record says of every client beside its figures."""
    shares = {}
    if found.together_share is not None:
        shares["together_share"] = found.together_share
    if found.effective_collaborators is not None:
        shares["effective_collaborators"] = found.effective_collaborators
    elif found.posterior and owners.all_weights_kept:
        counts = []
        for row in found.posterior:
            squares = sum(weight * weight for weight in row.values())
            counts.append(1 / squares if squares else 0.0)
        shares["effective_collaborators"] = counts
    if found.on_own_distribution is not None:
        shares["on_own_distribution"] = found.on_own_distribution
    return shares


def _bytes_of(found: RoundRead) -> RoundBytes:
    return RoundBytes(found.sent, found.received, found.evaluation_sent, found.evaluation_received)


def _sum(parts: Sequence[RoundBytes]) -> RoundBytes:
    return RoundBytes(
        sent=_total(part.sent for part in parts),
        received=_total(part.received for part in parts),
        evaluation_sent=_total(part.evaluation_sent for part in parts),
        evaluation_received=_total(part.evaluation_received for part in parts),
    )


def _total(rounds: Iterable[Sequence[int]]) -> list[int]:
    """The sums over rounds, by client."""
    total: list[int] = np.sum(list(rounds), axis=0).tolist()
    return total
