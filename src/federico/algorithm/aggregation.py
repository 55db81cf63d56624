"""How much each update counts in the average that moves its owner's model: equation (6)."""

from typing import Literal

import numpy as np

from federico.types import FloatArray, IntArray

Say = Literal["mutual", "owner", "sender"]
"""Who decides how much an update counts for: the sender, the owner of the model, or both."""
Buffers = Literal["average", "owner", "frozen"]
"""What happens to batch-norm statistics: averaged, moved by the owner alone, or not at all."""


def coefficients_at_owner(sent: FloatArray, allowed: FloatArray, say: Say) -> FloatArray:
    """How much each update counts for at the owner of its model.

    `sent` is what its sender says it counts for, c_ib = n_i w_ib. `allowed` is what the owner's own
    trust in the sender comes to, n_b w_bi: the sender's samples are not taken on trust. Nobody
    moves a model further than the owner trusts them, and under "mutual" not further than they want.
    """
    if say == "sender":
        return sent
    if say == "owner":
        return allowed
    return np.minimum(sent, allowed)


def shares(
    owners: IntArray, contributors: IntArray, coefficients: FloatArray, anchor: float = 0.0
) -> FloatArray:
    """The share c_ib / sum_i c_ib of each update: of contributor i, for the model of owner b.

    An owner's own share is at least `anchor`, where it has contributed at all; the others then
    share the rest in the same proportions as before.
    """
    totals = np.bincount(owners, coefficients)  # [owners]
    share: FloatArray = coefficients / totals[owners]

    own = owners == contributors
    if anchor == 0 or not own.any():
        return share

    # What each owner contributes to its own model, before and after it is lifted to the anchor.
    own_share = np.zeros(len(totals))
    own_share[owners[own]] = share[own]
    lifted = np.maximum(own_share, anchor * (own_share > 0))

    # By update: what the others shared before, and what is left for them now.
    others_before = 1 - own_share[owners]
    others_after = 1 - lifted[owners]
    others = share * others_after / np.where(others_before > 0, others_before, 1)
    anchored: FloatArray = np.where(own, lifted[owners], others)
    return anchored
