"""FedEM (Marfoq et al. 2021): a few components for everybody, mixed by each client in its own proportions."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from pydantic import PositiveInt
from torch import Tensor

from federico.learning.visits import Visits
from federico.methods.method import (
    GLOBAL,
    Method,
    MethodContext,
    Mixtures,
    Needs,
    Posterior,
    Round,
    average_into,
)
from federico.options import Options
from federico.types import FloatArray


class FedEMOptions(Options):
    """Options of FedEM."""

    components: PositiveInt = 4
    """C: how many models all clients share; with 1 it is FedAvg."""


class FedEM(Method):
    """Every client's data is a mixture of the components, and every sample says which of them it comes from."""

    name = "fedem"
    title = "FedEM"
    summary = "A few shared models; each client learns in which proportions to mix them."
    options = FedEMOptions
    opt: FedEMOptions

    def __init__(self, context: MethodContext, options: FedEMOptions) -> None:
        super().__init__(context, options)
        self.proportions: FloatArray = np.full(
            (len(context.hosted), options.components), 1 / options.components
        )
        """pi_im, a row per hosted client."""

    @classmethod
    def needs(
        cls, options: FedEMOptions, clients: int, distribution: Sequence[int] | None, rounds: int
    ) -> Needs:
        """The components, each trained by everybody."""
        return Needs(options.components, clients * options.components, clients * options.components)

    def owners(self) -> Mapping[int, str]:
        """The components, K to K+C-1; the first starts where FedAvg does."""
        first, count = self.context.count, self.opt.components
        return {first + m: GLOBAL if m == 0 else f"{GLOBAL} {m}" for m in range(count)}

    @property
    def names(self) -> tuple[str, ...]:
        """The clients', and the components counted from 1."""
        return (*self.context.names, *(f"component {m + 1}" for m in range(self.opt.components)))

    def round(self, round_index: int) -> Round:
        """EM: whose sample is it, then every component learns from all samples by how much they are its own."""
        clock = self.context.clock
        with clock("pull"):
            visits = self.exchange.pull(round_index, self.to_components())
        with clock("e_step"):
            q = self.e_step(visits)
        self.push_moves(visits, round_index, q)
        with clock("update"):
            average_into(self.bank, self.exchange.collect(round_index))
        return Round(
            posteriors=[Posterior(np.array(list(self.owners())), row) for row in self.proportions]
        )

    def e_step(self, visits: Visits) -> FloatArray:
        """q(s,m) = softmax_m(log pi_im - loss_m(s)) of each visit's samples; pi_im becomes their mean."""
        losses = self.learner.losses(self.bank, visits).reshape(*self.proportions.shape, -1)
        q = responsibilities(losses, self.proportions)
        counts = self.learner.samples[self.context.hosted][:, None]
        real = np.arange(losses.shape[2]) < counts[:, :, None]
        self.proportions = np.sum(q, axis=2, where=real) / counts
        return q.reshape(len(visits), -1)

    def mixtures(self, round_index: int) -> Mixtures:
        """All components in the client's proportions."""
        return Mixtures(self.bank, self.to_components(), self.proportions.ravel())

    def to_components(self) -> Visits:
        """Every hosted client meets every component."""
        hosted, components = self.context.hosted, np.array(list(self.owners()))
        return Visits(np.repeat(hosted, len(components)), np.tile(components, len(hosted)))

    def state(self) -> dict[str, Tensor]:
        """Components, optimizers and everybody's proportions."""
        return {**super().state(), "proportions": torch.from_numpy(self.proportions.copy())}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from what `state` gave."""
        super().restore(state)
        self.proportions = state["proportions"].numpy()[self.context.hosted]


def responsibilities(losses: FloatArray, prior: FloatArray) -> FloatArray:
    """Softmax over m of log prior[i, m] - losses[i, m, s]; a sample that no component explains says nothing new."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        logits = np.log(prior)[:, :, None] - np.where(np.isfinite(losses), losses, np.inf)
        odds = np.exp(logits - logits.max(axis=1, keepdims=True))
        q: FloatArray = odds / odds.sum(axis=1, keepdims=True)
    return np.where(np.isnan(q), prior[:, :, None], q)
