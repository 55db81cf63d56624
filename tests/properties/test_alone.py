"""Without neighbors, FedeRiCo is training alone, bit for bit."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from federico.experiment.evaluation import evaluate
from federico.learning.client_data import ClientData
from federico.methods.method import Method, Round

Clients = Callable[..., list[ClientData]]
Build = Callable[..., Method]
Play = Callable[..., list[Round]]


@pytest.mark.parametrize("sizes", [(7, 1, 5, 8), (6,)], ids=["four", "one"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("epochs", [1, 2])
def test_no_neighbors_equals_local(
    method: Build,
    blobs: Clients,
    play: Play,
    sizes: tuple[int, ...],
    dtype: torch.dtype,
    epochs: int,
) -> None:
    shape = {"hidden": (6,), "dtype": dtype, "local_epochs": epochs}
    alone = method("federico", blobs(sizes), neighbors=0, **shape)
    local = method("local", blobs(sizes), **shape)
    start = alone.bank.rows.clone()
    play(alone, 5)
    play(local, 5)
    assert torch.equal(alone.bank.rows, local.bank.rows)
    assert not torch.equal(alone.bank.rows, start)
    for key, value in local.learner.states.state().items():
        assert torch.equal(alone.learner.states.state()[key], value)


def test_both_predict_alike_and_send_nothing(method: Build, blobs: Clients, play: Play) -> None:
    scores = []
    for name, options in (("federico", {"neighbors": 0}), ("local", {})):
        played = method(name, blobs((7, 4, 5)), **options)
        play(played, 3)
        assert played.exchange.traffic.take()["training"].moved == 0
        scores.append(evaluate(played, played.predictors(3)).used.figures["loss"])
    assert np.array_equal(*scores)


def test_with_neighbors_it_is_something_else(method: Build, blobs: Clients, play: Play) -> None:
    together, local = (
        method("federico", blobs((7, 4, 5)), neighbors=1),
        method("local", blobs((7, 4, 5))),
    )
    play(together, 3)
    play(local, 3)
    assert not torch.allclose(together.bank.rows[:3], local.bank.rows)


class DropoutNet(nn.Sequential):
    """A small model whose training draws random numbers."""

    def __init__(self) -> None:
        super().__init__(nn.Linear(4, 6), nn.Dropout(0.5), nn.Linear(6, 3))


@pytest.mark.parametrize("epochs", [1, 2])
@pytest.mark.parametrize("kind", ["perceptron", "dropout", "batch norm", "counted batch norm"])
def test_the_private_model_is_that_of_training_alone(
    method: Build,
    blobs: Clients,
    play: Play,
    batch_norm_net: type[nn.Module],
    kind: str,
    epochs: int,
) -> None:
    """Bit for bit, while models are judged and after that, whoever its owner's collaborators."""
    models = {
        "perceptron": None,
        "dropout": DropoutNet,
        "batch norm": batch_norm_net,
        "counted batch norm": lambda: batch_norm_net(None),
    }
    shape = {"model": models[kind], "hidden": (6,), "local_epochs": epochs, "batch_size": 2}
    sizes = (8, 4, 6, 10)  # no batch of one sample, on which batch norm cannot train
    federico = method("federico", blobs(sizes), rounds=6, **shape)
    local = method("local", blobs(sizes), rounds=6, **shape)
    for round_index in range(1, 7):
        play(federico, 1, first=round_index)
        play(local, 1, first=round_index)
        private = slice(4, 8)
        assert torch.equal(federico.bank.rows[private], local.bank.rows)
        assert torch.equal(federico.bank.counters[private], local.bank.counters)

    own = federico.bank.rows[:4]
    assert not torch.allclose(own, local.bank.rows)
    alone = evaluate(federico, federico.predictors(6)).alone
    trained_locally = evaluate(local, local.predictors(6)).used
    assert alone is not None
    assert np.array_equal(alone.figures["accuracy"], trained_locally.figures["accuracy"])
