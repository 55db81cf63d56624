"""Federated averaging (McMahan et al. 2017): one model for everybody."""

from collections.abc import Sequence
from typing import Any

from federico.methods.method import Method, Mixtures, Round
from federico.methods.model_owners import ModelOwner, shared_models


class FedAvg(Method):
    """Everyone trains the global model, which moves by the average of the deltas."""

    name = "fedavg"
    title = "FedAvg"
    summary = "One global model, averaged over all clients every round."

    @classmethod
    def models(cls, options: Any, clients: Sequence[str]) -> list[ModelOwner]:
        """The global model alone."""
        return shared_models(clients, ["global"])

    @classmethod
    def is_accountable(cls, options: Any) -> bool:
        """Others see nothing but models that were trained."""
        return True

    def round(self, round_index: int) -> Round:
        """The global model moves by sum_i (n_i / n) delta_i."""
        visits = self.pull(round_index, self.to_shared())
        self.train_and_push(round_index, visits)
        self.collect_and_average(round_index)
        return Round()

    def predictors(self, round_index: int) -> Mixtures:
        """The global model, for everybody."""
        return self.read(round_index, self.to_shared())
