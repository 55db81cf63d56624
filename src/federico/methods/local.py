"""Training alone: what every context has to beat."""

from collections.abc import Mapping

import numpy as np

from federico.exchange.protocol import Updates
from federico.methods.method import Method, Mixtures, Round, average_into


class Local(Method):
    """Each client trains its own model on its own data; no messages."""

    name = "local"
    title = "Local"
    summary = "Every client trains alone. FedeRiCo with 0 neighbors is the same thing."

    def owners(self) -> Mapping[int, str]:
        """A model per client."""
        return dict(enumerate(self.context.names))

    def round(self, round_index: int) -> Round:
        """Local epochs at everybody's."""
        visits = self.context.to_own()
        with self.context.clock("m_step"):
            deltas = self.learner.train(
                self.bank, visits, round_index, epochs=self.context.local_epochs
            )
        with self.context.clock("update"):
            average_into(
                self.bank, Updates(visits.owners, visits.clients, np.ones(len(visits)), deltas)
            )
        return Round()

    def mixtures(self, round_index: int) -> Mixtures:
        """One's own model."""
        visits = self.context.to_own()
        return Mixtures(self.bank, visits, np.ones(len(visits)))
