"""FedEM (Marfoq et al. 2021): shared components, mixed by each client in its own proportions."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from pydantic import PositiveInt

from federico.learning.visits import Visits
from federico.methods.method import Method, Mixtures, Needs, Posterior, Round
from federico.methods.model_owners import ModelOwner, shared_models
from federico.methods.state import PerClient
from federico.options import Options
from federico.types import FloatArray


class FedEMOptions(Options):
    """Options of FedEM."""

    components: PositiveInt = 4
    """C: how many models all clients share; with 1 it is FedAvg."""


class FedEM(Method):
    """A client's data is a mixture of components; every sample says which it comes from."""

    name = "fedem"
    title = "FedEM"
    summary = "A few shared models; each client learns in which proportions to mix them."
    options = FedEMOptions
    opt: FedEMOptions

    proportions = PerClient[FloatArray]()
    """pi_im, [hosted clients, components]."""

    @classmethod
    def models(cls, options: Any, clients: Sequence[str]) -> list[ModelOwner]:
        """The components, counted from 1; the first starts where FedAvg does."""
        titles = [f"component {m + 1}" for m in range(options.components)]
        return shared_models(clients, titles)

    @classmethod
    def memory(cls, options: Any, clients: int, rounds: int) -> Needs:
        """The components, each trained by everybody."""
        visits = clients * options.components
        return Needs(models=options.components, updates=visits, pairs=visits)

    def start(self) -> None:
        """Every client mixes the components evenly."""
        components = self.opt.components
        self.proportions = np.full((len(self.context.hosted), components), 1 / components)

    def round(self, round_index: int) -> Round:
        """EM: which component explains a sample, then each learns from the samples it explains."""
        visits = self.pull(round_index, self.to_shared())
        with self.context.clock("e_step"):
            responsibility = self.e_step(visits)
        self.train_and_push(round_index, visits, sample_weights=responsibility)
        self.collect_and_average(round_index)
        components = self.shared_owners
        return Round(posteriors=[Posterior(components, row) for row in self.proportions])

    def e_step(self, visits: Visits) -> FloatArray:
        """q(s, m) = softmax_m(log pi_im - loss_m(s)) of each visit's samples; pi_im is their mean.

        Returns q as training wants it: [visits, samples].
        """
        clients, components = self.proportions.shape
        visit_losses = self.learner.losses(self.bank, visits)  # [visits, samples]
        losses = visit_losses.reshape(clients, components, -1)
        q = responsibilities(losses, self.proportions)  # [clients, components, samples]

        # Clients have different numbers of samples: a client's last one is followed by padding.
        counts = self.learner.samples[self.context.hosted][:, None]  # [clients, 1]
        most = losses.shape[2]
        is_sample = np.arange(most) < counts[:, :, None]  # [clients, 1, samples]
        sums = np.sum(q, axis=2, where=is_sample)  # [clients, components]
        self.proportions = sums / counts
        return q.reshape(len(visits), -1)

    def predictors(self, round_index: int) -> Mixtures:
        """All components in the client's proportions."""
        return self.read(round_index, self.to_shared(), self.proportions.ravel())


def responsibilities(losses: FloatArray, prior: FloatArray) -> FloatArray:
    """Softmax over m of log prior[i, m] - losses[i, m, s].

    A sample for which no component has a finite loss says nothing new: it keeps the prior.
    """
    prior = prior[:, :, None]  # [clients, components, 1]
    is_finite = np.isfinite(losses)
    sane_losses = np.where(is_finite, losses, np.inf)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        logits = np.log(prior) - sane_losses
        # Relative to the best component, so that no exponential overflows.
        best = logits.max(axis=1, keepdims=True)
        odds = np.exp(logits - best)
        total = odds.sum(axis=1, keepdims=True)
        q: FloatArray = odds / total
    unexplained = np.isnan(q)
    return np.where(unexplained, prior, q)
