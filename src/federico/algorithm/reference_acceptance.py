"""What an owner makes of the moves that come for its model, as plain loops, for the reference."""

from dataclasses import dataclass
from math import sqrt

import numpy as np

from federico.algorithm.acceptance import REACH, ROUNDING, Accept
from federico.types import FloatArray


@dataclass(frozen=True)
class ReferenceAcceptance:
    """How an owner weighs a move against its own."""

    accept: Accept = "reach"
    reach: float = REACH
    trim: float = 0.25

    def part_kept(self, move: FloatArray, own: FloatArray | None, usual_length: float) -> float:
        """How much of its coefficient a move keeps; the owner's own move gets the rest."""
        if self.accept == "any":
            return 1.0
        if own is None:
            return 0.0  # there is nothing to compare it with

        if self.accept == "reach":
            distance = length_of(move - own)
            farthest = self.reach * usual_length
            return farthest / distance if distance > farthest else 1.0
        if self.accept == "cosine":
            return max(0.0, cosine(move, own))
        return 1.0

    def shortened(self, move: FloatArray, usual_length: float) -> FloatArray:
        """The move of another peer, not longer than the owner's own usually are."""
        length = length_of(move)
        if self.accept == "cosine" and length > usual_length:
            return move * usual_length / length
        return move

    def together(self, moves: list[FloatArray], weights: list[float]) -> FloatArray:
        """One move out of all: their weighted mean, or in each coordinate its robust version."""
        if self.accept == "median":
            return middle(moves, weights, 0.5)
        if self.accept == "trimmed":
            return middle(moves, weights, self.trim)
        total = sum(weights)
        mean = np.zeros(len(moves[0]))
        for move, weight in zip(moves, weights, strict=True):
            mean += weight / total * move
        return mean


def length_of(move: FloatArray) -> float:
    """The Euclidean length of a move."""
    return sqrt(float(move @ move))


def cosine(move: FloatArray, other: FloatArray) -> float:
    """The cosine of the angle between two moves; 0 if one of them is none."""
    product = length_of(move) * length_of(other)
    return float(move @ other) / product if product > 0 else 0.0


def middle(moves: list[FloatArray], weights: list[float], trim: float) -> FloatArray:
    """In each coordinate the weighted mean without the part `trim` of the weight at either end."""
    total = sum(weights)
    found = np.zeros(len(moves[0]))
    for coordinate in range(len(found)):
        pairs = [
            (float(move[coordinate]), weight / total)
            for move, weight in zip(moves, weights, strict=True)
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
