from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from federico.learning.bank import Bank
from federico.learning.client_data import ClientData
from federico.learning.visits import Visits
from federico.methods.method import Method

Clients = Callable[..., list[ClientData]]
SIZES = (9, 3, 4)


def test_the_global_model_moves_by_the_average_weighted_by_data(
    method: Callable[..., Method], blobs: Clients
) -> None:
    fedavg, twin = (method("fedavg", blobs(SIZES), local_epochs=2) for _ in range(2))
    to_global = Visits.of([(0, 3), (1, 3), (2, 3)])
    for round_index in (1, 2, 3):
        fedavg.round(round_index)
        deltas = twin.learner.train(twin.bank, to_global, round_index, epochs=2).as_tensor()
        twin.bank.rows += sum(n / 16 * delta for n, delta in zip(SIZES, deltas, strict=True))
    torch.testing.assert_close(fedavg.bank.rows, twin.bank.rows, rtol=0, atol=1e-12)
    assert fedavg.learner.states.pairs == to_global.pairs, "each client keeps its own optimizer"


def test_there_is_one_model_that_no_client_owns(
    method: Callable[..., Method], blobs: Clients
) -> None:
    fedavg = method("fedavg", blobs(SIZES), seed=4)
    assert fedavg.bank.owners.tolist() == [3]
    expected = Bank.start(fedavg.learner.layout, 4, {3: "*global"}, torch.device("cpu"))
    assert torch.equal(fedavg.bank.rows, expected.rows)


def test_everybody_predicts_with_it(method: Callable[..., Method], blobs: Clients) -> None:
    mixtures = method("fedavg", blobs(SIZES)).predictors(0)
    assert mixtures.visits.pairs == [(0, 3), (1, 3), (2, 3)]
    assert np.array_equal(mixtures.weights, np.ones(3))


def test_statistics_are_averaged_with_the_parameters(
    method: Callable[..., Method], blobs: Clients, batch_norm_net: type[nn.Module]
) -> None:
    fedavg, twin = (method("fedavg", blobs((8, 4)), model=batch_norm_net) for _ in range(2))
    fedavg.round(1)
    deltas = twin.learner.train(twin.bank, Visits.of([(0, 2), (1, 2)]), 1).as_tensor()
    torch.testing.assert_close(
        fedavg.bank.rows[0] - twin.bank.rows[0], (2 * deltas[0] + deltas[1]) / 3
    )
    assert fedavg.bank.counters.tolist() == [[0]], "no client owns the global counter"


def test_each_client_pulls_and_pushes_one_model_a_round(
    method: Callable[..., Method], blobs: Clients
) -> None:
    fedavg = method("fedavg", blobs(SIZES))
    fedavg.round(1)
    counted = fedavg.exchange.traffic.take()["training"]
    sent, received = counted.sent, counted.received
    model = 15 * 8
    assert sent.tolist() == [model + 8] * 3 + [3 * model]
    assert received.tolist() == [model] * 3 + [3 * (model + 8)]
