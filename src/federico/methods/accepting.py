"""What owners make of the moves that come for their models; see `federico.algorithm.acceptance`."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import torch

from federico.algorithm.acceptance import (
    Accept,
    along_own,
    rest_to_own,
    trimmed_mean,
    within_reach,
    worsens,
)
from federico.exchange.protocol import Updates
from federico.learning.bank import Bank
from federico.learning.learner import Learner
from federico.learning.rows import Rows
from federico.learning.visits import Visits
from federico.methods.averaging import OwnMoves
from federico.types import BoolArray, FloatArray, IntArray

COLUMNS = 1 << 14
"""Coordinates of which the median or trimmed mean is found at a time."""


@dataclass(frozen=True)
class Weighed:
    """Updates with what they count for at the owners of the models."""

    updates: Updates
    scales: FloatArray
    """What the row of each update is multiplied by, [updates]."""

    def take(self, which: IntArray) -> "Weighed":
        """The updates at these positions, in this order."""
        return Weighed(self.updates.take(which), self.scales[which])


@dataclass(frozen=True)
class Acceptance:
    """How owners weigh the moves of others against their own."""

    accept: Accept
    reach: float
    trim: float
    """The part of the weight that a trimmed mean leaves out at either end."""

    def weigh(self, updates: Updates, own: OwnMoves, lengths: FloatArray) -> Weighed:
        """The updates with what is left of their coefficients.

        `lengths` tells how long the moves of each update's owner usually are, [updates].
        """
        scales = np.ones(len(updates))
        kept = np.ones(len(updates))
        if self.accept == "reach":
            kept = within_reach(own.distances, lengths, self.reach)
        if self.accept == "cosine":
            is_own = updates.owners == updates.contributors
            kept = np.where(is_own, 1.0, along_own(own.cosines))
            longer = own.move_lengths > lengths
            np.divide(lengths, own.move_lengths, out=scales, where=longer & ~is_own)
        return Weighed(keep(updates, kept), scales)

    def merged(self, weighed: Weighed) -> Weighed:
        """For a median or trimmed mean, a single move in place of all that came for a model.

        A model whose owner has not moved it itself stays as it is.
        """
        if self.accept not in ("median", "trimmed"):
            return weighed

        trim = 0.5 if self.accept == "median" else self.trim
        updates = weighed.updates
        first: list[int] = []
        totals: list[float] = []
        rows: list[torch.Tensor] = []
        by_owner = Visits(clients=updates.owners, owners=updates.contributors)
        for owner, positions in by_owner.by_client():
            own = positions[updates.contributors[positions] == owner]
            if len(own) == 0:
                continue
            first.append(int(own[0]))
            totals.append(float(updates.coefficients[positions].sum()))
            rows.append(_middle(updates, positions, trim))
        if not rows:
            return weighed.take(np.empty(0, np.int64))

        own_updates = updates.take(np.array(first))
        merged = replace(
            own_updates, coefficients=np.array(totals), rows=Rows.of(torch.stack(rows))
        )
        return Weighed(merged, np.ones(len(merged)))


def keep(updates: Updates, kept: FloatArray) -> Updates:
    """The updates with this part of their coefficients, [updates]; owners' own get the rest."""
    coefficients = rest_to_own(updates.owners, updates.contributors, updates.coefficients, kept)
    return replace(updates, coefficients=coefficients)


def _middle(updates: Updates, positions: IntArray, trim: float) -> torch.Tensor:
    """The trimmed mean of the moves at these positions, some coordinates at a time."""
    rows = [updates.rows[position] for position in positions.tolist()]
    middle = torch.empty_like(rows[0])
    for first in range(0, len(middle), COLUMNS):
        some = slice(first, first + COLUMNS)
        moves = torch.stack([row[some] for row in rows]).double().cpu().numpy()
        mean = trimmed_mean(moves, updates.coefficients[positions], trim)
        middle[some] = torch.from_numpy(mean).to(middle)
    return middle


class LossCheck:
    """Tells which moves make a model worse on what its owner has held out."""

    def __init__(self, learner: Learner, bank: Bank) -> None:
        self._learner = learner
        self._bank = bank

    def losses(self, owners: IntArray) -> FloatArray:
        """The loss of each of these models on what its owner holds out, [owners]."""
        return self._learner.evaluate(self._bank, Visits.to_own(owners), "held_out")

    def worse(self, updates: Updates, most: FloatArray) -> BoolArray:
        """Which moves make a model worse than it was and than its owner's own move makes it.

        `most` are the losses that each owner takes in any case, [updates]. An owner that could not
        hold out anything cannot tell.
        """
        owners = np.unique(updates.owners)
        before = np.zeros(len(updates))
        before_by_owner = self.losses(owners)
        before[:] = before_by_owner[np.searchsorted(owners, updates.owners)]

        after = np.zeros(len(updates))
        by_owner = Visits(clients=updates.owners, owners=updates.contributors)
        queues = [positions for _, positions in by_owner.by_client()]
        for turn in range(max(len(queue) for queue in queues)):
            # One move of each owner at a time, so that models are judged side by side.
            some = np.array([queue[turn] for queue in queues if len(queue) > turn])
            with self._moved(updates, some):
                after[some] = self.losses(updates.owners[some])

        by_own = np.full(len(updates), -np.inf)
        for owner, positions in by_owner.by_client():
            own = positions[updates.contributors[positions] == owner]
            if len(own) > 0:
                by_own[positions] = after[own[0]]
        is_own = updates.owners == updates.contributors
        can_tell = self._learner.held_out[updates.owners] > 0
        worse: BoolArray = worsens(after, np.maximum(before, most), by_own) & can_tell & ~is_own
        return worse

    @contextmanager
    def _moved(self, updates: Updates, positions: IntArray) -> Iterator[None]:
        """The bank with these moves made, each of another model; afterwards it is as it was."""
        places = self._bank.places(updates.owners[positions]).tolist()
        before = [self._bank.rows[place].clone() for place in places]
        for place, position in zip(places, positions.tolist(), strict=True):
            self._bank.rows[place].add_(updates.rows[position])
        try:
            yield
        finally:
            for place, row in zip(places, before, strict=True):
                self._bank.rows[place].copy_(row)
