"""Algorithm 1 of the paper as plain loops: `preset = "paper"`.

`federico.algorithm.reference` is the rule by default. K clients hold data D_i and a model phi_i
each. In a round every peer i

  1. samples a few neighbors and pulls their models,
  2. measures the loss of each of these models, and of its own, on D_i (E-step),
  3. turns the tracked losses into a posterior over the peers it has met,
  4. trains each of the models on D_i and sends its owner an update, weighted by the posterior
     (M-step).

Owners move their models after everybody is done, so the order of the peers does not matter.

A model here is any vector with two functions: its mean loss on some samples, and the gradient of
that mean.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, inf
from sys import float_info
from typing import TypeAlias

import numpy as np

from federico.algorithm.reference_training import Gradient, ReferenceTrainer
from federico.algorithm.sampling import Sampler, View
from federico.rng import stream
from federico.types import Array, FloatArray, IntArray

Loss: TypeAlias = Callable[[FloatArray, FloatArray, Array], float]
"""The mean loss of a model, given the model, inputs and targets."""


@dataclass(frozen=True)
class PaperUpdate:
    """What a peer sends to the owner of a model it has trained."""

    owner: int
    coefficient: float
    delta: FloatArray
    """How far training moved the model; its gradient if `m_step` is "gradient"."""


@dataclass
class PaperFederation:
    """The whole state of Algorithm 1, and its rounds."""

    x: list[FloatArray]
    y: list[Array]
    phi: list[FloatArray]
    """The model of each peer."""
    loss: Loss
    gradient: Gradient
    sampler: Sampler
    names: list[str]
    seed: int = 0
    momentum: float = 0.6
    """beta, the weight of the new loss in the tracked one."""
    temperature: float = 1.0
    rate: float = 0.01
    batch_size: int = 10
    w_min: float = 1e-4
    m_step: str = "epochs"
    guess: float = inf
    """The loss of a model that has learned nothing: a model that is worse has no weight."""

    def __post_init__(self) -> None:
        """Nobody has evaluated anybody yet, so every dictionary is empty."""
        self.latest: list[dict[int, float]] = [{} for _ in self.x]
        """l_ij: the loss of model j on the data of peer i when it was last measured."""
        self.tracked: list[dict[int, float]] = [{} for _ in self.x]
        """L_ij: the moving average of these losses."""
        self.posterior: list[dict[int, float]] = [{} for _ in self.x]
        """w_ij: how much peer i trusts the model of peer j."""
        self.trainer = ReferenceTrainer(
            self.gradient, self.names, self.seed, self.rate, self.batch_size
        )

    def round(self, round_index: int, *, solo: bool = False) -> None:
        """One round. In a solo round nobody samples: each peer trains its own model only."""
        updates: list[PaperUpdate] = []
        for i in range(len(self.x)):
            visited = [i]
            if not solo:
                neighbors = self.sample(i, round_index)
                visited += neighbors.tolist()
            visited.sort()

            self.e_step(i, visited)
            self.forget_negligible(i)
            updates += self.make_updates(i, visited, round_index)

        for b in range(len(self.phi)):
            received = [update for update in updates if update.owner == b]
            self.update(b, received)

    def sample(self, i: int, round_index: int) -> IntArray:
        """The neighbors of peer i, chosen by what it knew before this round."""
        known = sorted(self.tracked[i])
        losses: list[float] = []
        for j in known:
            if self.latest[i][j] <= self.guess:
                losses.append(self.tracked[i][j])
            else:
                losses.append(inf)

        view = View(
            peer=i,
            count=len(self.x),
            known=np.array(known, dtype=np.int64),
            losses=np.array(losses),
        )
        rng = stream(self.seed, "sample", self.names[i], round_index)
        return self.sampler.sample(view, rng)

    def e_step(self, i: int, visited: list[int]) -> None:
        """Equation (3): measure the visited models, track the losses, make them a posterior."""
        for b in visited:
            self.latest[i][b] = self.loss(self.phi[b], self.x[i], self.y[i])

        # Every model met so far moves its average, sampled this round or not.
        for j, latest in self.latest[i].items():
            previous = self.tracked[i].get(j, 0.0)
            capped = min(latest, self.guess)
            self.tracked[i][j] = (1 - self.momentum) * previous + self.momentum * capped

        # A model worse than guessing gets no weight. If all are worse, a peer keeps its own.
        trusted = [j for j, latest in self.latest[i].items() if latest <= self.guess]
        if not trusted:
            trusted = [i]

        score = {j: exp(-self.tracked[i][j] / self.temperature) for j in trusted}
        total = sum(score.values())
        self.posterior[i] = {j: score.get(j, 0.0) / total for j in self.tracked[i]}

    def forget_negligible(self, i: int) -> None:
        """Drop the optimizers kept for models of negligible weight, except for its own model."""
        for j, weight in self.posterior[i].items():
            if j != i and weight < self.w_min:
                self.trainer.forget(i, j)

    def make_updates(self, i: int, visited: list[int], round_index: int) -> list[PaperUpdate]:
        """Equations (5) and (8), the M-step: what peer i sends to the owners of visited models."""
        updates: list[PaperUpdate] = []
        for b in visited:
            if not self.is_worth_training(i, b):
                continue

            weight = self.posterior[i][b]
            samples = len(self.x[i])
            if self.m_step == "gradient":
                delta = samples * self.gradient(self.phi[b], self.x[i], self.y[i])
                updates.append(PaperUpdate(b, weight, delta))
            else:
                # The own model may weigh nothing: where nobody else trains it, any weight will do.
                weight = max(weight, float_info.min)
                delta = self.trainer.local_epoch(
                    i, b, self.phi[b], self.x[i], self.y[i], round_index
                )
                updates.append(PaperUpdate(b, weight * samples, delta))
        return updates

    def is_worth_training(self, i: int, b: int) -> bool:
        """Whether peer i trains model b: one that weighs something, and with local epochs its own.

        A peer's own model that nobody trained would never be trusted again.
        """
        if i == b and self.m_step == "epochs":
            return True
        return self.posterior[i][b] >= self.w_min

    def update(self, b: int, received: list[PaperUpdate]) -> None:
        """Equation (6) at the owner of model b. Where nothing was received, nothing moves."""
        if not received:
            return

        deltas = [update.delta for update in received]
        coefficients = [update.coefficient for update in received]
        if self.m_step == "gradient":
            adam = self.trainer.optimizer(b, b)
            weighted = [update.coefficient * update.delta for update in received]
            total = np.sum(weighted, axis=0)
            step = adam.step(total)
        else:
            step = np.average(deltas, axis=0, weights=coefficients)
        self.phi[b] = self.phi[b] + step
