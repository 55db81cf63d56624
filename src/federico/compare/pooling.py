"""Two entries of the same settings on different seeds become one, as if all runs had been read at once."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from federico.compare.result import Entry
from federico.report.old.summary import Curve, Trust
from federico.types import FloatArray


def pooled(old: Entry, new: Entry) -> Entry:
    """The runs of both, of as many rounds; curves have the rounds that both were evaluated at."""
    runs = len(old.by_seed), len(new.by_seed)
    shared = sorted({*old.curve.rounds} & {*new.curve.rounds})
    a, b = ([entry.curve.rounds.index(index) for index in shared] for entry in (old, new))

    def mean(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
        values: list[float] = _mean(np.array(ours)[a], np.array(theirs)[b], runs).tolist()
        return values

    return replace(
        old,
        by_seed=dict(sorted({**old.by_seed, **new.by_seed}.items())),
        by_client={
            client: float(_mean(np.array(value), np.array(new.by_client[client]), runs))
            for client, value in old.by_client.items()
            if client in new.by_client
        },
        curve=Curve(
            shared, mean(old.curve.mean, new.curve.mean), _spread(old.curve, new.curve, a, b, runs)
        ),
        bytes_moved=mean(old.bytes_moved, new.bytes_moved),
        processor_seconds=mean(old.processor_seconds, new.processor_seconds),
        trust=_trust(old.trust, new.trust, runs),
        saves=(*old.saves, *new.saves),
    )


def _mean(old: FloatArray, new: FloatArray, runs: tuple[int, int]) -> FloatArray:
    mean: FloatArray = (runs[0] * old + runs[1] * new) / sum(runs)
    return mean


def _spread(
    old: Curve, new: Curve, a: list[int], b: list[int], runs: tuple[int, int]
) -> list[float]:
    """Squares around the common mean: those around each mean, and of the means around each other; 0 for a diverged."""
    within = (runs[0] - 1) * np.array(old.sd)[a] ** 2 + (runs[1] - 1) * np.array(new.sd)[b] ** 2
    between = runs[0] * runs[1] / sum(runs) * (np.array(old.mean)[a] - np.array(new.mean)[b]) ** 2
    spread: list[float] = np.nan_to_num(
        np.sqrt((within + between) / (sum(runs) - 1)), nan=0.0
    ).tolist()
    return spread


def _trust(old: Trust | None, new: Trust | None, runs: tuple[int, int]) -> Trust | None:
    if old is None or new is None:
        return old or new
    shares = None
    if old.on_friends is not None and new.on_friends is not None:
        shares = float(_mean(np.array(old.on_friends), np.array(new.on_friends), runs))
    return Trust(
        shares, float(_mean(np.array(old.collaborators), np.array(new.collaborators), runs))
    )
