"""How the outputs of models are read: p'(y|x) ~ p(y|x)^(1/T) w(y), one T and w for each model."""

from dataclasses import dataclass

import numpy as np

from federico.types import FloatArray, IntArray


@dataclass(frozen=True)
class Calibration:
    """An entry for each visit, whose model's class probabilities are read in this way.

    Without effect on the values of a regression.
    """

    temperatures: FloatArray
    """T of each visit, [visits]: above 1 makes a model less sure of itself."""
    offsets: FloatArray
    """log w of each visit and class, [visits, classes]."""

    def take(self, positions: IntArray) -> "Calibration":
        """The calibration of the visits at these positions."""
        return Calibration(self.temperatures[positions], self.offsets[positions])

    def joined(self, other: "Calibration") -> "Calibration":
        """The calibration of these visits, then of those."""
        return Calibration(
            np.concatenate([self.temperatures, other.temperatures]),
            np.concatenate([self.offsets, other.offsets]),
        )
