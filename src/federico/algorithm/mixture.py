"""What one model may weigh in a mixture.

Nobody should predict with hardly anything but the model of somebody else: it may be right on all
samples that it was measured on, and wrong elsewhere.
"""

import numpy as np

from federico.types import BoolArray, FloatArray


def capped(weights: FloatArray, is_own: BoolArray, most: float) -> FloatArray:
    """The weights of a mixture, [models], in which no other peer's model weighs more than `most`.

    `is_own` marks the peer's own model, which has no cap. What is above the cap goes to the models
    below it in proportion to their weights; if they have none, to the peer's own. Weights of all
    zeros make it the only one.
    """
    total = weights.sum()
    if total == 0:
        return is_own.astype(np.float64)

    shares: FloatArray = weights / total
    at_cap = np.zeros(len(weights), dtype=bool)
    while (over := (shares > most) & ~is_own & ~at_cap).any():
        at_cap |= over
        shares[at_cap] = most
        left = 1.0 - most * at_cap.sum()
        below = np.where(at_cap, 0.0, weights)
        if below.sum() == 0:
            below = is_own.astype(np.float64)
        shares[~at_cap] = (left * below / below.sum())[~at_cap]
    return shares
