"""FedPer (Arivazhagan et al. 2019): a shared body, a personal head."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from federico.learning.layout import ModelLayout
from federico.learning.parts import ModelPart
from federico.learning.visits import Visits
from federico.methods.method import Method, Mixtures, Needs, Round
from federico.methods.model_owners import ModelOwner, one_per_client, shared_models
from federico.options import Options


class FedPerOptions(Options):
    """Options of FedPer."""

    head: tuple[str, ...] = ()
    """Modules that stay with each client, by name; the last one that has parameters if not set."""


class FedPer(Method):
    """Each client trains a whole model; only its body is averaged, and only the body is sent."""

    name = "fedper"
    title = "FedPer"
    summary = "All clients share the body of a model; each keeps a head of its own."
    options = FedPerOptions
    opt: FedPerOptions

    @classmethod
    def models(cls, options: Any, clients: Sequence[str]) -> list[ModelOwner]:
        """A whole model for each client and one whose body is shared, all from one start."""
        personal = one_per_client(clients, same_start=True)
        return [*personal, *shared_models(clients, ["shared body"])]

    @classmethod
    def shared_part(cls, options: FedPerOptions, layout: ModelLayout) -> ModelPart:
        """The body. Where a model has nothing but a head, that is nothing: everybody is alone."""
        return ModelPart.body(layout, options.head)

    @classmethod
    def check(cls, options: FedPerOptions, clients: int, layout: ModelLayout) -> None:
        """The model must have modules of these names."""
        ModelPart.head(layout, options.head)

    @classmethod
    def memory(cls, options: Any, clients: int, rounds: int) -> Needs:
        """A model for each client and the shared body; what is sent is a copy of the deltas."""
        return Needs(models=clients + 1, updates=clients, pairs=clients, copies=clients)

    def round(self, round_index: int) -> Round:
        """Everybody trains body and head; heads stay, the body moves by sum_i (n_i / n) delta_i."""
        to_shared = self.pull(round_index, self.to_shared())
        self.take_over_body(to_shared)
        deltas = self.train(round_index, self.to_own())
        self.move_own_models(deltas, ModelPart.head(self.bank.layout, self.opt.head))
        self.push(round_index, to_shared, deltas)
        del deltas  # what was sent need not lie here while what has come is added up
        self.collect_and_average(round_index)
        return Round()

    def take_over_body(self, to_shared: Visits) -> None:
        """Every client's own model gets the body that is here now."""
        body = self.shared_part(self.opt, self.bank.layout)
        self.bank.copy_models(to_shared.owners, to_shared.clients, body)

    def predictors(self, round_index: int) -> Mixtures:
        """The shared body with the client's own head."""
        to_shared = self.read(round_index, self.to_shared()).visits
        self.take_over_body(to_shared)
        own = self.to_own()
        return Mixtures(self.bank, own, np.ones(len(own)))
