"""All peers in one process: every model is there already, so messages are only counted."""

import numpy as np

from federico.exchange.protocol import COEFFICIENT_BYTES, Traffic, Updates, without_withheld
from federico.learning.bank import Bank
from federico.learning.visits import Visits
from federico.types import IntArray


class SimulatedExchange:
    """The exchange of a simulation in one process."""

    def __init__(self, bank: Bank, participants: int) -> None:
        """`participants`: the clients, and whatever else owns a model."""
        self.traffic = Traffic(participants)
        self._model_bytes = bank.row_layout.size * bank.rows.element_size()
        self._pushed: Updates | None = None
        self._withheld: IntArray = np.empty(0, np.int64)

    def withhold(self, owners: IntArray) -> None:
        """See `Exchange.withhold`."""
        self._withheld = owners

    def pull(self, round_index: int, wanted: Visits) -> Visits:
        """Every model is here already: only count what it would cost on a wire."""
        wanted = without_withheld(wanted, self._withheld)
        self.traffic.count(wanted.owners, wanted.clients, self._model_bytes)
        return wanted

    def read_models(self, round_index: int, visits: Visits) -> Visits:
        """Every model is here already: only count what it would cost on a wire."""
        visits = without_withheld(visits, self._withheld)
        self.traffic.count(visits.owners, visits.clients, self._model_bytes, "evaluation")
        return visits

    def push(self, round_index: int, updates: Updates) -> None:
        """Hold the updates until they are collected."""
        size = self._model_bytes + COEFFICIENT_BYTES
        self.traffic.count(updates.contributors, updates.owners, size)
        self._pushed = updates

    def collect(self, round_index: int) -> Updates:
        """What was pushed, in the order that does not depend on who pushed first."""
        assert self._pushed is not None, "collect comes after push"
        updates = self._pushed
        self._pushed = None

        order = np.lexsort((updates.contributors, updates.owners))
        is_in_order = (np.diff(order) == 1).all()
        return updates if is_in_order else updates.take(order)
