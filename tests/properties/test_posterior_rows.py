"""In every round posterior rows are distributions over the peers one has met and no others."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from federico.learning.client_data import ClientData
from federico.learning.optimizer_options import Adam
from federico.methods.federico import Federico
from federico.methods.method import Round

Clients = Callable[..., list[ClientData]]
Build = Callable[..., Federico]
Play = Callable[..., list[Round]]

SIZES = (7, 4, 5, 6, 3, 8)
SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "gradient": {"m_step": "gradient"},
    "paper": {"preset": "paper"},
    "sum": {"preset": "paper", "loss": "sum"},
    "accumulated": {"preset": "paper", "tracking": "accumulated", "epsilon": 1.0},
    "paper, gradient": {"preset": "paper", "m_step": "gradient"},
    "debias, cold": {"preset": "paper", "debias": True, "temperature": 0.05},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_rows_sum_to_one_over_the_peers_met_so_far(
    method: Build, blobs: Clients, play: Play, name: str
) -> None:
    federico = method("federico", blobs(SIZES), neighbors=2, **SETTINGS[name])
    met = [{i} for i in range(6)]
    for played in play(federico, 5):
        for i, (neighbors, row) in enumerate(zip(played.neighbors, played.posteriors, strict=True)):
            met[i] |= set(neighbors.tolist())
            assert row.peers.tolist() == sorted(met[i])
            assert row.weights.sum() == pytest.approx(1)
            assert (row.weights >= 0).all()


def test_a_common_shift_of_all_losses_changes_no_model(
    method: Build, blobs: Clients, play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"preset": "paper", "worse_than_guess": "tracked"}
    options |= {"sampler": "everyone", "solo_rounds": 0}
    plain, shifted = (method("federico", blobs(SIZES), **options) for _ in range(2))
    evaluate = shifted.learner.evaluate
    monkeypatch.setattr(
        shifted.learner, "evaluate", lambda bank, visits: evaluate(bank, visits) + 5
    )
    for a, b in zip(play(plain, 4), play(shifted, 4), strict=True):
        for one, other in zip(a.posteriors, b.posteriors, strict=True):
            np.testing.assert_allclose(one.weights, other.weights, rtol=1e-9)
    np.testing.assert_allclose(plain.bank.rows, shifted.bank.rows, rtol=0, atol=1e-10)


@pytest.mark.parametrize("preset", ["federico", "paper"])
def test_weight_goes_to_peers_alike(method: Build, blobs: Clients, play: Play, preset: str) -> None:
    federico = method(
        "federico",
        blobs((40,) * 6),
        preset=preset,
        sampler="everyone",
        optimizer=Adam(learning_rate=0.1),
    )
    last = play(federico, 20)[-1]
    friends = [row.weights[row.peers % 2 == i % 2].sum() for i, row in enumerate(last.posteriors)]
    assert min(friends) > 0.8
