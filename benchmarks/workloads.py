"""The work that is measured: made-up data of the real shapes, so that no download is needed."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from federico.data.dataset import Dataset
from federico.data.sources.npz import from_arrays
from federico.experiment.config import validate
from federico.experiment.setup import Setup, prepare

SEED = 0


@dataclass(frozen=True)
class Workload:
    """One row of the benchmark."""

    name: str
    title: str
    clients: int
    samples: int
    """Per client, training and test together."""
    inputs: tuple[int, ...]
    outputs: int
    """Classes, or 0 for regression."""
    model: dict[str, Any]
    batch_size: int
    neighbors: int = 3

    def dataset(self) -> Dataset:
        """Random inputs and targets, each client's own."""
        draw = np.random.default_rng(SEED)
        shape = (self.clients * self.samples, *self.inputs)
        images = len(self.inputs) == 3
        x = draw.integers(0, 256, shape, dtype=np.uint8) if images else draw.standard_normal(shape, dtype=np.float32)
        y = draw.integers(0, self.outputs, len(x)) if self.outputs else draw.standard_normal((len(x), 1))
        return from_arrays(x, y, np.repeat(np.arange(self.clients).astype(str), self.samples), self.name)

    def setup(self, **settings: Any) -> Setup:
        """Ready to build a method."""
        raw = {
            "data": {"kind": "python"},
            "partition": {"kind": "natural"},
            "model": self.model,
            "training": {"batch_size": self.batch_size},
            # All weights stay above w_min, so that every round does all its visits.
            "federico": {"neighbors": self.neighbors, "solo_rounds": 0, "w_min": 0.0},
            **settings,
        }
        return prepare(validate(raw), SEED, dataset=self.dataset())


WORKLOADS = {
    work.name: work
    for work in (
        Workload("linear", "linear, sine, K=64", 64, 38, (1,), 0, {"kind": "linear"}, 10),
        Workload("mlp", "MLP 512-1000-200-65, K=10", 10, 1558, (512,), 65, {"kind": "mlp", "hidden": (1000, 200)}, 100),
        Workload("cnn2", "CNN2 on 3x32x32, K=8", 8, 625, (3, 32, 32), 10, {"kind": "cnn2"}, 50),
    )
}
