"""FedPer (Arivazhagan et al. 2019): a shared body, a personal head."""

from federico.learning.layout import ModelLayout
from federico.learning.parts import ModelPart
from federico.methods.fedavg import FedAvg
from federico.options import Options


class FedPerOptions(Options):
    """Options of FedPer."""

    head: tuple[str, ...] = ()
    """Modules that stay with each client, by name; the last one that has parameters if not set."""


class FedPer(FedAvg):
    """FedAvg of bodies: each client trains a whole model, and its head stays with it."""

    name = "fedper"
    title = "FedPer"
    summary = "All clients share the body of a model; each keeps a head of its own."
    options = FedPerOptions
    opt: FedPerOptions

    @classmethod
    def shared_part(cls, options: FedPerOptions, layout: ModelLayout) -> ModelPart:
        """The body. Where a model has nothing but a head, that is nothing: everybody is alone."""
        return ModelPart.body(layout, options.head)

    @classmethod
    def check(cls, options: FedPerOptions, clients: int, layout: ModelLayout) -> None:
        """The model must have modules of these names."""
        ModelPart.head(layout, options.head)
