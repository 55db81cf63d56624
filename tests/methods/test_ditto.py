from collections.abc import Callable

import numpy as np
import torch

from federico.learning.client_data import ClientData
from federico.methods.method import Method

Build = Callable[..., Method]
Clients = Callable[..., list[ClientData]]


def test_two_rounds_by_hand(lines: Build) -> None:
    """One client wants w + b = 2, another with three times the data w + b = 4."""
    ditto = lines("ditto", [[(1.0, 2.0)], [(1.0, 4.0)] * 3], rate=0.25, strength=0.4)
    ditto.round(1)
    # Errors -2 and -4: a step of -2 * 0.25 * error each way. All models start at (0, 0): no pull.
    assert ditto.bank.rows.tolist() == [[1, 1], [2, 2], [1.75, 1.75]]

    ditto.round(2)
    # Both personal models fit, so only the pull of 0.4 * (v - 1.75) moves them, by -0.25 of it.
    # The global errors are 1.5 and -0.5: steps of -0.75 and 0.25, which cancel as 1 to 3.
    expected = [[1.075, 1.075], [1.975, 1.975], [1.75, 1.75]]
    np.testing.assert_allclose(ditto.bank.rows, expected, rtol=1e-12)


def test_without_a_pull_personal_models_train_alone_beside_fedavg(
    method: Build, blobs: Clients
) -> None:
    clients = blobs((9, 3, 4))
    ditto = method("ditto", clients, strength=0.0)
    local = method("local", clients)
    fedavg = method("fedavg", clients)
    local.bank.rows.copy_(ditto.bank.rows[:3])
    for round_index in (1, 2, 3):
        for played in (ditto, local, fedavg):
            played.round(round_index)
    # Adam's moments are not shared, or one of the two would have moved the other.
    assert torch.equal(ditto.bank.rows[:3], local.bank.rows)
    assert torch.equal(ditto.bank.rows[3:], fedavg.bank.rows)


def test_a_strong_pull_holds_personal_models_at_the_global_one(
    method: Build, blobs: Clients
) -> None:
    spread = []
    for strength in (0.0, 50.0):
        ditto = method("ditto", blobs((9, 3, 4)), strength=strength)
        for round_index in range(1, 6):
            ditto.round(round_index)
        spread.append(float((ditto.bank.rows[:3] - ditto.bank.rows[3]).norm()))
    assert spread[1] < 0.6 * spread[0]


def test_only_the_global_model_travels_and_everybody_predicts_with_its_own(
    method: Build, blobs: Clients
) -> None:
    ditto = method("ditto", blobs((9, 3, 4)))
    ditto.round(1)
    mixtures = ditto.predictors(1)
    counted = ditto.exchange.traffic.take()
    model = 15 * 8
    assert counted["training"].received.tolist() == [model] * 3 + [3 * (model + 8)]
    assert counted["evaluation"].moved == 0
    assert mixtures.visits.pairs == [(0, 0), (1, 1), (2, 2)]
