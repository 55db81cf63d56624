from collections.abc import Callable

import numpy as np
import torch

from federico.learning.client_data import ClientData
from federico.learning.visits import Visits
from federico.methods.method import Method

Clients = Callable[..., list[ClientData]]


def test_a_round_is_local_epochs_on_own_data(method: Callable[..., Method], blobs: Clients) -> None:
    local, twin = (method("local", blobs((7, 4, 5)), local_epochs=2) for _ in range(2))
    for round_index in (1, 2):
        local.round(round_index)
        twin.bank.rows += twin.learner.train(
            twin.bank, Visits.to_own(np.arange(3)), round_index, epochs=2
        ).as_tensor()
    torch.testing.assert_close(local.bank.rows, twin.bank.rows, rtol=0, atol=0)


def test_nobody_else_matters(method: Callable[..., Method], blobs: Clients) -> None:
    clients = blobs((7, 4, 5))
    together, alone = method("local", clients), method("local", clients[1:2])
    for round_index in (1, 2):
        together.round(round_index)
        alone.round(round_index)
    torch.testing.assert_close(together.bank.rows[1], alone.bank.rows[0], rtol=0, atol=1e-12)


def test_sends_nothing_and_predicts_with_the_own_model(
    method: Callable[..., Method], blobs: Clients
) -> None:
    local = method("local", blobs((7, 4, 5)))
    local.round(1)
    assert local.exchange.traffic.take()["training"].moved == 0
    mixtures = local.predictors(1)
    assert mixtures.visits.pairs == [(0, 0), (1, 1), (2, 2)]
    assert mixtures.bank is local.bank
    assert np.array_equal(mixtures.weights, np.ones(3))
