"""The models a process holds: one flat row each.

So aggregation is arithmetic on rows, and a message is a row.
"""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from federico.learning.layout import ModelLayout
from federico.learning.parts import ModelPart
from federico.learning.rows import Rows, RowStorage
from federico.types import FloatArray, IntArray


class Bank:
    """Rows of models by owner, with the counters that stay with each.

    The first rows belong to the owners hosted by this process. Behind them is room for visiting
    rows: models of owners hosted elsewhere, brought here to be measured and trained.
    """

    def __init__(
        self, layout: ModelLayout, owners: IntArray, rows: Tensor, storage: RowStorage | None = None
    ) -> None:
        """`owners` are those hosted here, sorted; `rows[k]` is the model of `owners[k]`."""
        self.layout = layout
        self.owners = owners
        self.rows = rows
        self.storage = storage or RowStorage()
        self.counters = layout.initial_counters().repeat(len(rows), 1)

        # All owners whose models are here, sorted, and the row that holds the model of each.
        self._known_owners = owners
        self._known_places: IntArray = np.arange(len(owners))

    @classmethod
    def start(
        cls,
        layout: ModelLayout,
        seed: int,
        names: Mapping[int, str],
        device: torch.device,
        storage: RowStorage | None = None,
    ) -> "Bank":
        """A new model for each owner, drawn from the stream of its name.

        Equal names give equal models.
        """
        storage = storage or RowStorage()
        owners = np.array(sorted(names), dtype=np.int64)
        rows = storage.empty(len(owners), layout.size, dtype=layout.dtype, device=device)
        for row, owner in zip(rows, owners.tolist(), strict=True):
            layout.initial(seed, names[owner], row)
        return cls(layout, owners, rows, storage)

    @property
    def hosted_rows(self) -> Tensor:
        """The rows of the owners hosted here, in their order."""
        return self.rows[: len(self.owners)]

    @property
    def visiting_places(self) -> dict[int, int]:
        """Which row holds the model of which owner hosted elsewhere."""
        known = zip(self._known_owners.tolist(), self._known_places.tolist(), strict=True)
        return {owner: place for owner, place in known if place >= len(self.owners)}

    def places(self, owners: IntArray) -> Tensor:
        """Which rows hold the models of these owners."""
        found = self._known_places[np.searchsorted(self._known_owners, owners)]
        return torch.from_numpy(found).to(self.rows.device)

    def replace_visiting_rows(self, owners: IntArray) -> Tensor:
        """Make room for the models of these owners instead of earlier ones.

        Returns their rows, to be filled.
        """
        hosted = len(self.owners)
        wanted = hosted + len(owners)
        if wanted > len(self.rows):
            # Earlier visiting rows are not worth a copy.
            self.rows = self._enlarged(self.hosted_rows, wanted)
            self.counters = self._enlarged_counters(self.counters[:hosted], wanted)

        self._know({owner: hosted + k for k, owner in enumerate(owners.tolist())})
        return self.rows[hosted:wanted]

    def reserve_visiting_rows(self, owners: IntArray) -> None:
        """Make room for the models of these owners too.

        Whoever of them is here keeps its row. A new one gets an empty row, or that of an owner not
        asked for now.
        """
        wanted = set(owners.tolist())
        hosted = len(self.owners)
        needed = hosted + len(wanted)
        if needed > len(self.rows):
            self.rows = self._enlarged(self.rows, needed)
            self.counters = self._enlarged_counters(self.counters, needed)

        visiting = self.visiting_places
        owner_at = {place: owner for owner, place in visiting.items()}
        free = [
            place for place in range(hosted, len(self.rows)) if owner_at.get(place) not in wanted
        ]
        free.sort(key=owner_at.__contains__)  # empty rows first
        for owner, place in zip(sorted(wanted - visiting.keys()), free, strict=False):
            owner_at[place] = owner
        self._know({owner: place for place, owner in owner_at.items()})

    def drop_visiting_row(self, owner: int) -> None:
        """Forget the model of this owner hosted elsewhere."""
        visiting = self.visiting_places
        del visiting[owner]
        self._know(visiting)

    def add(
        self, owners: IntArray, deltas: Rows, shares: FloatArray, part: ModelPart | None = None
    ) -> None:
        """Move the model of owners[k] by shares[k] * deltas[k], for all k in order.

        If `part` is given, the rest of the model stays as it is.
        """
        if part is None:
            part = ModelPart.whole(self.layout)
        places = self.places(owners)
        for columns in part.slices:
            deltas.add_to(self.rows, places, shares, columns)

    def write_deltas(
        self, owners: IntArray, trained: Tensor, deltas: Rows, which: IntArray
    ) -> None:
        """Write into deltas[which[k]] how far trained[k] is from the model of owners[k].

        The rows of `trained` may be changed on the way.
        """
        deltas.write_differences(which, trained, self.rows, self.places(owners))

    def copy_models(
        self, sources: IntArray, targets: IntArray, part: ModelPart | None = None
    ) -> None:
        """Give the owner targets[k] the model of the owner sources[k].

        If `part` is given, the rest of the model stays as it is.
        """
        if part is None:
            part = ModelPart.whole(self.layout)
        source_places = self.places(sources).tolist()
        target_places = self.places(targets).tolist()
        for source, target in zip(source_places, target_places, strict=True):
            part.copy(self.rows[source], self.rows[target])

    def copy_rows(self) -> Tensor:
        """A copy of the rows of the owners hosted here, as they are now."""
        rows = self.hosted_rows
        copied = self.storage.empty(
            *rows.shape, dtype=rows.dtype, device=rows.device, every_round=True
        )
        return copied.copy_(rows)

    def _enlarged(self, rows: Tensor, count: int) -> Tensor:
        """So many rows, the first of which hold what `rows` hold.

        Memory that is not touched is not used.
        """
        enlarged = self.storage.empty(count, rows.shape[1], dtype=rows.dtype, device=rows.device)
        enlarged[: len(rows)].copy_(rows)
        return enlarged

    def _enlarged_counters(self, counters: Tensor, count: int) -> Tensor:
        """The counters of so many models: first these, then those of new models."""
        more = count - len(counters)
        return torch.cat([counters, self.layout.initial_counters().repeat(more, 1)])

    def _know(self, visiting: Mapping[int, int]) -> None:
        """From now on the models here are those hosted and these, owner to row."""
        hosted_places = np.arange(len(self.owners))
        visiting_owners = np.array(list(visiting.keys()), dtype=np.int64)
        visiting_places = np.array(list(visiting.values()), dtype=np.int64)

        owners = np.concatenate([self.owners, visiting_owners])
        places = np.concatenate([hosted_places, visiting_places])
        order = np.argsort(owners)
        self._known_owners = owners[order]
        self._known_places = places[order]
