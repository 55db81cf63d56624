"""Only a part of each model is exchanged, whatever the method; the rest stays with each client."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch

from federico.errors import ConfigError
from federico.learning.client_data import ClientData
from federico.methods import METHODS
from federico.methods.method import Method, Mixtures

Build = Callable[..., Method]
Clients = Callable[..., list[ClientData]]
DEEP = {"hidden": (6,)}  # modules 1 and 3
EXCHANGING = sorted(set(METHODS) - {"local", "fedper"})
NUMBER = 8


def models(mixtures: Mixtures) -> Iterator[tuple[tuple[int, int], torch.Tensor]]:
    """Each visit with its model, whole."""
    yield from zip(mixtures.visits.pairs, mixtures.bank.whole(mixtures.visits), strict=True)


@pytest.mark.parametrize("shared", ["body", "head", ("3.bias",)])
@pytest.mark.parametrize("name", EXCHANGING)
def test_bytes_are_those_of_the_part(
    name: str, shared: str | tuple[str, ...], method: Build, blobs: Clients
) -> None:
    clients = blobs((6, 5, 7))
    whole, part = (method(name, clients, shared=each, **DEEP) for each in ("all", shared))
    model, size = whole.bank.row_layout.size, part.bank.row_layout.size
    assert 0 < size < model
    whole.round(1)
    part.round(1)
    moved = whole.exchange.traffic.take()["training"].moved
    moved_of_part = part.exchange.traffic.take()["training"].moved
    # An update has its coefficient beside it: so many of both kinds of messages fit the bytes.
    messages = (moved - moved_of_part) / ((model - size) * NUMBER)
    assert messages == int(messages)
    assert moved - messages * model * NUMBER == moved_of_part - messages * size * NUMBER


@pytest.mark.parametrize("name", sorted(METHODS))
def test_it_goes_on_bit_for_bit_from_what_was_saved(
    name: str, method: Build, blobs: Clients
) -> None:
    clients = blobs((6, 5, 7))
    played, resumed = (method(name, clients, shared="body", **DEEP) for _ in range(2))
    for index in (1, 2):
        played.round(index)
    saved = {key: value.clone() for key, value in played.state().items()}
    played.round(3)
    resumed.restore(saved)
    resumed.round(3)
    ours, theirs = played.predictors(3), resumed.predictors(3)
    assert ours.visits.pairs == theirs.visits.pairs
    for (_, mine), (_, other) in zip(models(ours), models(theirs), strict=True):
        assert torch.equal(mine, other)
    scores = played.learner.score(ours.bank, ours.visits, ours.weights)
    assert np.isfinite(scores.figures["loss"]).all()


def test_who_trains_alone_does_not_notice(method: Build, blobs: Clients) -> None:
    clients = blobs((6, 5, 7))
    whole, part = (method("local", clients, shared=each, **DEEP) for each in ("all", "body"))
    for index in (1, 2, 3):
        whole.round(index)
        part.round(index)
    for (_, mine), (_, other) in zip(
        models(whole.predictors(3)), models(part.predictors(3)), strict=True
    ):
        torch.testing.assert_close(mine, other, rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", EXCHANGING)
def test_heads_differ_where_the_body_is_one(name: str, method: Build, blobs: Clients) -> None:
    played = method(name, blobs((6, 5, 7)), shared="body", **DEEP)
    for index in (1, 2):
        played.round(index)
    body = played.bank.row_layout.size
    by_owner: dict[int, list[torch.Tensor]] = {}
    for (_, owner), model in models(played.predictors(2)):
        by_owner.setdefault(owner, []).append(model)
    for rows in by_owner.values():
        for row in rows[1:]:
            assert torch.equal(row[:body], rows[0][:body])
            assert not torch.equal(row[body:], rows[0][body:])


def test_what_a_client_keeps_is_learned_with_its_own_model(method: Build, blobs: Clients) -> None:
    """Whoever visits others trains copies of their models; its own head stays as it was."""
    federico = method("federico", blobs((6, 5, 7)), shared="body", neighbors=2, **DEEP)
    parts = federico.bank.personal
    assert parts is not None
    own = federico.to_own()
    parts.meet(own)
    before = parts.state()["rows"].clone()
    federico.train(1, type(own).of([(0, 1), (1, 2), (2, 0)]))
    assert torch.equal(parts.state()["rows"], before)
    federico.train(1, own)
    assert not torch.equal(parts.state()["rows"], before)


def test_tuning_for_a_prediction_leaves_no_trace(method: Build, blobs: Clients) -> None:
    played = method("fedavg_plus", blobs((6, 5, 7)), shared="body", **DEEP)
    played.round(1)
    before = {key: value.clone() for key, value in played.state().items()}
    tuned = dict(models(played.predictors(1)))
    for key, value in played.state().items():
        assert torch.equal(value, before[key]), key
    shared_owner = int(played.shared_owners[0])
    body = played.bank.row_layout.size
    untuned = dict(models(Mixtures(played.bank, played.to_shared(), np.ones(3))))
    for client in range(3):
        difference = tuned[client, client] - untuned[client, shared_owner]
        assert difference[:body].abs().max() > 0
        assert difference[body:].abs().max() > 0


def test_gradients_are_of_whole_models(method: Build, blobs: Clients) -> None:
    with pytest.raises(ConfigError, match="m_step = 'gradient'"):
        method("federico", blobs((6, 5, 7)), shared="body", preset="literal", neighbors=2, **DEEP)
