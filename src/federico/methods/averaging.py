"""Moves models by the weighted average of the updates that came for them."""

from typing import Literal

import numpy as np

from federico.algorithm.aggregation import shares
from federico.exchange.protocol import Updates
from federico.learning.bank import Bank
from federico.learning.parts import ModelPart

Buffers = Literal["average", "owner", "frozen"]
"""What happens to batch-norm statistics: averaged, moved by the owner alone, or not at all."""


def average_into(
    bank: Bank,
    updates: Updates,
    anchor: float = 0.0,
    buffers: Buffers = "average",
    part: ModelPart | None = None,
) -> None:
    """phi_b += sum_i c_ib delta_ib / sum_i c_ib, or only `part` of phi_b.

    A model that got no update does not move.
    """
    updates = finite(updates)
    if part is None:
        part = ModelPart.whole(bank.layout)
    if buffers != "average":
        part = ModelPart.parameters(bank.layout)

    share = shares(updates.owners, updates.contributors, updates.coefficients, anchor)
    bank.add(updates.owners, updates.rows, share, part)

    if buffers == "owner":
        own = updates.owners == updates.contributors
        statistics = ModelPart.buffers(bank.layout)
        bank.add(updates.owners, updates.rows, own.astype(np.float64), statistics)


def finite(updates: Updates) -> Updates:
    """The updates without those that hold a NaN or an infinity: these are as good as never sent."""
    kept = updates.rows.finite()
    if kept.all():
        return updates
    return updates.take(np.flatnonzero(kept))
