"""Local training as plain loops, for both references."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from federico.rng import stream
from federico.types import Array, FloatArray

Gradient: TypeAlias = Callable[[FloatArray, FloatArray, Array], FloatArray]
"""The gradient of a model's mean loss, given the model, inputs and targets."""


@dataclass
class ReferenceAdam:
    """Adam on one vector, as published, with the usual constants."""

    rate: float
    steps: int = 0
    first_moment: FloatArray | float = 0.0
    second_moment: FloatArray | float = 0.0

    def step(self, gradient: FloatArray) -> FloatArray:
        """How far this gradient moves the vector."""
        self.steps += 1
        self.first_moment = 0.9 * self.first_moment + 0.1 * gradient
        self.second_moment = 0.999 * self.second_moment + 0.001 * gradient**2

        # Both averages start at 0 and are corrected for it.
        first_weight = 1 - 0.9**self.steps
        second_weight = 1 - 0.999**self.steps
        mean = self.first_moment / first_weight
        mean_square = self.second_moment / second_weight

        spread = np.sqrt(mean_square) + 1e-8
        return -self.rate * mean / spread


@dataclass
class ReferenceTrainer:
    """Trains copies of models on peers' samples.

    A peer keeps its optimizer for a model between visits.
    """

    gradient: Gradient
    names: list[str]
    seed: int = 0
    rate: float = 0.01
    batch_size: int = 10
    optimizers: dict[tuple[int, int | str], ReferenceAdam] = field(default_factory=dict)
    """By (i, b): the optimizer that peer i keeps for model b."""

    def optimizer(self, i: int, b: int | str) -> ReferenceAdam:
        """The optimizer that peer i keeps for model b, new if there is none."""
        if (i, b) not in self.optimizers:
            self.optimizers[i, b] = ReferenceAdam(self.rate)
        return self.optimizers[i, b]

    def forget(self, i: int, b: int | str) -> None:
        """Drop the optimizer that peer i keeps for model b, if there is one."""
        self.optimizers.pop((i, b), None)

    def local_epoch(
        self, i: int, b: int | str, phi: FloatArray, x: FloatArray, y: Array, round_index: int
    ) -> FloatArray:
        """Peer i trains a copy of model b, which is `phi`, for one epoch; how far it moved."""
        adam = self.optimizer(i, b)
        rng = stream(self.seed, "batches", self.names[i], round_index, 0)
        order = rng.permutation(len(x))

        trained = phi.copy()
        for start in range(0, len(order), self.batch_size):
            batch = order[start : start + self.batch_size]
            gradient = self.gradient(trained, x[batch], y[batch])
            trained += adam.step(gradient)
        return trained - phi
