from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from federico.learning.client_data import ClientData
from federico.methods.method import Method

Build = Callable[..., Method]
Clients = Callable[..., list[ClientData]]
POINTS = [[(1, 0.5)], [(1, 2.5)] * 3, [(1, 1.6)]]
MODELS = torch.tensor([[0.0, 0.0], [1.0, 1.0], [9.0, 9.0]], dtype=torch.float64)
"""At x = 1 they give 0, 2 and 18."""


@pytest.fixture
def three(lines: Build) -> Method:
    ifca = lines("ifca", POINTS, rate=0.25, clusters=3)
    ifca.bank.rows.copy_(MODELS)
    return ifca


def test_a_round_by_hand(three: Method) -> None:
    played = three.round(1)
    # The first client picks the first model, the others the second, nobody the third.
    assert [row.peers.tolist() for row in played.posteriors] == [[3], [4], [4]]
    assert [row.weights.tolist() for row in played.posteriors] == [[1.0]] * 3
    # Errors -0.5, -0.5 and 0.4 move w and b by -0.5 times that: 0.25, 0.25 and -0.2.
    second = 1 + (3 * 0.25 - 0.2) / 4
    expected = [[0.25, 0.25], [second, second], [9, 9]]
    np.testing.assert_allclose(three.bank.rows, expected, rtol=1e-12)


def test_a_client_predicts_with_the_model_that_fits_its_training_data_now(three: Method) -> None:
    assert three.predictors(0).visits.pairs == [(0, 3), (1, 4), (2, 4)]
    three.bank.rows[2] = 0.26
    assert three.predictors(1).visits.pairs == [(0, 5), (1, 4), (2, 4)]


def test_test_data_does_not_choose(method: Build, blobs: Clients) -> None:
    clients = blobs((9, 3, 4))
    swapped = [replace(client, test=(client.test[0][::-1], client.test[1])) for client in clients]
    picked = []
    for people in (clients, swapped):
        ifca = method("ifca", people)
        ifca.round(1)
        picked.append(ifca.predictors(1).visits.pairs)
    assert picked[0] == picked[1]


def test_all_models_are_pulled_and_one_is_pushed(three: Method) -> None:
    three.round(1)
    counted = three.exchange.traffic.take()["training"]
    model = 2 * 8
    assert counted.received[:3].tolist() == [3 * model] * 3
    assert counted.sent[:3].tolist() == [model + 8] * 3


def test_models_start_apart(method: Build, blobs: Clients) -> None:
    assert len(method("ifca", blobs((9, 3, 4))).bank.rows.unique(dim=0)) == 4


def test_with_one_cluster_it_is_fedavg(method: Build, blobs: Clients) -> None:
    clients = blobs((9, 3, 4))
    ifca = method("ifca", clients, clusters=1)
    fedavg = method("fedavg", clients)
    for round_index in (1, 2, 3):
        ifca.round(round_index)
        fedavg.round(round_index)
    assert torch.equal(ifca.bank.rows, fedavg.bank.rows)


def test_a_model_that_gives_no_numbers_is_not_picked(three: Method) -> None:
    three.bank.rows[1] = torch.nan
    played = three.round(1)
    assert [row.peers.tolist() for row in played.posteriors] == [[3], [3], [3]]
