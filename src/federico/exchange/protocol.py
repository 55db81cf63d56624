"""How models and updates move between peers. An exchange knows no algorithm, a method no wire.

A pull always gives the model as it was when the round started. What could not be had is left out
of the answer, never faked. Updates reach their owner only through `collect`, after everybody has
pushed. Bytes are counted where they are sent.
"""

import threading
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol, TypeAlias

import numpy as np

from federico.learning.rows import Rows
from federico.learning.visits import Visits, positions_by
from federico.types import BoolArray, FloatArray, IntArray

COEFFICIENT_BYTES = 8
"""What an update's coefficient costs beside its row."""

Purpose: TypeAlias = Literal["training", "evaluation"]
"""What bytes were moved for."""


@dataclass(frozen=True)
class Updates:
    """Rows sent to owners.

    Row k moves the model of owners[k]; contributors[k] computed it on its own data.
    """

    owners: IntArray
    contributors: IntArray
    coefficients: FloatArray
    rows: Rows

    def __len__(self) -> int:
        return len(self.owners)

    @property
    def are_own(self) -> BoolArray:
        """Which updates are those of an owner to its own model, [updates]."""
        are_own: BoolArray = self.owners == self.contributors
        return are_own

    def by_owner(self) -> list[tuple[int, IntArray]]:
        """Every owner, in ascending order, with the positions of the updates that came for it."""
        return positions_by(self.owners)

    def take(self, which: IntArray) -> "Updates":
        """The updates at these positions, in this order."""
        return Updates(
            self.owners[which],
            self.contributors[which],
            self.coefficients[which],
            self.rows.take(which),
        )


@dataclass(frozen=True)
class ByteCount:
    """Bytes sent and received by each participant, for one purpose."""

    sent: IntArray
    received: IntArray

    @classmethod
    def zero(cls, participants: int) -> "ByteCount":
        """Nothing sent and nothing received yet."""
        return cls(np.zeros(participants, dtype=np.int64), np.zeros(participants, dtype=np.int64))

    @property
    def moved(self) -> int:
        """Bytes of all messages, each counted once: everything is sent by somebody."""
        return int(self.sent.sum())


class Traffic:
    """Bytes sent and received by each participant since the last `take`, by what they were for.

    Training is what the method itself moves: pulled models and pushed updates. Evaluation is what
    reading models for a score or a prediction moves on top of it.
    """

    def __init__(self, participants: int) -> None:
        """`participants`: the clients, and whoever else owns a model."""
        self._participants = participants
        self._lock = threading.Lock()  # a peer on a network answers in threads
        self._counts = self._zero()

    def count(
        self, senders: IntArray, receivers: IntArray, size: int, purpose: Purpose = "training"
    ) -> None:
        """Each sender sent its receiver `size` bytes; what stays with oneself is not traffic."""
        moved = senders != receivers
        with self._lock:
            counted = self._counts[purpose]
            np.add.at(counted.sent, senders[moved], size)
            np.add.at(counted.received, receivers[moved], size)

    def sends(self, sender: int, size: int, purpose: Purpose = "training") -> None:
        """Count bytes that went out; the receiver counts them too, in another process."""
        with self._lock:
            self._counts[purpose].sent[sender] += size

    def receives(self, receiver: int, size: int, purpose: Purpose = "training") -> None:
        """Count bytes that came in."""
        with self._lock:
            self._counts[purpose].received[receiver] += size

    def take(self) -> dict[Purpose, ByteCount]:
        """Return what was counted so far, and start again at zero."""
        with self._lock:
            counted = self._counts
            self._counts = self._zero()
        return counted

    def _zero(self) -> dict[Purpose, ByteCount]:
        return {
            "training": ByteCount.zero(self._participants),
            "evaluation": ByteCount.zero(self._participants),
        }


@dataclass(frozen=True)
class Hosting:
    """Which of several processes hosts whom.

    Clients are dealt out in equal consecutive shares; all other owners are at the first process.
    """

    clients: int
    rank: int = 0
    ranks: int = 1

    @cached_property
    def hosted(self) -> IntArray:
        """The clients hosted by this process."""
        return self._shares()[self.rank]

    def hosts(self, owners: IntArray) -> IntArray:
        """The rank that hosts each of these owners."""
        ends = np.cumsum([len(share) for share in self._shares()])
        ranks = np.searchsorted(ends, owners, side="right")
        return np.where(owners < self.clients, ranks, 0)

    def _shares(self) -> list[IntArray]:
        return np.array_split(np.arange(self.clients), self.ranks)


class Exchange(Protocol):
    """Carries models to visitors and updates to owners, for the peers that this process hosts.

    Every verb is told the round it belongs to: an exchange keeps no round counter of its own.
    """

    traffic: Traffic

    def withhold(self, owners: IntArray) -> None:
        """From now on nobody else gets the models of these owners, who are hosted here.

        All processes of a run say it together, before the first round.
        """

    def pull(self, round_index: int, wanted: Visits) -> Visits:
        """Bring each wanted owner's model, as it was when this round started, into the bank.

        Returns the visits that can take place; what could not be had is left out.
        """

    def push(self, round_index: int, updates: Updates) -> None:
        """Send each update to the owner of its model."""

    def collect(self, round_index: int) -> Updates:
        """Return the updates for the owners hosted here, ordered by owner, then contributor."""

    def read_models(self, round_index: int, visits: Visits) -> Visits:
        """Bring the visited models, as they are after this round, into the bank for evaluation.

        Returns the visits that can take place. The bytes are counted apart from training.
        """


def without_withheld(visits: Visits, withheld: IntArray) -> Visits:
    """The visits without those of others to owners who withhold their models."""
    if len(withheld) == 0:
        return visits
    to_own = visits.owners == visits.clients
    possible = to_own | ~np.isin(visits.owners, withheld)
    return visits[np.flatnonzero(possible)]
