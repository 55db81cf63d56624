"""Training alone: what every method has to beat."""

import numpy as np

from federico.exchange.protocol import Updates
from federico.learning.rows import Rows
from federico.methods.averaging import average_into
from federico.methods.context import timed
from federico.methods.method import Method, Mixtures, Round


class Local(Method):
    """Each client trains its own model on its own data; no messages."""

    name = "local"
    title = "Local"
    summary = "Every client trains alone. FedeRiCo with 0 neighbors is the same thing."

    def round(self, round_index: int) -> Round:
        """Local epochs of every client on its own model."""
        deltas = self.train(round_index, self.to_own())
        self.move_own_models(deltas)
        return Round()

    def predictors(self, round_index: int) -> Mixtures:
        """Every client's own model."""
        return self.read(round_index, self.to_own())

    @timed("update")
    def move_own_models(self, deltas: Rows) -> None:
        """Add each client's delta to its own model, unless it is not finite."""
        own = self.to_own()
        updates = Updates(own.owners, own.clients, np.ones(len(own)), deltas)
        average_into(self.bank, updates)
