from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field

from federico import rng
from federico.data.checks import checked
from federico.data.dataset import Dataset, Samples, Schema
from federico.data.sources.base import SourceOptions


class Digits(SourceOptions):
    """1,797 handwritten digits of 8 x 8 pixels that come with scikit-learn."""

    kind: Literal["digits"] = "digits"
    """The digits of scikit-learn."""
    noise: float = Field(default=0.0, ge=0)
    """Standard deviation of the Gaussian noise added to each pixel, where black is 0 and white is 1."""

    def load(self, folder: Path, seed: int) -> Dataset:
        """Pixels in 0..1 before noise; the noise is not clipped, so that it stays Gaussian."""
        from sklearn.datasets import load_digits

        pixels, digits = load_digits(return_X_y=True)
        x = pixels / 16 + self.noise * rng.stream(seed, "noise").standard_normal(pixels.shape)
        names = tuple(str(digit) for digit in range(10))
        samples = Samples(x.astype(np.float32), digits.astype(np.int64))
        return checked(Dataset(samples, Schema("classification", (64,), 10, names)), self.kind)
