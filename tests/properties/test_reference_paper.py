"""The fast path computes what the plain loops of `federico.algorithm.reference_paper` do."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from federico.algorithm.reference_paper import Loss, PaperFederation
from federico.algorithm.reference_training import Gradient
from federico.algorithm.sampling import EpsilonGreedy
from federico.learning.client_data import ClientData
from federico.learning.optimizer_options import Adam
from federico.methods.federico import Federico
from federico.methods.federico_evidence import ROUNDING
from tests.support.linear_models import (
    cross_entropy,
    cross_entropy_gradient,
    squared_error,
    squared_error_gradient,
)

Clients = Callable[..., list[ClientData]]
Build = Callable[..., Federico]
SIZES = (9, 4, 7, 1, 10, 6)
ROUNDS = 8


OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "cold": {"momentum": 0.3, "temperature": 0.2},
    "forgetful": {"w_min": 0.1},
    "no solo round": {"solo_rounds": 0, "epsilon": 0.0},
}


@pytest.mark.parametrize("m_step", ["epochs", "gradient"])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_fast_path_and_plain_loops_agree(
    method: Build, sine: Clients, m_step: str, options: dict[str, Any]
) -> None:
    fast = method(
        "federico",
        sine(SIZES),
        preset="paper",
        neighbors=2,
        m_step=m_step,
        seed=3,
        **options,
    )
    start = fast.bank.rows.clone()
    play_both(fast, reference(fast, sine(SIZES), squared_error, squared_error_gradient))
    assert (fast.bank.rows - start).abs().min() > 0.001


@pytest.mark.parametrize("m_step", ["epochs", "gradient"])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_they_agree_on_models_worse_than_a_guess(
    method: Build, blobs: Clients, m_step: str, options: dict[str, Any]
) -> None:
    rate = Adam(
        learning_rate=0.1
    )  # so that some models get better than a guess while others are worse
    fast = method(
        "federico",
        blobs(SIZES),
        preset="paper",
        neighbors=2,
        m_step=m_step,
        seed=3,
        optimizer=rate,
        **options,
    )
    plain = reference(
        fast,
        blobs(SIZES),
        cross_entropy,
        cross_entropy_gradient,
        rate=0.1,
        guess=np.log(3) * (1 + ROUNDING),
    )
    ignored = play_both(fast, plain)
    assert 0 < np.mean(ignored) < 1


def reference(
    fast: Federico, clients: list[ClientData], loss: Loss, gradient: Gradient, **more: float
) -> PaperFederation:
    """The plain loops from where the fast path starts."""
    return PaperFederation(
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
        m_step=fast.opt.m_step,
        **more,
    )


def play_both(fast: Federico, plain: PaperFederation) -> list[float]:
    """Round by round, everything the two hold is the same.

    Returns the share of models without weight in each.
    """
    ignored = []
    for t in range(1, ROUNDS + 1):
        solo = t <= fast.opt.solo_rounds
        expected = [[] if solo else plain.sample(i, t).tolist() for i in range(6)]
        plain.round(t, solo=solo)
        played = fast.round(t)
        assert [row.tolist() for row in played.neighbors] == expected
        np.testing.assert_allclose(fast.bank.rows.numpy(), np.stack(plain.phi), rtol=0, atol=1e-10)
        for i, (row, tracker) in enumerate(
            zip(played.posteriors, fast.evidence.losses.values(), strict=True)
        ):
            assert row.peers.tolist() == sorted(plain.posterior[i])
            np.testing.assert_allclose(
                row.weights, [plain.posterior[i][j] for j in row.peers], rtol=0, atol=1e-10
            )
            np.testing.assert_allclose(
                tracker.latest, [plain.latest[i][j] for j in row.peers], rtol=0, atol=1e-10
            )
            tracked = np.array([plain.tracked[i][j] for j in row.peers])
            np.testing.assert_allclose(
                tracker.tracked[tracker.sane], tracked[tracker.sane], rtol=0, atol=1e-10
            )
        sane = np.concatenate([tracker.sane for tracker in fast.evidence.losses.values()])
        ignored.append(float(np.mean(~sane)))
    return ignored


def test_both_keep_the_same_optimizers(method: Build, sine: Clients) -> None:
    """A low threshold is crossed often: what is dropped and what is kept must agree."""
    fast = method("federico", sine(SIZES), preset="paper", neighbors=2, w_min=0.1)
    for t in range(1, ROUNDS + 1):
        fast.round(t)
    light = [
        (i, int(j))
        for i, row in fast.posteriors.items()
        for j in row.peers[row.weights < 0.1]
        if i != j
    ]
    assert light
    assert not set(light) & set(fast.learner.states.pairs)
    assert torch.isfinite(fast.bank.rows).all()
