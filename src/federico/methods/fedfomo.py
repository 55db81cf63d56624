"""FedFomo (Zhang et al. 2021): each client steps towards models that do better on held-out data."""

from collections.abc import Sequence
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
from federico.methods.context import timed
from federico.methods.local import Local
from federico.methods.method import Needs, Posterior, Round, check_neighbors, pull_neighbors
from federico.methods.model_owners import ModelOwner, one_per_client
from federico.methods.state import PerClient
from federico.options import Options
from federico.rng import stream
from federico.types import FloatArray, IntArray

SMALLEST = 1e-9
"""Candidates whose weights cancel to less than this change the propensities as if it were this."""


class FedFomoOptions(Options):
    """Options of FedFomo."""

    neighbors: NonNegativeInt = 3
    """M: how many other models each client tries per round; all of them if there are
    fewer than the default."""
    epsilon: float = Field(default=0.3, ge=0, le=1)
    """Probability that a candidate is drawn uniformly instead of by its propensity; one coin per
    candidate."""
    epsilon_decay: NonNegativeFloat = 0.05
    """How much `epsilon` decreases every round, down to 0."""
    validation: float = Field(default=0.2, gt=0, lt=1)
    """Fraction of a client's training samples that is held out to evaluate models."""


class FedFomo(Local):
    """Local training, before which a client moves towards models that do better than its own."""

    name = "fedfomo"
    title = "FedFomo"
    summary = (
        "Each client combines the few models that do better than its own on data it holds out."
    )
    options = FedFomoOptions
    opt: FedFomoOptions

    first = PerClient[Tensor]()
    """theta_first: each client's model before its last local training, [hosted clients, size]."""
    propensity = PerClient[FloatArray]()
    """p_i[n]: what the model of n has been worth to client i so far, [hosted clients, clients]."""

    @classmethod
    def models(cls, options: Any, clients: Sequence[str]) -> list[ModelOwner]:
        """A model for each client, all from one start: others could not be averaged."""
        return one_per_client(clients, same_start=True)

    @classmethod
    def check(cls, options: FedFomoOptions, clients: int, layout: ModelLayout) -> None:
        """Neighbors must exist."""
        default = FedFomoOptions().neighbors
        check_neighbors(cls.name, options.neighbors, default, clients)

    @classmethod
    def trains_on(cls, options: FedFomoOptions, samples: IntArray) -> IntArray:
        """All samples but those held out."""
        return samples - held_out(samples, options.validation)

    @classmethod
    def memory(cls, options: Any, clients: int, rounds: int) -> Needs:
        """A model for each client, and where it began."""
        return Needs(models=2 * clients, updates=clients, pairs=clients)

    def start(self) -> None:
        """Hold data out; nobody has trained yet, nor found anybody worth trying."""
        self.learner.hold_out(self.opt.validation)
        self.first = self.bank.copy_rows()
        self.propensity = np.zeros((len(self.context.hosted), self.context.count))

    def round(self, round_index: int) -> Round:
        """Sample, pull, weigh and combine; then train alone."""
        neighbors = self.sample(round_index)
        visits = pull_neighbors(self, round_index, neighbors)
        gains = self.measure_gains(visits)
        posteriors = self.combine_all(visits, gains)
        super().round(round_index)
        return Round(neighbors, posteriors)

    @timed("sample")
    def sample(self, round_index: int) -> list[IntArray]:
        """Each client's candidates, by propensity or, with a chance that falls, uniformly."""
        names = self.context.names
        epsilon = max(0.0, self.opt.epsilon - self.opt.epsilon_decay * (round_index - 1))
        neighbors = min(self.opt.neighbors, len(names) - 1)
        sampler = EpsilonGreedy(neighbors, epsilon, "per_neighbor")

        everybody = np.arange(len(names))
        sampled: list[IntArray] = []
        for i, merit in zip(self.context.hosted.tolist(), self.propensity, strict=True):
            view = View(i, len(names), everybody, -merit)
            rng = stream(self.context.seed, "sample", names[i], round_index)
            sampled.append(sampler.sample(view, rng))
        return sampled

    @timed("e_step")
    def measure_gains(self, visits: Visits) -> FloatArray:
        """Lval(theta_first) - Lval(theta_n) of every candidate.

        Not a number where a loss is none.
        """
        hosted = self.context.hosted
        where_it_began = Bank(self.bank.layout, hosted, self.first, self.bank.storage)
        before = self.learner.evaluate(where_it_began, self.to_own(), "validation")
        losses = self.learner.evaluate(self.bank, visits, "validation")
        with np.errstate(invalid="ignore"):
            gains: FloatArray = before[np.searchsorted(hosted, visits.clients)] - losses
        return gains

    @timed("update")
    def combine_all(self, visits: Visits, gains: FloatArray) -> list[Posterior]:
        """Move every client's model to where its candidates lead it."""
        posteriors: list[Posterior] = []
        for place, (i, positions) in enumerate(visits.by_client()):
            candidates = visits.owners[positions]
            posteriors.append(self.combine(i, place, candidates, gains[positions]))
        self.bank.hosted_rows.copy_(self.first)
        return posteriors

    def combine(self, i: int, place: int, candidates: IntArray, gains: FloatArray) -> Posterior:
        """theta_first += sum_n w_n (theta_n - theta_first) over the positive w_n, normalised.

        w_n is the gain of candidate n over its distance; `place` is that of client i among the
        hosted ones.
        """
        first = self.first[place]
        moves = self.bank.rows[self.bank.places(candidates)] - first  # [candidates, size]
        parameters = moves[:, : self.bank.layout.parameters]
        distances = torch.linalg.vector_norm(parameters, dim=1).double().cpu().numpy()

        usable = (distances > 0) & np.isfinite(gains)
        worth = np.divide(gains, distances, out=np.zeros(len(gains)), where=usable)
        self.propensity[place, candidates] += worth / max(abs(worth.sum()), SMALLEST)

        better = np.flatnonzero(worth > 0)
        if not len(better):
            # Nobody gains: the client stays where it began.
            return Posterior(np.array([i]), np.ones(1))

        weights = worth[better] / worth[better].sum()
        positions = torch.from_numpy(better).to(moves.device)
        shares = torch.from_numpy(weights).to(moves)
        first += shares @ moves[positions]
        return Posterior(candidates[better], weights)
