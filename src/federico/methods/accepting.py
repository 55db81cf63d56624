"""What owners make of updates that come for their models; see `federico.algorithm.acceptance`."""

from dataclasses import dataclass, replace

import numpy as np
import torch

from federico.algorithm.acceptance import (
    Accept,
    along_own,
    rest_to_own,
    trimmed_mean,
    within_reach,
)
from federico.exchange.protocol import Updates
from federico.learning.bank import Bank
from federico.learning.rows import Rows
from federico.methods.averaging import ComparedWithOwn
from federico.methods.federico_evidence import HeldOutEvidence
from federico.types import FloatArray, IntArray

COLUMNS = 1 << 14
"""Coordinates of which the median or trimmed mean is found at a time."""
OWNERS = 8
"""This many models are moved at a time, to judge updates; a copy of each is kept meanwhile."""
NUMBERS = 1 << 18
"""More models than that are moved at a time if their copies have no more numbers than this."""


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
    """How owners weigh the updates of others against their own."""

    accept: Accept
    reach: float
    trim: float
    """The part of the weight that a trimmed mean leaves out at either end."""

    def weigh(self, updates: Updates, own: ComparedWithOwn, lengths: FloatArray) -> Weighed:
        """The updates with what is left of their coefficients.

        `lengths` tells how long the updates of each update's owner usually are, [updates].
        """
        scales = np.ones(len(updates))
        kept = np.ones(len(updates))
        if self.accept == "reach":
            kept = within_reach(own.distances, lengths, self.reach)
        if self.accept == "cosine":
            kept = np.where(updates.are_own, 1.0, along_own(own.cosines))
            too_long = (own.lengths > lengths) & ~updates.are_own
            np.divide(lengths, own.lengths, out=scales, where=too_long)
        return Weighed(keep(updates, kept), scales)

    def merged(self, weighed: Weighed) -> Weighed:
        """For a median or trimmed mean, a single update in place of all that came for a model.

        A model whose owner has not moved it itself stays as it is.
        """
        if self.accept not in ("median", "trimmed"):
            return weighed

        trim = 0.5 if self.accept == "median" else self.trim
        updates = weighed.updates
        first: list[int] = []
        totals: list[float] = []
        rows: list[torch.Tensor] = []
        for owner, positions in updates.by_owner():
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
    """The trimmed mean of the deltas at these positions, some coordinates at a time."""
    rows = [updates.rows[position] for position in positions.tolist()]
    middle = torch.empty_like(rows[0])
    for first in range(0, len(middle), COLUMNS):
        some = slice(first, first + COLUMNS)
        deltas = torch.stack([row[some] for row in rows])  # [updates, columns]
        in_doubles = deltas.double().cpu().numpy()
        mean = trimmed_mean(in_doubles, updates.coefficients[positions], trim)
        middle[some] = torch.from_numpy(mean).to(middle)
    return middle


class UpdateJudge:
    """Tells what updates are worth to the owners of the models, on what these hold out."""

    def __init__(self, held_out: HeldOutEvidence, bank: Bank) -> None:
        self._held_out = held_out
        self._bank = bank

    def worth(self, weighed: Weighed, least_share: float) -> FloatArray:
        """The nats that each update adds to those of its owner's own update, [updates].

        An update counts for its share of the average beside the owner's own; where that is not more
        than `least_share`, and where there is no own update, it is worth nothing.
        """
        updates = weighed.updates
        worth = np.zeros(len(updates))
        totals = np.bincount(updates.owners, updates.coefficients)  # [owners]
        of_owner = totals[updates.owners]
        shares = np.zeros(len(updates))
        np.divide(updates.coefficients, of_owner, out=shares, where=of_owner > 0)

        are_own = updates.are_own
        are_tried = (shares > least_share) & ~are_own
        queues: list[IntArray] = []
        for _, positions in updates.by_owner():
            own = positions[are_own[positions]]
            tried = positions[are_tried[positions]]
            if len(own) > 0 and len(tried) > 0:
                queues.append(np.concatenate([own, tried]))

        at_a_time = max(OWNERS, NUMBERS // self._bank.row_layout.size)
        for first in range(0, len(queues), at_a_time):
            self._try(weighed, shares, queues[first : first + at_a_time], worth)
        return worth

    def _try(
        self,
        weighed: Weighed,
        shares: FloatArray,
        queues: list[IntArray],
        worth: FloatArray,
    ) -> None:
        """Find the worth of the updates in these queues, each of one owner, whose own is first.

        One update of each owner at a time, so that models are judged side by side.
        """
        updates = weighed.updates
        by_own = np.zeros(len(worth))
        longest = max(len(queue) for queue in queues)
        for turn in range(longest):
            going_on = [queue for queue in queues if len(queue) > turn]
            own = np.array([queue[0] for queue in going_on])
            tried = np.array([queue[turn] for queue in going_on])
            gain = self._gain(weighed, own, tried, shares[tried])
            if turn == 0:
                # What is held out is trained on later: then nothing is lost above what it was.
                ceilings = self._held_out.own_ceilings(updates.owners[own])
                by_own[own] = np.minimum(gain, ceilings)
                continue

            # A model that is no number is worth as little as can be, its own or not.
            with np.errstate(invalid="ignore"):
                worth[tried] = np.nan_to_num(gain - by_own[own])

    def _gain(
        self, weighed: Weighed, own: IntArray, tried: IntArray, shares: FloatArray
    ) -> FloatArray:
        """What models are worth to their owners after these updates, [updates]."""
        updates = weighed.updates
        owners = updates.owners[own]
        places = self._bank.places(owners).tolist()
        before = self._bank.rows[places].clone()
        pairs = zip(own.tolist(), tried.tolist(), shares.tolist(), strict=True)
        for place, (own_position, position, share) in zip(places, pairs, strict=True):
            row = self._bank.rows[place]
            scale = float(weighed.scales[position])
            row.add_(updates.rows[own_position], alpha=1 - share)
            row.add_(updates.rows[position], alpha=share * scale)
        try:
            return self._held_out.own_gains(owners)
        finally:
            self._bank.rows[places] = before
