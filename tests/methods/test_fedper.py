from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from federico.errors import ConfigError
from federico.learning.client_data import ClientData
from federico.learning.optimizer_options import SGD
from federico.methods.method import Method

Build = Callable[..., Method]
Clients = Callable[..., list[ClientData]]


def body_and_head() -> nn.Module:
    """y = head * body * x, both 1."""
    model = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False))
    for parameter in model.parameters():
        nn.init.ones_(parameter)
    return model


def models_of(fedper: Method, round_index: int) -> torch.Tensor:
    """What each client predicts with, whole."""
    mixtures = fedper.predictors(round_index)
    return torch.stack(list(mixtures.bank.whole(mixtures.visits)))


@pytest.fixture
def two(method: Build) -> Method:
    """One client with y = 2 at x = 1, and another with three times the data and y = 3."""
    clients = []
    for name, y, count in (("a", 2.0, 1), ("b", 3.0, 3)):
        part = (np.ones((count, 1)), np.full((count, 1), y))
        clients.append(ClientData(name, part, part))
    sgd = SGD(learning_rate=0.1)
    return method("fedper", clients, model=body_and_head, optimizer=sgd, batch_size=9)


def test_a_round_by_hand(two: Method) -> None:
    two.round(1)
    # Errors -1 and -2 move body and head by -0.1 * 2 * error: 0.2 and 0.4 each.
    # Heads stay; the body moves by (1 * 0.2 + 3 * 0.4) / 4.
    np.testing.assert_allclose(models_of(two, 1), [[1.35, 1.2], [1.35, 1.4]], rtol=1e-12)

    two.round(2)
    # Errors 1.35 * 1.2 - 2 and 1.35 * 1.4 - 3, each from the shared body and the own head.
    errors = np.array([1.35 * 1.2 - 2, 1.35 * 1.4 - 3])
    heads = np.array([1.2, 1.4])
    body = 1.35 - 0.2 * (errors * heads) @ [0.25, 0.75]
    expected = np.stack([[body, body], heads - 0.2 * errors * 1.35], axis=1)
    np.testing.assert_allclose(models_of(two, 2), expected, rtol=1e-12)


def test_only_the_body_is_carried_and_counted(two: Method) -> None:
    two.round(1)
    two.predictors(1)
    counted = two.exchange.traffic.take()
    body = 8
    assert counted["training"].sent.tolist() == [body + 8, body + 8, 2 * body]
    assert counted["training"].received.tolist() == [body, body, 2 * (body + 8)]
    assert counted["evaluation"].received.tolist() == [body, body, 0]


def test_a_model_that_is_all_head_is_trained_alone(method: Build, blobs: Clients) -> None:
    clients = blobs((9, 3, 4))
    fedper = method("fedper", clients)
    local = method("local", clients)
    local.bank.rows.copy_(models_of(fedper, 0))
    for round_index in (1, 2):
        fedper.round(round_index)
        local.round(round_index)
    torch.testing.assert_close(models_of(fedper, 2), local.bank.rows, rtol=0, atol=1e-15)


def test_the_head_can_be_named(method: Build, blobs: Clients) -> None:
    deep = {"hidden": (6, 5)}  # modules 1, 3 and 5
    fedper = method("fedper", blobs((9, 3, 4)), head=("3", "5"), **deep)
    fedper.round(1)
    received = fedper.exchange.traffic.take()["training"].received
    assert received[0] == (4 * 6 + 6) * 8
    with pytest.raises(ConfigError, match="no part of it is called 'classifier'"):
        method("fedper", blobs((9, 3, 4)), head=("classifier",), **deep)


def test_statistics_of_the_body_are_shared(
    method: Build, blobs: Clients, batch_norm_net: type[nn.Module]
) -> None:
    fedper = method("fedper", blobs((8, 4)), model=batch_norm_net)
    layout = fedper.bank.layout
    fedper.round(1)
    rows = models_of(fedper, 1)
    assert torch.equal(rows[0, layout.parameters :], rows[1, layout.parameters :])
    assert not torch.equal(rows[0, : layout.parameters], rows[1, : layout.parameters])
