"""From tracked losses to the posterior over peers, equation (3) with the prior folded into the tracked loss."""

import numpy as np

from federico.types import FloatArray


def posterior(losses: FloatArray, temperature: float = 1.0) -> FloatArray:
    """softmax(-L / temperature) in float64. An infinite loss gets no weight; if all are, nobody does."""
    sane = np.isfinite(losses)
    weights = np.zeros(len(losses))
    if sane.any():
        weights[sane] = np.exp((losses[sane].min() - losses[sane]) / temperature)
        weights /= weights.sum()
    return weights


def significant(weights: FloatArray, w_min: float) -> FloatArray:
    """The posterior without its entries below `w_min`, renormalised: each client only needs a few models."""
    kept = np.where(weights >= w_min, weights, 0.0)
    total = kept.sum()
    return kept / total if total > 0 else kept
