"""FedFomo (Zhang et al. 2021): each client steps towards models that do better on held-out data."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from pydantic import Field, NonNegativeFloat, NonNegativeInt
from torch import Tensor

from federico.algorithm.sampling import EpsilonGreedy, View
from federico.learning.holding_out import held_out
from federico.learning.layout import ModelLayout
from federico.learning.visits import Visits
from federico.methods.local import Local
from federico.methods.method import Needs, Posterior, Round, check_neighbors, pull_neighbors
from federico.methods.model_owners import ModelOwner, one_per_client
from federico.methods.state import PerClient
from federico.options import Options
from federico.rng import stream
from federico.types import FloatArray, IntArray

SMALLEST = 1e-9
"""Lower bound on the absolute sum of a client's weights, by which they are divided."""


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
        """Hold out validation data; all models are still equal, and all propensities 0."""
        self.learner.hold_out(self.opt.validation)
        self.first = self.bank.copy_rows()
        hosted = len(self.context.hosted)
        self.propensity = np.zeros((hosted, self.context.count))

    def round(self, round_index: int) -> Round:
        """Sample, pull, weigh and combine; then train alone."""
        clock = self.context.clock
        with clock("sample"):
            neighbors = self.sample(round_index)
        visits = pull_neighbors(self, round_index, neighbors)
        with clock("e_step"):
            gains = self.measure_gains(visits)
        with clock("update"):
            posteriors = self.combine_all(visits, gains)
        super().round(round_index)
        return Round(neighbors, posteriors)

    def sample(self, round_index: int) -> list[IntArray]:
        """Each client's candidates, by propensity or, with a decreasing probability, uniformly."""
        names = self.context.names
        count = len(names)
        decrease = self.opt.epsilon_decay * (round_index - 1)
        epsilon = max(0.0, self.opt.epsilon - decrease)
        neighbors = min(self.opt.neighbors, count - 1)
        sampler = EpsilonGreedy(neighbors, epsilon, "per_neighbor")

        everybody = np.arange(count)
        hosted = self.context.hosted.tolist()
        sampled: list[IntArray] = []
        for i, propensity in zip(hosted, self.propensity, strict=True):
            # The sampler prefers low losses, so a high propensity counts as a low loss.
            view = View(i, count, everybody, -propensity)
            rng = stream(self.context.seed, "sample", names[i], round_index)
            sampled.append(sampler.sample(view, rng))
        return sampled

    def measure_gains(self, visits: Visits) -> FloatArray:
        """Lval(theta_first) - Lval(theta_n) of every candidate n, [visits].

        It is NaN if one of the losses is NaN, or if both are infinite.
        """
        hosted = self.context.hosted
        first_models = self.bank.beside(hosted, self.first)
        first_losses = self.learner.evaluate(first_models, self.to_own(), "held_out")  # [hosted]
        losses = self.learner.evaluate(self.bank, visits, "held_out")  # [visits]

        places = np.searchsorted(hosted, visits.clients)
        with np.errstate(invalid="ignore"):
            gains: FloatArray = first_losses[places] - losses
        return gains

    def combine_all(self, visits: Visits, gains: FloatArray) -> list[Posterior]:
        """Combine the candidates of every client, and make the result its model."""
        posteriors: list[Posterior] = []
        for place, (i, positions) in enumerate(visits.by_client()):
            candidates = visits.owners[positions]
            row = self.combine(i, place, candidates, gains[positions])
            posteriors.append(row)

        # Only now, because every client combines the models as they were pulled.
        self.bank.hosted_rows.copy_(self.first)
        return posteriors

    def combine(self, i: int, place: int, candidates: IntArray, gains: FloatArray) -> Posterior:
        """theta_first += sum_n w_n (theta_n - theta_first) over the positive w_n, normalised.

        w_n is the gain of candidate n over its distance; `place` is that of client i among the
        hosted ones.
        """
        first = self.first[place]
        candidate_places = self.bank.places(candidates)
        moves = self.bank.rows[candidate_places] - first  # [candidates, size]

        # Batch-norm statistics say nothing about how far apart two models are.
        size = self.bank.row_layout.parameters
        lengths = torch.linalg.vector_norm(moves[:, :size], dim=1)
        distances = lengths.double().cpu().numpy()  # [candidates]

        # A candidate equal to the client's first model, or with a loss that is not finite, is
        # worth nothing.
        usable = (distances > 0) & np.isfinite(gains)
        worth = np.zeros(len(gains))
        np.divide(gains, distances, out=worth, where=usable)
        total = max(abs(worth.sum()), SMALLEST)
        self.propensity[place, candidates] += worth / total

        better = np.flatnonzero(worth > 0)
        if len(better) == 0:
            # No candidate is better: the client keeps its first model.
            return Posterior(np.array([i]), np.ones(1))

        weights = worth[better] / worth[better].sum()
        positions = torch.from_numpy(better).to(moves.device)
        shares = torch.from_numpy(weights).to(moves)
        first += shares @ moves[positions]
        return Posterior(candidates[better], weights)
