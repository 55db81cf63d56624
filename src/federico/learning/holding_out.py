"""How many of a client's samples are held out, and which: some of every kind if there are enough.

Few held-out samples chosen by chance alone may be nearly all of one class. A model that always says
this class then looks better than it is, and a model trained on the rest knows less of it.
"""

import numpy as np

from federico.types import Array, FloatArray, IntArray


def held_out(samples: IntArray, fraction: float) -> IntArray:
    """How many of its samples each client holds out: at least one, but never its last."""
    rounded = np.rint(fraction * samples)
    wanted = np.maximum(rounded, 1)
    to_spare = np.maximum(samples - 1, 0)
    held: IntArray = np.minimum(wanted, to_spare).astype(np.int64)
    return held


def without_lone_batches(samples: IntArray, held: IntArray, batch_size: int) -> IntArray:
    """How many samples each client holds out so that no batch of one sample is left.

    As many as in `held`, or one less; one more where it would be none otherwise. A client that
    cannot avoid it holds out nothing.
    """
    trained_on = samples - held
    last_batch = trained_on % batch_size  # 0 if all batches are full
    holds_out = held > 0
    is_lone = holds_out & (last_batch == 1)
    if batch_size == 1:
        is_lone[:] = False  # then every batch is of one sample

    # One less would be none for who holds out a single sample.
    holds_one = held == 1
    has_more = samples > 2
    fewer = held - 1
    more = held + 1
    changed = np.where(holds_one & has_more, more, fewer)
    fitting: IntArray = np.where(is_lone, changed, held)
    return fitting


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
