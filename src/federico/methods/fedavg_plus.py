"""FedAvg with local tuning (Jiang et al. 2019)."""

from typing import Any

import numpy as np
from pydantic import PositiveInt

from federico.methods.fedavg import FedAvg
from federico.methods.method import Mixtures, Needs
from federico.options import Options


class FedAvgPlusOptions(Options):
    """Options of FedAvg+."""

    tune_epochs: PositiveInt = 1
    """Local epochs that tune a client's copy of the global model before it predicts."""


class FedAvgPlus(FedAvg):
    """FedAvg; to predict, each client tunes a copy of the global model and throws it away after."""

    name = "fedavg_plus"
    title = "FedAvg+"
    summary = (
        "FedAvg, with a copy of the global model tuned on the client's own data before it predicts."
    )
    options = FedAvgPlusOptions
    opt: FedAvgPlusOptions

    @classmethod
    def memory(cls, options: Any, clients: int, rounds: int) -> Needs:
        """As FedAvg, and a tuned copy for each client."""
        return Needs(models=1, updates=clients, pairs=clients, fresh=clients)

    def predictors(self, round_index: int) -> Mixtures:
        """Tuned copies, with a fresh optimizer; the global model stays as it is."""
        visits = self.read(round_index, self.to_shared()).visits
        epochs = self.opt.tune_epochs
        with self.bank.parts_put_back() as parts:
            deltas = self.learner.train(self.bank, visits, round_index, epochs=epochs, fresh=True)
            tuned_parts = None if parts is None else parts.as_own(visits)

        # The deltas become the tuned models in place: nothing of them is sent.
        tuned = deltas.as_tensor()
        for row, place in zip(tuned, self.bank.places(visits.owners).tolist(), strict=True):
            row.add_(self.bank.rows[place])
        copies = self.bank.beside(visits.clients, tuned, tuned_parts)
        return Mixtures(copies, self.to_own(), np.ones(len(visits)))
