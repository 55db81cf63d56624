"""Moves models by the weighted average of the updates that came for them."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from federico.algorithm.aggregation import shares
from federico.exchange.protocol import Updates
from federico.learning.bank import Bank
from federico.learning.parts import ModelPart
from federico.learning.visits import Visits
from federico.types import FloatArray

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


@dataclass(frozen=True)
class OwnMoves:
    """How updates compare with what the owners of the models send themselves."""

    lengths: FloatArray
    """The length of the owner's own move, [updates]; 0 where it has none."""
    distances: FloatArray
    """How far each move is from the owner's own, [updates]; infinitely far where it has none."""


def compare_with_own(updates: Updates) -> OwnMoves:
    """Compare every update with the one that the owner of its model has computed itself."""
    lengths = np.zeros(len(updates))
    distances = np.full(len(updates), np.inf)
    by_owner = Visits(clients=updates.owners, owners=updates.contributors)
    for owner, positions in by_owner.by_client():
        own = positions[updates.contributors[positions] == owner]
        if len(own) == 0:
            continue

        own_move = updates.rows[int(own[0])]
        lengths[positions] = _length(own_move)
        for position in positions.tolist():
            distances[position] = _length(updates.rows[position] - own_move)
    return OwnMoves(lengths, distances)


def _length(row: Tensor) -> float:
    """In double precision: the square of a huge number must not be infinite."""
    return float(row.norm(dtype=torch.float64))
