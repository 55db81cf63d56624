"""What a hostile member sends to the owner of a model, instead of an update that helps it.

Hostile members know everything: the models, what each owner computes for its own, and what all
honest members send. So they are as strong as attackers can be who keep to the protocol.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from federico.attacks.options import AttackKind

OF_THEIR_OWN_MODEL_TOO = ("sign-flip", "scaled-flip", "noise")
"""Kinds that move the hostile member's own model in the same way: it serves a bad one."""


@dataclass(frozen=True)
class Opportunity:
    """What a hostile member knows about a model that it is going to move, and can make use of."""

    model: Tensor
    """The model itself, [size]."""
    own_delta: Tensor
    """How its owner moves it in this round; the mean of the honest deltas if nobody owns it."""
    honest_deltas: Tensor
    """What honest members send, the owner too, ordered by contributor, [updates, size]."""
    mimicked: Tensor
    """What the first honest member other than the owner sends."""
    computed: Tensor
    """What the hostile member has computed honestly; the owner's own update if it has not."""
    replacement: Tensor
    """A model that knows nothing."""
    strength: float
    """See `AttackOptions.strength`."""
    rng: np.random.Generator


HostileDelta = Callable[[Opportunity], Tensor]
"""The delta that a hostile member sends when it has the opportunity, [size]."""


def own_delta_backwards(chance: Opportunity) -> Tensor:
    """The owner's own update turned round, this many times as long."""
    return -chance.strength * chance.own_delta


def computed_backwards(chance: Opportunity) -> Tensor:
    """What training gave, turned round."""
    return -chance.strength * chance.computed


def noise(chance: Opportunity) -> Tensor:
    """A random direction, this many times as long as the owner's own update."""
    drawn = torch.from_numpy(chance.rng.standard_normal(len(chance.own_delta))).to(chance.own_delta)
    length = chance.strength * float(chance.own_delta.norm())
    return length * drawn / float(drawn.norm())


def a_little_is_enough(chance: Opportunity) -> Tensor:
    """The mean of the honest updates, less this many of their standard deviations."""
    spread = chance.honest_deltas.std(0, unbiased=False)
    return chance.honest_deltas.mean(0) - chance.strength * spread


def inner_product_manipulation(chance: Opportunity) -> Tensor:
    """The mean of the honest updates turned round, and short enough to look harmless."""
    return -chance.strength * chance.honest_deltas.mean(0)


def mimic(chance: Opportunity) -> Tensor:
    """What one honest member sends, which thus counts several times."""
    return chance.mimicked


def mimic_backwards(chance: Opportunity) -> Tensor:
    """What one honest member sends, turned round: as long as its update, and never along it."""
    return -chance.strength * chance.mimicked


def replace_model(chance: Opportunity) -> Tensor:
    """All the way to another model."""
    return chance.replacement - chance.model


def nothing(chance: Opportunity) -> Tensor:
    """No work at all."""
    return torch.zeros_like(chance.own_delta)


HOSTILE_DELTAS: dict[AttackKind, HostileDelta] = {
    "sign-flip": computed_backwards,
    "scaled-flip": own_delta_backwards,
    "noise": noise,
    "alie": a_little_is_enough,
    "ipm": inner_product_manipulation,
    "mimic": mimic,
    "model-replacement": replace_model,
    "good-model-bad-moves": own_delta_backwards,
    "good-model-turned-moves": mimic_backwards,
    "two-faced": mimic_backwards,
    "free-rider": nothing,
    "echo": own_delta_backwards,
    "echo-disguised": own_delta_backwards,
}
"""What members send by the kind of attack; of other kinds they send what training gives."""
