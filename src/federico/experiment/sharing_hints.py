"""What is allowed in `training.shared`, but is probably not what somebody wants."""

from federico.experiment.config import Experiment
from federico.learning.layout import ModelLayout


def sharing_hints(experiment: Experiment, method: str, layout: ModelLayout) -> list[str]:
    """A line for each thing to look at before models of this method are exchanged."""
    training = experiment.training
    options = experiment.method_options(method)
    hints = []
    is_part = training.shared not in ("all", "trainable")
    starts_apart = getattr(options, "start", "same") == "independent"
    if is_part and starts_apart and training.pretrained is None:
        hints.append(
            f"training.shared = {training.shared!r}: every model starts at random on its own, so "
            "the part of one does not go with the rest of another; set "
            f"{method}.start = 'same', or start from pretrained weights"
        )
    if training.shared == "all" and layout.holds_frozen_parameters:
        hints.append(
            "training.shared = 'all': some parameters of the model are frozen, and are sent and "
            "held for every model all the same; set training.shared = 'trainable', which leaves "
            "them out"
        )
    return hints
