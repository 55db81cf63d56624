"""Results belong to names: neither the order of a list nor a peer's name changes anything else."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from federico.experiment.evaluation import evaluate
from federico.learning.client_data import ClientData
from federico.methods.federico import Federico
from federico.methods.method import Method, Round

Clients = Callable[..., list[ClientData]]
Build = Callable[..., Method]
Play = Callable[..., list[Round]]

SIZES = (7, 4, 5, 1, 8)
ORDER = [3, 0, 4, 2, 1]


def losses_of(method: Method, rounds: int) -> np.ndarray:
    return evaluate(method, method.predictors(rounds)).used.figures["loss"]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("federico", {"sampler": "everyone"}),
        ("federico", {"sampler": "everyone", "preset": "paper"}),
        ("federico", {"neighbors": 0}),
        ("local", {}),
        ("fedavg", {}),
    ],
)
def test_clients_listed_in_another_order_get_the_same_results(
    method: Build, blobs: Clients, play: Play, name: str, options: dict[str, object]
) -> None:
    clients = blobs(SIZES)
    listed = method(name, clients, hidden=(5,), **options)
    otherwise = method(name, [clients[k] for k in ORDER], hidden=(5,), **options)
    play(listed, 4)
    play(otherwise, 4)
    np.testing.assert_allclose(
        losses_of(otherwise, 4), losses_of(listed, 4)[ORDER], rtol=0, atol=1e-10
    )
    if len(listed.bank.rows) >= len(SIZES):
        # The own models of all clients, then, of some methods, their private models.
        shape = (-1, len(SIZES), listed.learner.layout.size)
        expected = listed.bank.rows.reshape(shape)[:, ORDER]
        torch.testing.assert_close(otherwise.bank.rows.reshape(shape), expected, rtol=0, atol=1e-10)


def test_sorted_by_name_as_a_run_sorts_them_even_sampling_is_the_same(
    method: Build, blobs: Clients, play: Play
) -> None:
    clients = blobs(SIZES)
    shuffled = sorted((clients[k] for k in ORDER), key=lambda client: client.name)
    one, other = method("federico", clients, neighbors=2), method("federico", shuffled, neighbors=2)
    for a, b in zip(play(one, 4), play(other, 4), strict=True):
        assert [row.tolist() for row in a.neighbors] == [row.tolist() for row in b.neighbors]
    assert torch.equal(one.bank.rows, other.bank.rows)


def renamed(clients: list[ClientData]) -> list[ClientData]:
    """The data of client ORDER[k] goes by the name of client k."""
    return [replace(clients[k], name=f"c{place}") for place, k in enumerate(ORDER)]


def test_renamed_peers_rename_the_results_and_nothing_else(
    method: Build, blobs: Clients, play: Play
) -> None:
    # Nothing is drawn here: everyone is sampled, there is one start, a full gradient has no order
    # of batches, and no samples are held out.
    options = {"sampler": "everyone", "start": "same", "m_step": "gradient", "hidden": (5,)}
    options |= {"preset": "paper"}
    clients = blobs(SIZES)
    before, after = (
        method("federico", clients, **options),
        method("federico", renamed(clients), **options),
    )
    assert isinstance(before, Federico)
    assert isinstance(after, Federico)
    play(before, 5)
    play(after, 5)
    torch.testing.assert_close(after.bank.rows, before.bank.rows[ORDER], rtol=0, atol=1e-10)
    for place, k in enumerate(ORDER):
        np.testing.assert_allclose(
            after.posteriors[place].weights, before.posteriors[k].weights[ORDER], atol=1e-10
        )
        expected = before.evidence.losses[k].tracked[ORDER]
        np.testing.assert_allclose(after.evidence.losses[place].tracked, expected, atol=1e-10)


def test_a_name_draws_its_own_model_and_order_of_samples(
    method: Build, blobs: Clients, play: Play
) -> None:
    """The other side: with streams in play, a client of the same data under another name is another
    client."""
    clients = blobs(SIZES)
    before, after = method("local", clients), method("local", renamed(clients))
    assert torch.equal(before.bank.rows, after.bank.rows), (
        "models follow names, data follows the client"
    )
    play(before, 1)
    play(after, 1)
    assert not torch.allclose(after.bank.rows, before.bank.rows[ORDER])
