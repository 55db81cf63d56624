"""Scaling by what one client's own training samples show: the columns of a table, and targets."""

from dataclasses import dataclass

import numpy as np

from federico.types import Array, FloatArray


@dataclass(frozen=True)
class Standardizer:
    """Fills missing values with the median of each input, then scales to mean 0 and deviation 1.

    It is fitted on one client's own training samples, so that nothing is learned from test samples
    or from other clients.
    """

    median: FloatArray  # [inputs]
    mean: FloatArray  # [inputs]
    scale: FloatArray  # [inputs]

    def __call__(self, x: Array) -> Array:
        """The inputs [samples, inputs] without missing values, standardised."""
        filled = np.where(np.isnan(x), self.median, x)
        return (filled - self.mean) / self.scale

    @classmethod
    def fit(cls, x: Array) -> "Standardizer":
        """The standardizer of these inputs [samples, inputs].

        An input that is always missing is filled with 0. One that never changes is centred, but
        not scaled.
        """
        always_missing = np.isnan(x).all(axis=0)
        median = np.nanmedian(np.where(always_missing, 0.0, x), axis=0)
        filled = np.where(np.isnan(x), median, x)

        # Rounding can give a constant a tiny deviation, which would blow up any other value.
        # The range of a constant is exactly 0.
        constant = np.ptp(filled, axis=0) == 0
        scale = np.where(constant, 1.0, filled.std(axis=0))
        return cls(median, filled.mean(axis=0), scale)


@dataclass(frozen=True)
class TargetScale:
    """Scales the values to predict to mean 0 and deviation 1, and predictions back.

    It is fitted on one client's own training samples.
    """

    mean: FloatArray  # [outputs]
    spread: FloatArray  # [outputs]

    def __call__(self, y: Array) -> Array:
        """The values [samples, outputs], standardised."""
        return (y - self.mean) / self.spread

    @classmethod
    def fit(cls, y: Array) -> "TargetScale":
        """The scale of these values [samples, outputs]; one that never changes keeps spread 1."""
        deviation = y.std(axis=0)
        span = np.ptp(y, axis=0)
        # Rounding may leave equal values a tiny deviation, and tiny values none.
        is_constant = (span == 0) | (deviation == 0)
        spread = np.where(is_constant, 1.0, deviation)
        return cls(y.mean(axis=0), spread)
