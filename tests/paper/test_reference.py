"""The fast path computes the plain loops of `federico.algorithm.reference`: here on the sine problem."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from federico.algorithm.reference import Federation as Reference
from federico.algorithm.sampling import EpsilonGreedy
from federico.learning.learner import ClientData
from federico.methods.federico import Federico
from federico.types import FloatArray

Clients = Callable[..., list[ClientData]]
Build = Callable[..., Federico]
SIZES = (9, 4, 7, 1, 10, 6)
ROUNDS = 8


def loss(phi: FloatArray, x: FloatArray, y: FloatArray) -> float:
    """Mean squared error of the line phi[0] * x + phi[1]."""
    return float(np.mean((phi[0] * x + phi[1] - y) ** 2))


def gradient(phi: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
    error = phi[0] * x + phi[1] - y
    return np.array([np.mean(2 * error * x), np.mean(2 * error)])


@pytest.mark.parametrize("m_step", ["epochs", "gradient"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"momentum": 0.3, "temperature": 0.2},
        {"w_min": 0.1},
        {"solo_rounds": 0, "epsilon": 0.0},
    ],
    ids=["default", "cold", "forgetful", "no solo round"],
)
def test_fast_path_and_plain_loops_agree(method: Build, sine: Clients, m_step: str, options: dict[str, Any]) -> None:
    clients = sine(SIZES)
    fast = method("federico", clients, neighbors=2, m_step=m_step, seed=3, **options)
    plain = Reference(
        x=[client.train[0] for client in clients],
        y=[client.train[1] for client in clients],
        phi=[row.numpy().copy() for row in fast.bank.rows],
        loss=loss,
        gradient=gradient,
        sampler=EpsilonGreedy(2, fast.opt.epsilon),
        names=[client.name for client in clients],
        seed=3,
        momentum=fast.opt.momentum,
        temperature=fast.opt.temperature,
        batch_size=4,
        w_min=fast.opt.w_min,
        m_step=m_step,
    )
    start = fast.bank.rows.clone()
    for t in range(1, ROUNDS + 1):
        solo = t <= fast.opt.solo_rounds
        expected = [[] if solo else plain.sample(i, t).tolist() for i in range(6)]
        plain.round(t, solo=solo)
        played = fast.round(t)
        assert [row.tolist() for row in played.neighbors] == expected
        np.testing.assert_allclose(fast.bank.rows.numpy(), np.stack(plain.phi), rtol=0, atol=1e-10)
        for i, (row, tracker) in enumerate(zip(played.posteriors, fast.trackers.values(), strict=True)):
            assert row.peers.tolist() == sorted(plain.w[i])
            np.testing.assert_allclose(row.weights, [plain.w[i][j] for j in row.peers], rtol=0, atol=1e-10)
            np.testing.assert_allclose(tracker.tracked, [plain.L[i][j] for j in row.peers], rtol=0, atol=1e-10)
            np.testing.assert_allclose(tracker.latest, [plain.ell[i][j] for j in row.peers], rtol=0, atol=1e-10)
    assert (fast.bank.rows - start).abs().min() > 0.001


def test_both_keep_the_same_optimizers(method: Build, sine: Clients) -> None:
    """A low threshold is crossed often: what is dropped and what is kept must agree, or later moves would not."""
    fast = method("federico", sine(SIZES), neighbors=2, w_min=0.1)
    for t in range(1, ROUNDS + 1):
        fast.round(t)
    light = [(i, int(j)) for i, row in fast.posteriors.items() for j in row.peers[row.weights < 0.1] if i != j]
    assert light
    assert not set(light) & set(fast.learner.states.pairs)
    assert torch.isfinite(fast.bank.rows).all()
