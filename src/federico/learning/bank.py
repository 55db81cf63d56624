"""The models a process holds: one flat row each, so aggregation is arithmetic on rows and a message is a row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from federico.learning.layout import ModelLayout
from federico.learning.parts import ModelPart
from federico.learning.row_files import RowFiles
from federico.learning.storage import Storage
from federico.types import FloatArray, IntArray

SMALL = 1 << 14
"""Rows shorter than this are added many at once; longer ones one by one, which needs no copy of them."""
TOGETHER = 1024
"""So many at once, at most."""


@dataclass(frozen=True)
class Visits:
    """Pairs (i, b): the data of client i meets the model of owner b. The unit of all batched work."""

    clients: IntArray
    owners: IntArray

    def __len__(self) -> int:
        return len(self.clients)

    def __getitem__(self, which: IntArray) -> "Visits":
        return Visits(self.clients[which], self.owners[which])

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """As a list of (client, owner)."""
        return list(zip(self.clients.tolist(), self.owners.tolist(), strict=True))

    def by_client(self) -> list[tuple[int, IntArray]]:
        """The positions of each client's visits."""
        order = np.argsort(self.clients, kind="stable")
        clients, starts = np.unique(self.clients[order], return_index=True)
        return list(zip(clients.tolist(), np.split(order, starts[1:]), strict=True))

    @classmethod
    def of(cls, pairs: Sequence[tuple[int, int]]) -> "Visits":
        """From a list of (client, owner)."""
        table = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        return cls(table[:, 0], table[:, 1])

    @classmethod
    def to_own(cls, clients: IntArray) -> "Visits":
        """Each of these clients visits its own model and no other."""
        return cls(clients, clients)


class Bank:
    """Rows of models by owner, with the counters that stay with each.

    The first rows are at home here; behind them there is room for guests, models of owners hosted elsewhere.
    """

    def __init__(
        self, layout: ModelLayout, owners: IntArray, rows: Tensor, storage: Storage | None = None
    ) -> None:
        """`owners` is sorted; `rows[k]` is the model of `owners[k]`."""
        self.layout = layout
        self.owners = owners
        self.rows = rows
        self.storage = storage or Storage()
        self.counters = layout.initial_counters().repeat(len(rows), 1)
        self._known, self._order = owners, np.arange(len(owners))

    @classmethod
    def start(
        cls,
        layout: ModelLayout,
        seed: int,
        names: Mapping[int, str],
        device: torch.device,
        storage: Storage | None = None,
    ) -> "Bank":
        """A new model for each owner, drawn from the stream of its name; equal names give equal models."""
        storage = storage or Storage()
        owners = np.array(sorted(names), dtype=np.int64)
        rows = storage.empty(len(owners), layout.size, dtype=layout.dtype, device=device)
        for row, owner in zip(rows, owners, strict=True):
            layout.initial(seed, names[int(owner)], row)
        return cls(layout, owners, rows, storage)

    @property
    def home(self) -> Tensor:
        """The rows of the owners hosted here, in their order."""
        return self.rows[: len(self.owners)]

    def invite(self, guests: IntArray) -> Tensor:
        """Make room for the models of these owners instead of earlier guests; returns their rows, to be filled."""
        here = len(self.owners)
        if here + len(guests) > len(self.rows):
            self.rows = self._enlarged(self.home, here + len(guests))
            self.counters = (
                self.layout.initial_counters()
                .repeat(len(self.rows), 1)
                .index_copy_(0, torch.arange(here), self.counters[:here])
            )
        known = np.concatenate([self.owners, guests])
        self._order = np.argsort(known)
        self._known = known[self._order]
        return self.rows[here : here + len(guests)]

    @property
    def guests(self) -> dict[int, int]:
        """Which row holds the model of which guest."""
        pairs = zip(self._order.tolist(), self._known.tolist(), strict=True)
        return {place: owner for place, owner in pairs if place >= len(self.owners)}

    def welcome(self, wanted: IntArray) -> None:
        """Make room for these guests too: who is here keeps its row, a new one may get that of one not wanted now."""
        asked, here = set(wanted.tolist()), len(self.owners)
        self._grow(here + len(asked) - len(self.rows))
        guests = self.guests
        free = [place for place in range(here, len(self.rows)) if guests.get(place) not in asked]
        free.sort(key=guests.__contains__)  # empty rows first
        self._seat(guests | dict(zip(free, sorted(asked - set(guests.values())), strict=False)))

    def dismiss(self, guest: int) -> None:
        """Forget this guest's model."""
        self._seat({place: owner for place, owner in self.guests.items() if owner != guest})

    def places(self, owners: IntArray) -> Tensor:
        """Which rows hold the models of these owners."""
        return torch.from_numpy(self._order[np.searchsorted(self._known, owners)]).to(
            self.rows.device
        )

    def add(
        self,
        owners: IntArray,
        moves: Tensor | Sequence[Tensor],
        shares: FloatArray,
        part: ModelPart | None = None,
    ) -> None:
        """Move the model of owners[k] by shares[k] * moves[k], for all k in order; only `part` of it if given."""
        if part is None:
            part = ModelPart.whole(self.layout)
        for columns in part.slices:
            self._add_columns(owners, moves, shares, columns)

    def _add_columns(
        self,
        owners: IntArray,
        moves: Tensor | Sequence[Tensor],
        shares: FloatArray,
        columns: slice,
    ) -> None:
        places = self.places(owners)
        rows = self.rows[:, columns]
        if isinstance(moves, Tensor) and self.layout.size < SMALL:
            moves = moves[:, columns]
            factors = torch.from_numpy(shares).to(moves)[:, None]
            for first in range(0, len(moves), TOGETHER):
                some = slice(first, first + TOGETHER)
                rows.index_add_(0, places[some], moves[some] * factors[some])
            return
        for place, move, share in zip(places.tolist(), moves, shares.tolist(), strict=True):
            rows[place].add_(move[columns], alpha=share)

    def copy_models(
        self, sources: IntArray, targets: IntArray, part: ModelPart | None = None
    ) -> None:
        """Give the owner targets[k] the model of the owner sources[k]; only `part` of it if given."""
        if part is None:
            part = ModelPart.whole(self.layout)
        source_places = self.places(sources).tolist()
        target_places = self.places(targets).tolist()
        for source, target in zip(source_places, target_places, strict=True):
            part.copy(self.rows[source], self.rows[target])

    def subtract(
        self, owners: IntArray, trained: Tensor, moves: Tensor | RowFiles, which: IntArray
    ) -> None:
        """Write into moves[which[k]] how far trained[k] is from the model of owners[k], for all k.

        What is put away is made in the place of `trained`, so that it takes no memory.
        """
        places = self.places(owners)
        if isinstance(moves, RowFiles):
            for row, place, k in zip(trained, places.tolist(), which.tolist(), strict=True):
                moves[k] = row.sub_(self.rows[place])
            return
        if self.layout.size < SMALL:
            moved = trained - self.rows.index_select(0, places)
            moves.index_copy_(0, torch.from_numpy(which).to(moves.device), moved)
            return
        for row, place, k in zip(trained, places.tolist(), which.tolist(), strict=True):
            torch.sub(row, self.rows[place], out=moves[k])

    def copy(self) -> Tensor:
        """The rows at home, as they are now."""
        home = self.home
        copied = self.storage.empty(
            *home.shape, dtype=home.dtype, device=home.device, every_round=True
        )
        return copied.copy_(home)

    def _enlarged(self, rows: Tensor, count: int) -> Tensor:
        """So many rows, the first of which hold what `rows` hold; memory that is not touched is not used."""
        enlarged = self.storage.empty(count, rows.shape[1], dtype=rows.dtype, device=rows.device)
        enlarged[: len(rows)].copy_(rows)
        return enlarged

    def _grow(self, more: int) -> None:
        if more > 0:
            self.rows = self._enlarged(self.rows, len(self.rows) + more)
            self.counters = torch.cat(
                [self.counters, self.layout.initial_counters().repeat(more, 1)]
            )

    def _seat(self, guests: Mapping[int, int]) -> None:
        known = np.array([*self.owners, *guests.values()], dtype=np.int64)
        places = np.array([*range(len(self.owners)), *guests], dtype=np.int64)
        order = np.argsort(known)
        self._known, self._order = known[order], places[order]
