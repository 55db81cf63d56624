"""What the owner of a model makes of the updates that come for it, beside its trust in the senders.

Trust in a model is no trust in updates: a peer that serves a good model can still send anything.
So an owner compares each update with the one that it has computed on its own data. What an update
loses of its coefficient goes to the owner's own, so that turning one away makes nobody else count
for more. The length and the direction of an update are those of its delta.
"""

from typing import Literal

import numpy as np

from federico.types import FloatArray, IntArray

Accept = Literal["reach", "cosine", "median", "trimmed", "any"]
"""How an owner weighs the updates of others against its own."""

REACH = 1.5
"""How far an update may be from the owner's own by default, in usual lengths of own updates."""


def within_reach(distances: FloatArray, lengths: FloatArray, reach: float = REACH) -> FloatArray:
    """How much of its coefficient each update keeps, so that it leads not far from the owner's own.

    This is self-centred clipping (He, Karimireddy, Jaggi 2022). `distances` tells how far each
    update is from the owner's own, `lengths` how long the owner's own updates usually are. An
    update further away than `reach` lengths is drawn back along the straight line to f delta_ib +
    (1 - f) delta_bb, with f = `reach` * length / distance. So the length of an update does not help
    its sender, and the more it differs from the owner's own, the less it counts.
    """
    farthest = reach * lengths
    kept = np.ones(len(distances))
    np.divide(farthest, distances, out=kept, where=distances > farthest)
    return kept


def along_own(cosines: FloatArray) -> FloatArray:
    """How much of its coefficient each update keeps that is weighed by direction: FLTrust's rule.

    `cosines` are those of the angles between the updates and the owner's own. An update that leads
    backwards keeps nothing.
    """
    return np.maximum(cosines, 0.0)


def rest_to_own(
    owners: IntArray, contributors: IntArray, coefficients: FloatArray, kept: FloatArray
) -> FloatArray:
    """The coefficients of which only a part is kept; owners' own updates get the rest."""
    left = coefficients * kept
    given_to_own = np.bincount(owners, coefficients - left)  # [owners]

    is_own = owners == contributors
    left[is_own] += given_to_own[owners[is_own]]
    return left


def trimmed_mean(deltas: FloatArray, weights: FloatArray, trim: float) -> FloatArray:
    """In each coordinate the weighted mean of the deltas [updates, size] without the extremes.

    The part `trim` of the weight at either end is left out. With equal weights and `trim` a
    multiple of one weight this is the trimmed mean of the literature; with `trim` a half it is the
    median.
    """
    order = np.argsort(deltas, axis=0, kind="stable")
    in_order = np.take_along_axis(deltas, order, axis=0)
    shares = weights[order] / weights.sum()
    upper = np.cumsum(shares, axis=0)
    lower = upper - shares

    if trim >= 0.5:
        # The least part in the middle: one delta, or two that meet there.
        inside = (upper >= 0.5 - ROUNDING) & (lower <= 0.5 + ROUNDING) & (shares > 0)
        counted = inside / inside.sum(axis=0)
    else:
        overlap = np.minimum(upper, 1 - trim) - np.maximum(lower, trim)
        counted = np.maximum(overlap, 0.0) / (1 - 2 * trim)
    mean: FloatArray = (counted * in_order).sum(axis=0)
    return mean


ROUNDING = 1e-12
"""Sums of shares that should be a half may miss it by this much."""
