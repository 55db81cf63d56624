"""FedFomo (Zhang et al. 2021): each client steps towards those models that do better on data it has held out."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from pydantic import Field, NonNegativeFloat, NonNegativeInt
from torch import Tensor

from federico.algorithm.sampling import EpsilonGreedy, View
from federico.learning.bank import Bank
from federico.learning.layout import ModelLayout
from federico.learning.learner import held_out
from federico.learning.visits import Visits
from federico.methods.local import Local
from federico.methods.method import GLOBAL, MethodContext, Needs, Posterior, Round, check_neighbors
from federico.options import Options
from federico.rng import stream
from federico.types import FloatArray, IntArray

SMALLEST = 1e-9
"""Candidates whose weights cancel to less than this change the propensities as if it were this."""


class FedFomoOptions(Options):
    """Options of FedFomo."""

    neighbors: NonNegativeInt = 3
    """M: how many other models each client tries per round; all of them where there are fewer and it is not set."""
    epsilon: float = Field(default=0.3, ge=0, le=1)
    """Probability that a candidate is drawn uniformly instead of by its past merit; one coin per candidate."""
    epsilon_decay: NonNegativeFloat = 0.05
    """How much `epsilon` falls every round, down to 0."""
    validation: float = Field(default=0.2, gt=0, lt=1)
    """Part of a client's training samples that it holds out to judge models by, and never trains on."""


class FedFomo(Local):
    """Local training, before which a client moves from where it last began towards the candidates that gain."""

    name = "fedfomo"
    title = "FedFomo"
    summary = (
        "Each client combines the few models that do better than its own on data it holds out."
    )
    options = FedFomoOptions
    opt: FedFomoOptions

    @classmethod
    def check(cls, options: FedFomoOptions, clients: int, layout: ModelLayout) -> None:
        """Neighbors must exist."""
        check_neighbors(cls.name, options, options.neighbors, clients)

    @classmethod
    def trains_on(cls, options: Any, samples: IntArray) -> IntArray:
        """All but those held out."""
        return samples - held_out(samples, options.validation)

    @classmethod
    def needs(
        cls, options: Any, clients: int, distribution: Sequence[int] | None, rounds: int
    ) -> Needs:
        """A model per client, and where it began."""
        return Needs(2 * clients, clients, clients)

    def __init__(self, context: MethodContext, options: FedFomoOptions) -> None:
        super().__init__(context, options)
        self.learner.hold_out(options.validation)
        hosted = context.hosted
        self.first = Bank(self.bank.layout, hosted, self.bank.copy_rows(), self.bank.storage)
        """theta_first: every hosted client's model before its last local training."""
        self.propensity: FloatArray = np.zeros((len(hosted), context.count))
        """p_i[n]: what the model of n has been worth to each hosted client so far."""

    def owners(self) -> Mapping[int, str]:
        """A model per client, all from one start: models that never had anything in common cannot be averaged."""
        return dict.fromkeys(range(self.context.count), GLOBAL)

    def round(self, round_index: int) -> Round:
        """Sample, pull, weigh and combine; then train alone."""
        clock = self.context.clock
        with clock("sample"):
            neighbors = self.sample(round_index)
        with clock("pull"):
            visits = self.pull(round_index, neighbors)
        with clock("e_step"):
            gains = self.gains(visits)
        with clock("update"):
            rows = [self.combine(i, visits.owners[k], gains[k]) for i, k in visits.by_client()]
            self.bank.hosted_rows.copy_(self.first.rows)
        super().round(round_index)
        return Round(neighbors, rows)

    def sample(self, round_index: int) -> list[IntArray]:
        """Each client's candidates, slot by slot: by propensity, or uniformly with a chance that decays."""
        names, seed = self.context.names, self.context.seed
        epsilon = max(0.0, self.opt.epsilon - self.opt.epsilon_decay * (round_index - 1))
        sampler = EpsilonGreedy(min(self.opt.neighbors, len(names) - 1), epsilon, "per_neighbor")
        return [
            sampler.sample(
                View(i, len(names), np.arange(len(names)), -merit),
                stream(seed, "sample", names[i], round_index),
            )
            for i, merit in zip(self.context.hosted.tolist(), self.propensity, strict=True)
        ]

    def gains(self, visits: Visits) -> FloatArray:
        """Lval(theta_first) - Lval(theta_n) of every candidate; not a number where a loss is none."""
        before = self.learner.evaluate(self.first, self.context.to_own(), "validation")
        losses = self.learner.evaluate(self.bank, visits, "validation")
        with np.errstate(invalid="ignore"):
            gains: FloatArray = (
                before[np.searchsorted(self.context.hosted, visits.clients)] - losses
            )
        return gains

    def combine(self, i: int, candidates: IntArray, gains: FloatArray) -> Posterior:
        """theta_first += sum_n w_n (theta_n - theta_first), over the positive w_n = gain / distance, normalised."""
        place = int(self.first.places(np.array([i])))
        first = self.first.rows[place]
        moves = self.bank.rows[self.bank.places(candidates)] - first
        distances = (
            torch.linalg.vector_norm(moves[:, : self.bank.layout.parameters], dim=1)
            .double()
            .cpu()
            .numpy()
        )
        worth = np.divide(
            gains, distances, out=np.zeros(len(gains)), where=(distances > 0) & np.isfinite(gains)
        )
        self.propensity[place, candidates] += worth / max(abs(worth.sum()), SMALLEST)
        better = np.flatnonzero(worth > 0)
        if not len(better):
            return Posterior(np.array([i]), np.ones(1))
        weights = worth[better] / worth[better].sum()
        first += (
            torch.from_numpy(weights).to(moves) @ moves[torch.from_numpy(better).to(moves.device)]
        )
        return Posterior(candidates[better], weights)

    def state(self) -> dict[str, Tensor]:
        """Models and optimizers, where everybody began, and whom it found worth trying."""
        first, propensity = self.first.copy_rows(), torch.from_numpy(self.propensity.copy())
        return {**super().state(), "first": first, "propensity": propensity}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from what `state` gave."""
        super().restore(state)
        hosted = self.context.hosted
        mine = slice(int(hosted[0]), int(hosted[-1]) + 1)
        self.first.rows.copy_(state["first"][mine])
        self.propensity = state["propensity"][mine].numpy().copy()
