"""Means and deviations of figures that may be undefined or unknown."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np

Key = TypeVar("Key")


def mean(values: Sequence[float]) -> float:
    """The mean; not finite where one of the values is not."""
    return float(np.mean(values))


def standard_deviation(values: Sequence[float]) -> float | None:
    """The standard deviation; None for one value, or where one has diverged."""
    if len(values) < 2 or not np.isfinite(values).all():
        return None
    return float(np.std(values, ddof=1))


def means_by_key(values: Mapping[Key, Sequence[float]]) -> dict[Key, float]:
    """The mean of every list, under its key."""
    return {key: mean(seen) for key, seen in values.items()}


def mean_of_known(values: Iterable[float | None]) -> float | None:
    """The mean of those that are not None; None where all are."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    return mean(known)


def mean_of_lists(rows: Sequence[Sequence[float]]) -> list[float]:
    """The mean of the first entries, of the second, and so on."""
    means: list[float] = np.mean(rows, axis=0).tolist()
    return means
