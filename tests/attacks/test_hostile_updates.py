"""What hostile members send, checked against the formulas of the literature."""

import numpy as np
import pytest
import torch

from federico.attacks.hostile_updates import HOSTILE_DELTAS, Opportunity
from federico.attacks.options import AttackKind
from federico.rng import stream

OWN = torch.tensor([3.0, 4.0])
HONEST = torch.tensor([[3.0, 4.0], [1.0, 0.0], [2.0, 2.0]])


def sent(kind: AttackKind, strength: float = 2.0) -> list[float]:
    chance = Opportunity(
        model=torch.tensor([1.0, 1.0]),
        own_delta=OWN,
        honest_deltas=HONEST,
        mimicked=HONEST[1],
        computed=torch.tensor([5.0, -1.0]),
        replacement=torch.tensor([0.0, 7.0]),
        strength=strength,
        rng=stream(0, "test"),
    )
    numbers: list[float] = HOSTILE_DELTAS[kind](chance).tolist()
    return numbers


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        ("sign-flip", [-10.0, 2.0]),
        ("scaled-flip", [-6.0, -8.0]),
        ("good-model-bad-moves", [-6.0, -8.0]),
        ("good-model-turned-moves", [-2.0, 0.0]),
        ("two-faced", [-2.0, 0.0]),
        ("echo", [-6.0, -8.0]),
        ("ipm", [-4.0, -4.0]),
        ("mimic", [1.0, 0.0]),
        ("model-replacement", [-1.0, 6.0]),
        ("free-rider", [0.0, 0.0]),
    ],
)
def test_updates_follow_their_formulas(kind: AttackKind, wanted: list[float]) -> None:
    assert sent(kind) == pytest.approx(wanted)


def test_a_little_is_enough_stays_within_the_honest_spread() -> None:
    spread = HONEST.numpy().std(axis=0)
    assert sent("alie", 1.5) == pytest.approx((HONEST.numpy().mean(0) - 1.5 * spread).tolist())


def test_noise_is_as_long_as_asked_for_and_the_same_again() -> None:
    assert np.linalg.norm(sent("noise", 2.0)) == pytest.approx(10.0)
    assert sent("noise") == sent("noise")
