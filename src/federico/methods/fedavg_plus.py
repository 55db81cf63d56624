"""FedAvg with local tuning (Jiang et al. 2019)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from pydantic import PositiveInt

from federico.learning.bank import Bank
from federico.methods.fedavg import FedAvg
from federico.methods.method import Mixtures, Needs
from federico.options import Options


class FedAvgPlusOptions(Options):
    """Options of FedAvg+."""

    tune_epochs: PositiveInt = 1
    """Local epochs that tune a client's copy of the global model before it predicts."""


class FedAvgPlus(FedAvg):
    """FedAvg; before predicting, each client tunes a copy of the global model and throws it away afterwards."""

    name = "fedavg_plus"
    title = "FedAvg+"
    summary = (
        "FedAvg, with a copy of the global model tuned on the client's own data before it predicts."
    )
    options = FedAvgPlusOptions
    opt: FedAvgPlusOptions

    @classmethod
    def needs(
        cls, options: Any, clients: int, distribution: Sequence[int] | None, rounds: int
    ) -> Needs:
        """As FedAvg, and a tuned copy per client."""
        return Needs(1, clients, clients, fresh=clients)

    def mixtures(self, round_index: int) -> Mixtures:
        """Tuned copies, with a fresh optimizer; the global model stays as it is."""
        epochs, visits = self.opt.tune_epochs, self.to_global()
        self.exchange.read_models(round_index, visits)
        moved = self.learner.train(self.bank, visits, round_index, epochs=epochs, fresh=True)
        for row, place in zip(moved, self.bank.places(visits.owners).tolist(), strict=True):
            row.add_(self.bank.rows[place])
        return Mixtures(
            Bank(self.bank.layout, visits.clients, moved.as_tensor()),
            self.context.to_own(),
            np.ones(len(visits)),
        )
