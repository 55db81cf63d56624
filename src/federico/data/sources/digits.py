"""The handwritten digits that come with scikit-learn."""

from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field

from federico import rng
from federico.data.dataset import Dataset, Samples, Schema, checked
from federico.data.sources.base import SourceOptions

WHITEST = 16
"""scikit-learn stores pixels as whole numbers from 0 to this."""


class Digits(SourceOptions):
    """1,797 handwritten digits of 8 x 8 pixels that come with scikit-learn."""

    kind: Literal["digits"] = "digits"
    """The digits of scikit-learn."""
    noise: float = Field(default=0.0, ge=0)
    """Standard deviation of the Gaussian noise on each pixel, where black is 0 and white is 1."""

    def load(self, folder: Path, seed: int) -> Dataset:
        """All digits, with pixels in 0..1 before the noise, which is not clipped to this range."""
        from sklearn.datasets import load_digits

        pixels, digits = load_digits(return_X_y=True)
        noise = rng.stream(seed, "noise").standard_normal(pixels.shape)
        x = pixels / WHITEST + self.noise * noise
        samples = Samples(x.astype(np.float32), digits.astype(np.int64))

        names = tuple(str(digit) for digit in range(10))
        schema = Schema("classification", (64,), 10, names)
        return checked(Dataset(samples, schema), self.kind)
