"""Algorithm 1 of the paper as plain loops: read this first.

Everything fast in this package computes these numbers. K clients hold data D_i and a model phi_i each. A round, for
every peer i: sample neighbors, pull their models, measure each model's loss on D_i (E-step), turn the tracked losses
into a posterior w_i over peers, and send each sampled owner b a weighted update of *its* model phi_b (M-step). Owners
move after everybody is done, so the order of the peers does not matter.

A model here is any vector with two functions: the mean loss on some samples, and the gradient of that mean.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, inf
from sys import float_info

import numpy as np

from federico.algorithm.sampling import Sampler, View
from federico.rng import stream
from federico.types import FloatArray, IntArray

Loss = Callable[[FloatArray, FloatArray, FloatArray], float]
Gradient = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]


@dataclass
class ReferenceAdam:
    """ReferenceAdam on one vector, as published."""

    rate: float
    step: int = 0
    m: FloatArray | float = 0.0
    v: FloatArray | float = 0.0

    def move(self, gradient: FloatArray) -> FloatArray:
        """How far this gradient moves the vector."""
        self.step += 1
        self.m = 0.9 * self.m + 0.1 * gradient
        self.v = 0.999 * self.v + 0.001 * gradient**2
        mean, spread = self.m / (1 - 0.9**self.step), self.v / (1 - 0.999**self.step)
        return -self.rate * mean / (np.sqrt(spread) + 1e-8)


@dataclass
class ReferenceFederation:
    """The whole state of Algorithm 1 and its rounds. Names are the paper's: phi, l (ell), L (L-hat), w."""

    x: list[FloatArray]
    y: list[FloatArray]
    phi: list[FloatArray]
    loss: Loss
    gradient: Gradient
    sampler: Sampler
    names: list[str]
    seed: int = 0
    momentum: float = 0.6
    temperature: float = 1.0
    rate: float = 0.01
    batch_size: int = 10
    w_min: float = 1e-4
    m_step: str = "epochs"
    guess: float = inf
    """The loss of whoever knows nothing: a model that is worse has no weight."""

    def __post_init__(self) -> None:
        """Nobody has evaluated anybody yet: every dictionary is empty."""
        self.ell: list[dict[int, float]] = [{} for _ in self.x]
        self.L: list[dict[int, float]] = [{} for _ in self.x]
        self.w: list[dict[int, float]] = [{} for _ in self.x]
        self.optimizers: dict[tuple[int, int], ReferenceAdam] = {}

    def round(self, t: int, *, solo: bool = False) -> None:
        """One round. In a solo round nobody samples: each peer trains its own model only."""
        updates: list[tuple[int, float, FloatArray]] = []
        for i in range(len(self.x)):
            models = sorted({i, *(() if solo else self.sample(i, t))})
            self.e_step(i, models)
            self.forget(i)
            updates += self.m_steps(i, [b for b in models if self.worth_training(i, b)], t)
        for b in range(len(self.phi)):
            self.update(b, [(c, move) for owner, c, move in updates if owner == b])

    def worth_training(self, i: int, b: int) -> bool:
        """A model that weighs something; with local epochs the own one always, or it would never be trusted again."""
        return self.w[i][b] >= self.w_min or (i == b and self.m_step == "epochs")

    def sample(self, i: int, t: int) -> IntArray:
        """Neighbors B^t of peer i, epsilon-greedy with respect to what it knew before this round."""
        known = sorted(self.L[i])
        losses = [self.L[i][j] if self.ell[i][j] <= self.guess else inf for j in known]
        view = View(i, len(self.x), np.array(known, dtype=np.int64), np.array(losses))
        return self.sampler.sample(view, stream(self.seed, "sample", self.names[i], t))

    def e_step(self, i: int, models: list[int]) -> None:
        """Equation (3): new losses of the sampled models, moving averages of all, softmax over those worth anything."""
        for b in models:
            self.ell[i][b] = self.loss(self.phi[b], self.x[i], self.y[i])
        for j, ell in self.ell[i].items():
            self.L[i][j] = (1 - self.momentum) * self.L[i].get(j, 0.0) + self.momentum * min(
                ell, self.guess
            )
        sane = [j for j, ell in self.ell[i].items() if ell <= self.guess] or [i]
        scores = {j: exp(-self.L[i][j] / self.temperature) for j in sane}
        self.w[i] = {j: scores.get(j, 0.0) / sum(scores.values()) for j in self.L[i]}

    def forget(self, i: int) -> None:
        """Drop the optimizers kept for models that no longer weigh anything; the own one stays."""
        for j, weight in self.w[i].items():
            if j != i and weight < self.w_min:
                self.optimizers.pop((i, j), None)

    def m_steps(self, i: int, models: list[int], t: int) -> list[tuple[int, float, FloatArray]]:
        """What peer i sends to each owner b: (b, coefficient, move or gradient), equations (5) and (8)."""
        if self.m_step == "gradient":
            n = len(self.x[i])
            return [
                (b, self.w[i][b], n * self.gradient(self.phi[b], self.x[i], self.y[i]))
                for b in models
            ]
        # The own model may weigh nothing: where nobody else trains it, any weight will do.
        return [
            (b, max(self.w[i][b], float_info.min) * len(self.x[i]), self.local_epoch(i, b, t))
            for b in models
        ]

    def local_epoch(self, i: int, b: int, t: int) -> FloatArray:
        """Train a copy of phi_b on D_i for one epoch; peer i keeps its ReferenceAdam for model b between visits."""
        adam = self.optimizers.setdefault((i, b), ReferenceAdam(self.rate))
        phi, order = (
            self.phi[b].copy(),
            stream(self.seed, "batches", self.names[i], t, 0).permutation(len(self.x[i])),
        )
        for start in range(0, len(order), self.batch_size):
            batch = order[start : start + self.batch_size]
            phi += adam.move(self.gradient(phi, self.x[i][batch], self.y[i][batch]))
        return phi - self.phi[b]

    def update(self, b: int, received: list[tuple[float, FloatArray]]) -> None:
        """Equation (6) at the owner: nothing received, nothing moves."""
        if not received:
            return
        if self.m_step == "gradient":
            adam = self.optimizers.setdefault((b, b), ReferenceAdam(self.rate))
            self.phi[b] = self.phi[b] + adam.move(np.sum([c * g for c, g in received], axis=0))
        else:
            self.phi[b] = self.phi[b] + np.average(
                [move for _, move in received], axis=0, weights=[c for c, _ in received]
            )
