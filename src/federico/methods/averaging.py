"""Moves models by the weighted average of the updates that came for them."""

from dataclasses import dataclass

import numpy as np

from federico.algorithm.aggregation import Buffers, shares
from federico.exchange.protocol import Updates
from federico.learning.bank import Bank
from federico.learning.parts import ModelPart
from federico.types import FloatArray


def average_into(
    bank: Bank,
    updates: Updates,
    anchor: float = 0.0,
    buffers: Buffers = "average",
    scales: FloatArray | None = None,
) -> None:
    """phi_b += sum_i c_ib delta_ib / sum_i c_ib.

    A model that got no update stays as it is. Each delta is multiplied by its scale, if there are
    any, but the sum of coefficients stays.
    """
    kept = np.flatnonzero(updates.rows.finite())
    if len(kept) < len(updates):
        updates = updates.take(kept)
        scales = None if scales is None else scales[kept]
    part = ModelPart.whole(bank.row_layout)
    if buffers != "average":
        part = ModelPart.parameters(bank.row_layout)

    share = shares(updates.owners, updates.contributors, updates.coefficients, anchor)
    if scales is not None:
        share = share * scales
    bank.add(updates.owners, updates.rows, share, part)

    if buffers == "owner":
        statistics = ModelPart.buffers(bank.row_layout)
        owners_alone = updates.are_own.astype(np.float64)
        bank.add(updates.owners, updates.rows, owners_alone, statistics)


def finite(updates: Updates) -> Updates:
    """The updates without those that hold a NaN or an infinity: these are as good as never sent."""
    kept = updates.rows.finite()
    if kept.all():
        return updates
    return updates.take(np.flatnonzero(kept))


@dataclass(frozen=True)
class ComparedWithOwn:
    """How updates compare with what the owners of the models send themselves."""

    own_lengths: FloatArray
    """The length of the owner's own update, [updates]; 0 where it has none."""
    distances: FloatArray
    """How far each update is from the owner's own, [updates]; infinitely far where it has none."""
    lengths: FloatArray
    """The length of each update, [updates]."""

    @property
    def cosines(self) -> FloatArray:
        """The cosine of the angle between each update and the owner's own; 0 if there is none."""
        # By the law of cosines, from the three sides of the triangle that the two updates make.
        product = 2 * self.own_lengths * self.lengths
        squares = self.own_lengths**2 + self.lengths**2
        rest = squares - self.distances**2
        has_angle = (product > 0) & np.isfinite(self.distances)
        cosine = np.zeros(len(product))
        np.divide(rest, product, out=cosine, where=has_angle)

        # Huge updates have squares that are not finite, and rounding may lead out of the range.
        cosine = np.nan_to_num(cosine)
        return np.clip(cosine, -1.0, 1.0)


def compare_with_own(updates: Updates) -> ComparedWithOwn:
    """Compare every update with the one that the owner of its model has computed itself."""
    own_lengths = np.zeros(len(updates))
    distances = np.full(len(updates), np.inf)
    lengths = updates.rows.lengths()
    own_update = np.full(len(updates), -1)  # where the owner's own is; -1 if it has none
    for _, positions in updates.by_owner():
        own = positions[updates.are_own[positions]]
        if len(own) > 0:
            own_update[positions] = own[0]

    compared = np.flatnonzero(own_update >= 0)
    own = own_update[compared]
    own_lengths[compared] = lengths[own]
    distances[compared] = updates.rows.distances(compared, own)
    return ComparedWithOwn(own_lengths, distances, lengths)
