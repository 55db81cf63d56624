"""From tracked losses to the posterior over peers: equation (3), its prior in the losses."""

import numpy as np

from federico.types import FloatArray


def posterior(losses: FloatArray, temperature: float = 1.0) -> FloatArray:
    """softmax(-L / temperature) in float64.

    An infinite loss gets no weight; if all are, nobody does.
    """
    weights = np.zeros(len(losses))
    sane = np.isfinite(losses)
    if not sane.any():
        return weights

    # Counted from the least loss, so that no exponential overflows.
    least = losses[sane].min()
    weights[sane] = np.exp((least - losses[sane]) / temperature)
    weights /= weights.sum()
    return weights


def significant(weights: FloatArray, w_min: float) -> FloatArray:
    """The posterior without entries below `w_min`, renormalised: a few models are enough."""
    kept = np.where(weights >= w_min, weights, 0.0)
    total = kept.sum()
    if total > 0:
        kept = kept / total
    return kept
