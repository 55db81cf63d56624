"""How models and updates move between peers. An exchange knows no algorithm, a method knows no wire.

Rules: a pull always gives the round-start model; what could not be had is left out of the answer, never faked;
updates reach their owner only through `collect`, after everybody has pushed; bytes are counted where they are sent.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from federico.learning.bank import Visits
from federico.types import FloatArray, IntArray


@dataclass(frozen=True)
class Updates:
    """Rows sent to owners: row k moves the model of owners[k], computed by contributors[k] on its own data."""

    owners: IntArray
    contributors: IntArray
    coefficients: FloatArray
    rows: Tensor | Sequence[Tensor]
    """Side by side, or one by one where they lie on a disk until their turn comes."""

    def __len__(self) -> int:
        return len(self.owners)

    def take(self, which: IntArray) -> "Updates":
        """The updates at these positions, in this order."""
        rows = (
            self.rows[which]
            if isinstance(self.rows, Tensor)
            else [self.rows[k] for k in which.tolist()]
        )
        return Updates(self.owners[which], self.contributors[which], self.coefficients[which], rows)

    @property
    def side_by_side(self) -> Tensor:
        """All rows in memory at once."""
        return self.rows if isinstance(self.rows, Tensor) else torch.stack([*self.rows])


class Traffic:
    """Bytes sent and received by each participant since the last `take`."""

    def __init__(self, participants: int) -> None:
        self.sent = np.zeros(participants, dtype=np.int64)
        self.received = np.zeros(participants, dtype=np.int64)
        self._lock = threading.Lock()  # a peer on a network answers in threads

    def count(self, senders: IntArray, receivers: IntArray, size: int) -> None:
        """Each sender sent its receiver `size` bytes; what stays with oneself is not traffic."""
        moved = senders != receivers
        with self._lock:
            np.add.at(self.sent, senders[moved], size)
            np.add.at(self.received, receivers[moved], size)

    def sends(self, sender: int, size: int) -> None:
        """Bytes that went out; who gets them counts them too, somewhere else."""
        with self._lock:
            self.sent[sender] += size

    def receives(self, receiver: int, size: int) -> None:
        """Bytes that came in."""
        with self._lock:
            self.received[receiver] += size

    def take(self) -> tuple[IntArray, IntArray]:
        """(sent, received) so far; counting starts again at zero."""
        with self._lock:
            counted = self.sent, self.received
            self.sent, self.received = np.zeros_like(self.sent), np.zeros_like(self.received)
        return counted


@dataclass(frozen=True)
class Hosting:
    """Which of several processes hosts whom: the clients in equal consecutive shares, all other owners at the first."""

    clients: int
    rank: int = 0
    ranks: int = 1

    @property
    def hosted(self) -> IntArray:
        """The clients hosted here."""
        return np.array_split(np.arange(self.clients), self.ranks)[self.rank]

    def hosts(self, owners: IntArray) -> IntArray:
        """The rank that hosts each of these owners."""
        shares = np.array_split(np.arange(self.clients), self.ranks)
        ends = np.array([share[-1] if len(share) else -1 for share in shares])
        return np.where(
            owners < self.clients, np.searchsorted(np.maximum.accumulate(ends), owners), 0
        )


class Exchange(Protocol):
    """Carries models to visitors and updates to owners, for the peers that this process hosts."""

    traffic: Traffic

    def pull(self, wanted: Visits) -> Visits:
        """Bring the model of every wanted visit's owner into the bank; returns the visits that can take place."""

    def lend(self, visits: Visits) -> Visits:
        """Bring the models of these visits into the bank, to be measured; returns the visits that can take place."""

    def push(self, updates: Updates) -> None:
        """Send each update to its owner."""

    def collect(self) -> Updates:
        """The updates that arrived for the owners hosted here, ordered by owner, then contributor."""
