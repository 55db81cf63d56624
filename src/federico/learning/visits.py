"""Visits: whose data meets whose model. The unit of all batched work."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from federico.types import BoolArray, IntArray


@dataclass(frozen=True)
class Visits:
    """Pairs (i, b): the data of client i meets the model of owner b."""

    clients: IntArray
    owners: IntArray

    def __len__(self) -> int:
        return len(self.clients)

    def __getitem__(self, which: IntArray) -> "Visits":
        return Visits(self.clients[which], self.owners[which])

    @property
    def are_own(self) -> BoolArray:
        """Which visits are those of a client to its own model, [visits]."""
        are_own: BoolArray = self.clients == self.owners
        return are_own

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The visits as a list of (client, owner)."""
        clients = self.clients.tolist()
        owners = self.owners.tolist()
        return list(zip(clients, owners, strict=True))

    def by_client(self) -> list[tuple[int, IntArray]]:
        """Every client, in ascending order, with the positions of its visits."""
        return positions_by(self.clients)

    @classmethod
    def of(cls, pairs: Sequence[tuple[int, int]]) -> "Visits":
        """The visits of a list of (client, owner)."""
        table = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        return cls(table[:, 0], table[:, 1])

    @classmethod
    def to_own(cls, clients: IntArray) -> "Visits":
        """Each of these clients visits its own model and no other."""
        return cls(clients, clients)


def positions_by(numbers: IntArray) -> list[tuple[int, IntArray]]:
    """Every number that occurs, in ascending order, with the positions at which it does."""
    if len(numbers) == 0:
        return []

    order = np.argsort(numbers, kind="stable")
    distinct, starts = np.unique(numbers[order], return_index=True)

    # What is equal now lies side by side, up to where the next number starts.
    ends = [*starts[1:].tolist(), len(order)]
    positions: list[tuple[int, IntArray]] = []
    for number, start, end in zip(distinct.tolist(), starts.tolist(), ends, strict=True):
        positions.append((number, order[start:end]))
    return positions
