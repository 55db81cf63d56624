"""A noisy sine curve: the data of figure 1 of the paper."""

from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field

from federico import rng
from federico.data.dataset import Dataset, Samples, Schema, checked
from federico.data.partition import numbered_ids
from federico.data.sources.base import SourceOptions


class Sine(SourceOptions):
    """A noisy sine curve cut into successive intervals, one per client: figure 1 of the paper."""

    kind: Literal["sine"] = "sine"
    """A noisy sine curve."""
    clients: int = Field(default=8, ge=1)
    """Number of intervals the curve is cut into; the natural partition makes each a client."""
    samples_per_client: int = Field(default=30, ge=2)
    """Number of points on each interval, evenly spaced."""
    noise: float = Field(default=0.1, ge=0)
    """Standard deviation of the Gaussian noise added to the height of each point."""
    cycles: float = Field(default=1.0, gt=0)
    """Number of full waves the intervals cover together."""

    def load(self, folder: Path, seed: int) -> Dataset:
        """The points from left to right; the owner of each is the number of its interval."""
        points = self.clients * self.samples_per_client
        right_end = 2 * np.pi * self.cycles
        x = np.linspace(0, right_end, points)[:, None]  # [points, 1]
        draw = rng.stream(seed, "noise")
        noise = draw.standard_normal(x.shape)
        y = np.sin(x) + self.noise * noise

        intervals = numbered_ids(self.clients)
        owners = np.repeat(intervals, self.samples_per_client)
        schema = Schema("regression", input_shape=(1,), outputs=1)
        dataset = Dataset(Samples(x, y), schema, owners)
        return checked(dataset, self.kind)
