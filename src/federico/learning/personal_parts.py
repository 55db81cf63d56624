"""The parts of models that stay with each client, where only the rest is exchanged.

A client has one such part for the models of all clients, its own and those that it visits: what it
has learned with its own model. It has another for each model that belongs to nobody, such as
FedAvg's, and for each private model. Nobody else ever sees them.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from federico.learning.layout import ModelLayout
from federico.learning.parts import ModelPart
from federico.learning.visits import Visits

PartKey: TypeAlias = tuple[int, int]
"""A client, and the owner of a model that one of its personal parts completes."""
Learned: TypeAlias = list[tuple[PartKey, Tensor]]
"""Parts that were trained, and where they belong."""


class PersonalParts:
    """One short row for each client and model that it has met, made when it is first needed."""

    def __init__(
        self,
        layout: ModelLayout,
        shared: ModelPart,
        seed: int,
        starts: Mapping[int, str],
        clients: int,
        device: torch.device | str = "cpu",
    ) -> None:
        """`starts` are the random streams that models start from, by owner, wherever they are."""
        self._layout = layout
        self.shared = shared
        self._part = shared.rest(layout)
        self.row_layout = shared.laid_out(layout)
        """Which tensors the rows hold that are exchanged."""
        self._seed = seed
        self._starts = starts
        self._clients = clients
        self._device = torch.device(device)
        self._rows: dict[PartKey, Tensor] = {}
        self._start_of: dict[str, Tensor] = {}

    def meet(self, visits: Visits) -> None:
        """Make the parts that are not there yet. Only one thread at a time may do this."""
        for client, owner in visits.pairs:
            key = self._key(client, owner)
            if key not in self._rows:
                _, of_owner = key
                start = self._start(self._starts[of_owner])
                self._rows[key] = start.clone()

    def complete(self, visits: Visits, shared: Tensor, rows: Tensor) -> None:
        """Write whole models into `rows`: what the clients share, and the parts of the visitors."""
        self.shared.paste(shared, rows)
        parts = [self._rows[self._key(client, owner)] for client, owner in visits.pairs]
        self._part.paste(torch.stack(parts), rows)

    def learned(self, visits: Visits, trained: Tensor) -> Learned:
        """What visits have learned that move a personal part, from whole rows of trained models.

        A visit to the model of another client moves none: what a client has learned with its own
        model must go with that.
        """
        moved: Learned = []
        for row, (client, owner) in zip(trained, visits.pairs, strict=True):
            key = self._key(client, owner)
            if key == (client, owner) and row.isfinite().all():
                moved.append((key, self._part.cut(row)))
        return moved

    def move(self, moved: Learned) -> None:
        """Put what was learned in the place of what was there."""
        for key, row in moved:
            self._rows[key] = row

    def shared_of(self, rows: Tensor) -> Tensor:
        """What clients share of whole models."""
        return self.shared.cut(rows)

    def copied(self) -> "PersonalParts":
        """The same parts again, which can be moved without moving these."""
        copied = PersonalParts(
            self._layout, self.shared, self._seed, self._starts, self._clients, self._device
        )
        copied._rows = {key: row.clone() for key, row in self._rows.items()}
        return copied

    def as_own(self, visits: Visits) -> "PersonalParts":
        """The parts of these visits alone, as those of the visitors' own models."""
        own = self.copied()
        own._rows = {}
        for client, owner in visits.pairs:
            own._rows[client, client] = self._rows[self._key(client, owner)]
        return own

    def state(self) -> dict[str, Tensor]:
        """All parts, ordered by client: those of several processes end to end are those of one."""
        keys = sorted(self._rows)
        rows = [self._rows[key] for key in keys]
        empty = torch.empty(0, self._part.size, dtype=self._layout.dtype)
        return {
            "places": torch.tensor(keys, dtype=torch.int64).view(len(keys), 2),
            "rows": torch.stack(rows).cpu() if rows else empty,
        }

    def restore(self, saved: Mapping[str, Tensor], clients: Sequence[int]) -> None:
        """Continue with what `state` gave, as far as it is of these clients."""
        self._rows = {}
        places = saved["places"]  # [rows, 2]: client and owner
        is_wanted = np.isin(places[:, 0].numpy(), clients)
        for position in np.flatnonzero(is_wanted).tolist():
            client, owner = places[position].tolist()
            row = saved["rows"][position]
            self._rows[client, owner] = row.to(self._device, copy=True)

    def _key(self, client: int, owner: int) -> PartKey:
        """Which part completes the model of this owner for this client."""
        return client, client if owner < self._clients else owner

    def _start(self, stream: str) -> Tensor:
        """What a new model of this random stream has. Making one takes longer than copying it."""
        if stream not in self._start_of:
            whole = self._layout.initial(self._seed, stream)
            self._start_of[stream] = self._part.cut(whole).to(self._device)
        return self._start_of[stream]
