"""Ditto (Li et al. 2021): a personal model for each client, held near a global one."""

from collections.abc import Sequence
from typing import Any

from pydantic import NonNegativeFloat

from federico.learning.local_training import Proximal
from federico.methods.method import Method, Mixtures, Needs, Round
from federico.methods.model_owners import ModelOwner, one_per_client, shared_models
from federico.options import Options


class DittoOptions(Options):
    """Options of Ditto."""

    strength: NonNegativeFloat = 0.1
    """lambda: how strongly a personal model is pulled to the global one; 0 is training alone."""


class Ditto(Method):
    """FedAvg, beside which every client trains a model of its own that is pulled to the global one.

    The two are trained apart: each has an optimizer of its own, as the pair (client, model).
    """

    name = "ditto"
    title = "Ditto"
    summary = "Each client trains a model of its own, pulled towards FedAvg's global model."
    options = DittoOptions
    opt: DittoOptions

    @classmethod
    def models(cls, options: Any, clients: Sequence[str]) -> list[ModelOwner]:
        """A model for each client and the global one, all from one start."""
        personal = one_per_client(clients, same_start=True)
        return [*personal, *shared_models(clients, ["global"])]

    @classmethod
    def memory(cls, options: Any, clients: int, rounds: int) -> Needs:
        """Every client trains its own model, then the global one."""
        return Needs(models=clients + 1, updates=clients, pairs=2 * clients)

    def round(self, round_index: int) -> Round:
        """v_i follows grad f_i(v_i) + lambda (v_i - w); w moves as in FedAvg.

        Both use w as it was when the round started.
        """
        to_global = self.pull(round_index, self.to_shared())
        self.train_personal_models(round_index)
        self.train_and_push(round_index, to_global)
        self.collect_and_average(round_index)
        return Round()

    def train_personal_models(self, round_index: int) -> None:
        """Local epochs of every client on its own model, pulled to the global one."""
        own = self.to_own()
        place = self.bank.places(self.shared_owners)
        global_row = self.bank.rows[place]  # [1, size]
        towards = global_row.expand(len(own), -1)  # [hosted clients, size], no copies

        proximal = Proximal(self.opt.strength, towards)
        deltas = self.train(round_index, own, proximal=proximal)
        self.move_own_models(deltas)

    def predictors(self, round_index: int) -> Mixtures:
        """Every client's own model."""
        return self.read(round_index, self.to_own())
