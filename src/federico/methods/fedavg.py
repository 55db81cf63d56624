"""Federated averaging (McMahan et al. 2017): one model for everybody."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from federico.learning.visits import Visits
from federico.methods.method import GLOBAL, Method, Mixtures, Needs, Round, average_into


class FedAvg(Method):
    """Everyone trains the global model; it moves by the average of the moves, weighted by data."""

    name = "fedavg"
    title = "FedAvg"
    summary = "One global model, averaged over all clients every round."

    @classmethod
    def needs(
        cls, options: Any, clients: int, distribution: Sequence[int] | None, rounds: int
    ) -> Needs:
        """One model, trained by everybody."""
        return Needs(1, clients, clients)

    def owners(self) -> Mapping[int, str]:
        """The global model alone: owner K, whom no client is."""
        return {self.context.count: GLOBAL}

    @property
    def names(self) -> tuple[str, ...]:
        """The clients', and the global model's."""
        return (*self.context.names, "global")

    def round(self, round_index: int) -> Round:
        """The global model moves by sum_i (n_i / n) delta_i."""
        clock = self.context.clock
        with clock("pull"):
            visits = self.exchange.pull(round_index, self.to_global())
        self.push_moves(visits, round_index)
        with clock("update"):
            average_into(self.bank, self.exchange.collect(round_index))
        return Round()

    def mixtures(self, round_index: int) -> Mixtures:
        """The global model, for everybody."""
        visits = self.to_global()
        return Mixtures(self.bank, visits, np.ones(len(visits)))

    def to_global(self) -> Visits:
        """Every hosted client meets the global model."""
        hosted = self.context.hosted
        return Visits(hosted, np.full(len(hosted), self.context.count))
