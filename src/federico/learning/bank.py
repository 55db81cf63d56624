"""The models that a process holds, each as one flat row of numbers.

Rows make aggregation plain arithmetic, and one row is what a message carries.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from federico.learning.layout import ModelLayout, RowLayout
from federico.learning.parts import ModelPart
from federico.learning.personal_parts import PersonalParts
from federico.learning.rows import Rows, RowStorage
from federico.learning.shown_models import ShownModels
from federico.learning.visits import Visits
from federico.types import BoolArray, FloatArray, IntArray


class Bank:
    """The models' rows and counters, found by owner.

    The first rows belong to the owners hosted by this process. They are followed by visiting rows:
    models of owners hosted elsewhere, brought here to be evaluated and trained.
    """

    def __init__(
        self,
        layout: ModelLayout,
        owners: IntArray,
        rows: Tensor,
        storage: RowStorage | None = None,
        private: Mapping[int, int] | None = None,
        personal: PersonalParts | None = None,
    ) -> None:
        """`owners` are hosted here, sorted; `rows[k]` is the model of `owners[k]`.

        `private` gives the client that a private model belongs to, by its owner's number. Where
        clients exchange only a part of each model, rows hold that part, and `personal` the rest.
        """
        self.layout = layout
        self.personal = personal
        self.row_layout: RowLayout = layout if personal is None else personal.row_layout
        """Which tensors the rows hold."""
        self.shared = ModelPart.whole(layout) if personal is None else personal.shared
        """Which columns of a whole model the rows hold."""
        self.owners = owners
        self.rows = rows
        self.storage = storage or RowStorage()
        self.counters = layout.initial_counters().repeat(len(rows), 1)
        self._private = private or {}
        self.shown = ShownModels()
        """Which models visitors are shown; hostile members of a simulation replace this."""

        # All owners whose models are here, sorted, and the place of each one's row.
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
        private: Mapping[int, int] | None = None,
        personal: PersonalParts | None = None,
    ) -> "Bank":
        """A new model for each owner, drawn from the random stream of the owner's name.

        Owners with equal names get equal models.
        """
        storage = storage or RowStorage()
        owners = np.array(sorted(names), dtype=np.int64)
        size = layout.size if personal is None else personal.row_layout.size
        rows = storage.empty(len(owners), size, dtype=layout.dtype, device=device)

        # Making a model takes far longer than copying one.
        first_row: dict[str, Tensor] = {}
        for row, owner in zip(rows, owners.tolist(), strict=True):
            name = names[owner]
            if name in first_row:
                row.copy_(first_row[name])
            elif personal is None:
                first_row[name] = layout.initial(seed, name, row)
            else:
                first_row[name] = row.copy_(personal.shared_of(layout.initial(seed, name)))
        return cls(layout, owners, rows, storage, private, personal)

    def beside(
        self, owners: IntArray, rows: Tensor, personal: PersonalParts | None = None
    ) -> "Bank":
        """Other models of the same kind, with the personal parts that are here or with others."""
        return Bank(
            self.layout, owners, rows, self.storage, self._private, personal or self.personal
        )

    def trainer(self, owner: int) -> int:
        """The client that a model belongs to: its owner, unless it is a private model."""
        return self._private.get(owner, owner)

    def is_private(self, owner: int) -> bool:
        """Whether nobody but its client ever sees this model."""
        return owner in self._private

    @property
    def hosted_rows(self) -> Tensor:
        """The rows of the owners hosted here, in the order of `owners`."""
        return self.rows[: len(self.owners)]

    @property
    def visiting_places(self) -> dict[int, int]:
        """The place of each visiting row, by the owner of its model."""
        hosted = len(self.owners)
        owners = self._known_owners.tolist()
        places = self._known_places.tolist()

        visiting: dict[int, int] = {}
        for owner, place in zip(owners, places, strict=True):
            if place >= hosted:
                visiting[owner] = place
        return visiting

    def places(self, owners: IntArray) -> Tensor:
        """The places of these owners' models: `rows[places[k]]` is the model of `owners[k]`."""
        known = self._known_owners
        positions = np.searchsorted(known, owners)
        here = positions < len(known)
        here[here] = known[positions[here]] == owners[here]
        if not here.all():
            # Without this check the model of somebody else would be taken for it.
            raise LookupError(
                f"the models of owners {owners[~here].tolist()} are not here: "
                "a method must pull a model, or read it for evaluation, before it uses it"
            )
        found = self._known_places[positions]
        return torch.from_numpy(found).to(self.rows.device)

    def places_met(self, visits: Visits) -> Tensor:
        """The places of the models that these visits meet, as they are shown."""
        return self.places(self.shown.owners_met(visits))

    @contextmanager
    def parts_put_back(self) -> Iterator[PersonalParts | None]:
        """What stays with clients may be trained in the block, and is as it was after it.

        Gives the parts that are trained, if there are any.
        """
        before = self.personal
        if before is not None:
            self.personal = before.copied()
        try:
            yield self.personal
        finally:
            self.personal = before

    def meet(self, visits: Visits) -> None:
        """Get ready for these visits, which may then be loaded by several threads."""
        if self.personal is not None:
            self.personal.meet(visits)

    def load(self, visits: Visits, models: Tensor) -> None:
        """Copy the models that these visits meet, whole, into the rows of `models`."""
        if self.personal is None:
            torch.index_select(self.rows, 0, self.places_met(visits), out=models)
            self.shown.disguise(visits, models)
        else:
            self.personal.complete(visits, self.rows_met(visits), models)

    def rows_met(self, visits: Visits) -> Tensor:
        """Copies of the rows that these visits meet, [visits, size]."""
        rows = self.rows.index_select(0, self.places_met(visits))
        self.shown.disguise(visits, rows)
        return rows

    def whole(self, visits: Visits) -> Iterator[Tensor]:
        """The model of each visit, one after the other, as its visitor completes it."""
        self.meet(visits)
        if self.personal is None:
            for place in self.places(visits.owners).tolist():
                yield self.rows[place]
            return
        for position in range(len(visits)):
            row = self.rows.new_empty(1, self.layout.size)
            self.load(visits[np.array([position])], row)
            yield row[0]

    def are_finite(self, owners: IntArray) -> BoolArray:
        """Whether all numbers of each of these owners' models are finite, [owners].

        Models are looked at one by one: side by side they might not fit into memory.
        """
        distinct, which = np.unique(owners, return_inverse=True)
        places = self.places(distinct).tolist()

        # One row at a time: a mask of all would take a quarter of their memory.
        finite = np.zeros(len(distinct), dtype=bool)
        for position, place in enumerate(places):
            row = self.rows[place]
            finite[position] = bool(row.isfinite().all())
        return finite[which]

    def replace_visiting_rows(self, owners: IntArray) -> Tensor:
        """Give these owners visiting rows, and forget all earlier visiting rows.

        Returns the new rows, [owners, size], for the caller to fill.
        """
        hosted = len(self.owners)
        needed = hosted + len(owners)
        if needed > len(self.rows):
            # Only hosted rows are copied: earlier visiting rows are no longer needed.
            self.rows = self._enlarged(self.hosted_rows, needed)
            self.counters = self._enlarged_counters(self.counters[:hosted], needed)

        places = range(hosted, needed)
        visiting = dict(zip(owners.tolist(), places, strict=True))
        self._know(visiting)
        return self.rows[hosted:needed]

    def reserve_visiting_rows(self, owners: IntArray) -> None:
        """Make sure that each of these owners has a visiting row.

        An owner that has one keeps it. Others get unused rows first, then rows of owners that are
        not in `owners`.
        """
        wanted = set(owners.tolist())
        hosted = len(self.owners)
        needed = hosted + len(wanted)
        if needed > len(self.rows):
            self.rows = self._enlarged(self.rows, needed)
            self.counters = self._enlarged_counters(self.counters, needed)

        visiting = self.visiting_places
        owner_at = {place: owner for owner, place in visiting.items()}
        unused: list[int] = []
        replaceable: list[int] = []
        for place in range(hosted, len(self.rows)):
            if place not in owner_at:
                unused.append(place)
            elif owner_at[place] not in wanted:
                replaceable.append(place)

        # There are at least as many free places as new owners.
        free = unused + replaceable
        new_owners = sorted(wanted - visiting.keys())
        for owner, place in zip(new_owners, free, strict=False):
            owner_at[place] = owner
        self._know({owner: place for place, owner in owner_at.items()})

    def drop_visiting_row(self, owner: int) -> None:
        """Forget the visiting row of this owner."""
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
            part = ModelPart.whole(self.row_layout)
        places = self.places(owners)
        for columns in part.slices:
            deltas.add_to(self.rows, places, shares, columns)

    def write_deltas(self, visits: Visits, trained: Tensor, deltas: Rows, which: IntArray) -> None:
        """Write trained[k] minus the model that visit k meets into deltas[which[k]], for all k.

        The contents of `trained` may be lost.
        """
        places = self.places_met(visits)
        if self.personal is not None:
            trained = self.personal.shared_of(trained)
        self.shown.undo_disguise(visits, trained)
        deltas.write_differences(which, trained, self.rows, places)

    def copy_rows(self) -> Tensor:
        """A copy of the rows of the owners hosted here, as they are now."""
        rows = self.hosted_rows
        copied = self.storage.empty(
            *rows.shape, dtype=rows.dtype, device=rows.device, every_round=True
        )
        return copied.copy_(rows)

    def _enlarged(self, rows: Tensor, count: int) -> Tensor:
        """New memory for `count` rows that starts with a copy of `rows`; the rest is untouched."""
        enlarged = self.storage.empty(count, rows.shape[1], dtype=rows.dtype, device=rows.device)
        enlarged[: len(rows)].copy_(rows)
        return enlarged

    def _enlarged_counters(self, counters: Tensor, count: int) -> Tensor:
        """Counters of `count` models: first `counters`, then those of new models."""
        missing = count - len(counters)
        initial = self.layout.initial_counters().repeat(missing, 1)
        return torch.cat([counters, initial])

    def _know(self, visiting: Mapping[int, int]) -> None:
        """Replace the table of visiting rows; `visiting` gives each owner's place."""
        visiting_owners = np.array(list(visiting.keys()), dtype=np.int64)
        owners = np.concatenate([self.owners, visiting_owners])

        hosted_places = np.arange(len(self.owners))
        visiting_places = np.array(list(visiting.values()), dtype=np.int64)
        places = np.concatenate([hosted_places, visiting_places])

        # Sorted by owner, for the binary search in `places`.
        order = np.argsort(owners)
        self._known_owners = owners[order]
        self._known_places = places[order]
