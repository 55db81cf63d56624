"""All peers in one process: every model is in the bank already, so nothing moves, but all of it is counted."""

import numpy as np

from federico.exchange.protocol import Traffic, Updates
from federico.learning.bank import Bank
from federico.learning.visits import Visits

COEFFICIENT_BYTES = 8


class SimulatedExchange:
    """The exchange of a simulation in one process."""

    def __init__(self, bank: Bank, participants: int) -> None:
        """`participants`: clients, plus whatever else owns a model (the global model of FedAvg)."""
        self.traffic = Traffic(participants)
        self._model_bytes = bank.layout.size * bank.rows.element_size()
        self._pushed: Updates | None = None

    def pull(self, round_index: int, wanted: Visits) -> Visits:
        """Every model is here already: only count what it would cost on a wire."""
        self.traffic.count(wanted.owners, wanted.clients, self._model_bytes)
        return wanted

    def read_models(self, round_index: int, visits: Visits) -> Visits:
        """Every model is here already: only count what it would cost on a wire."""
        self.traffic.count(visits.owners, visits.clients, self._model_bytes, "evaluation")
        return visits

    def push(self, round_index: int, updates: Updates) -> None:
        """Hold the updates until they are collected."""
        self.traffic.count(
            updates.contributors, updates.owners, self._model_bytes + COEFFICIENT_BYTES
        )
        self._pushed = updates

    def collect(self, round_index: int) -> Updates:
        """What was pushed, in the order that does not depend on who pushed first."""
        assert self._pushed is not None, "collect comes after push"
        updates, self._pushed = self._pushed, None
        order = np.lexsort((updates.contributors, updates.owners))
        return updates if (np.diff(order) == 1).all() else updates.take(order)
