"""Which of a client's samples are held out: some of every kind, as far as there are enough.

Few held-out samples chosen by chance alone may be nearly all of one class. A model that always says
this class then looks better than it is, and a model trained on the rest knows less of it.
"""

import numpy as np

from federico.types import Array, FloatArray, IntArray


def mixed_order(random: np.random.Generator, targets: Array, fraction: float) -> IntArray:
    """An order of samples of which every beginning has all kinds in about the same proportions.

    `targets` are the labels of one client, or its values; samples with several values each have no
    kinds. `fraction` is how much of the samples will be held out.
    """
    count = len(targets)
    order: IntArray = random.permutation(count)
    kinds = _kinds(targets, fraction)

    # Each kind is dealt out evenly over the whole order, from a place drawn by chance.
    place: FloatArray = np.zeros(count)
    for kind in np.unique(kinds):
        of_kind = order[kinds[order] == kind]
        turns = np.arange(len(of_kind))
        place[of_kind] = (turns + random.random()) / len(of_kind)
    return np.argsort(place, kind="stable")


def _kinds(targets: Array, fraction: float) -> IntArray:
    """The class of each sample; of values, which of several ranges of neighbouring ones."""
    if targets.ndim > 1 and targets.shape[1] > 1:
        return np.zeros(len(targets), dtype=np.int64)

    flat = targets.reshape(len(targets))
    if flat.dtype.kind != "f":
        return flat.astype(np.int64)

    # Of each range one sample is held out.
    in_range = max(1, round(1 / fraction))
    rank = np.empty(len(flat), dtype=np.int64)
    rank[np.argsort(flat, kind="stable")] = np.arange(len(flat))
    return rank // in_range
