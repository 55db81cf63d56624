"""What a hostile member sends to the owner of a model, instead of a move that helps it.

Hostile members know everything: the model they move, how its owner moves it itself, and what all
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
    own_move: Tensor
    """How its owner moves it in this round; the mean of the honest moves if nobody owns it."""
    honest_moves: Tensor
    """What honest members send, ordered by contributor and the owner among them, [moves, size]."""
    mimicked: Tensor
    """What the first honest member other than the owner sends."""
    computed: Tensor
    """What the hostile member has computed honestly; the owner's own move if it has not."""
    replacement: Tensor
    """A model that knows nothing."""
    strength: float
    """See `AttackOptions.strength`."""
    rng: np.random.Generator


Move = Callable[[Opportunity], Tensor]
"""What a hostile member sends when it has the opportunity, [size]."""


def own_move_backwards(chance: Opportunity) -> Tensor:
    """The owner's own move turned round, this many times as long."""
    return -chance.strength * chance.own_move


def computed_backwards(chance: Opportunity) -> Tensor:
    """What training gave, turned round."""
    return -chance.strength * chance.computed


def noise(chance: Opportunity) -> Tensor:
    """A random direction, this many times as long as the owner's own move."""
    drawn = torch.from_numpy(chance.rng.standard_normal(len(chance.own_move))).to(chance.own_move)
    length = chance.strength * float(chance.own_move.norm())
    return length * drawn / float(drawn.norm())


def a_little_is_enough(chance: Opportunity) -> Tensor:
    """The mean of the honest moves, less this many of their standard deviations."""
    spread = chance.honest_moves.std(0, unbiased=False)
    return chance.honest_moves.mean(0) - chance.strength * spread


def inner_product_manipulation(chance: Opportunity) -> Tensor:
    """The mean of the honest moves turned round, and short enough to look harmless."""
    return -chance.strength * chance.honest_moves.mean(0)


def mimic(chance: Opportunity) -> Tensor:
    """What one honest member sends, which thus counts several times."""
    return chance.mimicked


def mimic_backwards(chance: Opportunity) -> Tensor:
    """What one honest member sends, turned round: as long as an honest move, and never along it."""
    return -chance.strength * chance.mimicked


def replace_model(chance: Opportunity) -> Tensor:
    """All the way to another model."""
    return chance.replacement - chance.model


def nothing(chance: Opportunity) -> Tensor:
    """No work at all."""
    return torch.zeros_like(chance.own_move)


MOVES: dict[AttackKind, Move] = {
    "sign-flip": computed_backwards,
    "scaled-flip": own_move_backwards,
    "noise": noise,
    "alie": a_little_is_enough,
    "ipm": inner_product_manipulation,
    "mimic": mimic,
    "model-replacement": replace_model,
    "good-model-bad-moves": own_move_backwards,
    "good-model-turned-moves": mimic_backwards,
    "two-faced": mimic_backwards,
    "free-rider": nothing,
    "echo": own_move_backwards,
}
"""What members send by the kind of attack; of other kinds they send what training gives."""
