"""Without neighbors, FedeRiCo is training alone, bit for bit."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from federico.learning.learner import ClientData
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
        mixtures = played.predictors(3)
        scores.append(
            played.learner.score(mixtures.bank, mixtures.visits, mixtures.weights).figures["loss"]
        )
    assert np.array_equal(*scores)


def test_with_neighbors_it_is_something_else(method: Build, blobs: Clients, play: Play) -> None:
    together, local = (
        method("federico", blobs((7, 4, 5)), neighbors=1),
        method("local", blobs((7, 4, 5))),
    )
    play(together, 3)
    play(local, 3)
    assert not torch.allclose(together.bank.rows, local.bank.rows)
