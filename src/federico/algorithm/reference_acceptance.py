"""What an owner makes of the updates that come for its model, as plain loops, for the reference."""

from dataclasses import dataclass
from math import sqrt

import numpy as np

from federico.algorithm.acceptance import REACH, ROUNDING, Accept
from federico.types import FloatArray


@dataclass(frozen=True)
class ReferenceAcceptance:
    """How an owner weighs an update against its own."""

    accept: Accept = "reach"
    reach: float = REACH
    trim: float = 0.25

    def part_kept(self, delta: FloatArray, own: FloatArray | None, usual_length: float) -> float:
        """How much of its coefficient an update keeps; the owner's own update gets the rest."""
        if self.accept == "any":
            return 1.0
        if own is None:
            return 0.0  # there is nothing to compare it with

        if self.accept == "reach":
            distance = length_of(delta - own)
            farthest = self.reach * usual_length
            return farthest / distance if distance > farthest else 1.0
        if self.accept == "cosine":
            return max(0.0, cosine(delta, own))
        return 1.0

    def shortened(self, delta: FloatArray, usual_length: float) -> FloatArray:
        """The delta of another peer, made no longer than the owner's own usually are."""
        length = length_of(delta)
        if self.accept == "cosine" and length > usual_length:
            return delta * usual_length / length
        return delta

    def together(self, deltas: list[FloatArray], weights: list[float]) -> FloatArray:
        """One delta out of all: their weighted mean, or in each coordinate its robust version."""
        if self.accept == "median":
            return middle(deltas, weights, 0.5)
        if self.accept == "trimmed":
            return middle(deltas, weights, self.trim)
        total = sum(weights)
        mean = np.zeros(len(deltas[0]))
        for delta, weight in zip(deltas, weights, strict=True):
            mean += weight / total * delta
        return mean


def length_of(delta: FloatArray) -> float:
    """The Euclidean length of a delta."""
    return sqrt(float(delta @ delta))


def cosine(delta: FloatArray, other: FloatArray) -> float:
    """The cosine of the angle between two deltas; 0 if one of them is none."""
    product = length_of(delta) * length_of(other)
    return float(delta @ other) / product if product > 0 else 0.0


def middle(deltas: list[FloatArray], weights: list[float], trim: float) -> FloatArray:
    """In each coordinate the weighted mean without the part `trim` of the weight at either end."""
    total = sum(weights)
    found = np.zeros(len(deltas[0]))
    for coordinate in range(len(found)):
        pairs = [
            (float(delta[coordinate]), weight / total)
            for delta, weight in zip(deltas, weights, strict=True)
        ]
        pairs.sort(key=lambda pair: pair[0])
        found[coordinate] = _median(pairs) if trim >= 0.5 else _trimmed_mean(pairs, trim)
    return found


def _trimmed_mean(pairs: list[tuple[float, float]], trim: float) -> float:
    """The mean of (value, share) in order of values, without what lies in either end."""
    lower = 0.0
    mean = 0.0
    for value, share in pairs:
        upper = lower + share
        inside = min(upper, 1 - trim) - max(lower, trim)
        mean += max(0.0, inside) / (1 - 2 * trim) * value
        lower = upper
    return mean


def _median(pairs: list[tuple[float, float]]) -> float:
    """The value in the middle, or the mean of the two that meet there."""
    lower = 0.0
    inside: list[float] = []
    for value, share in pairs:
        upper = lower + share
        if share > 0 and upper >= 0.5 - ROUNDING and lower <= 0.5 + ROUNDING:
            inside.append(value)
        lower = upper
    return sum(inside) / len(inside)
