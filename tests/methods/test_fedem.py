from collections.abc import Callable

import numpy as np
import pytest
import torch

from federico.learning.client_data import ClientData
from federico.methods.fedem import FedEM, responsibilities
from federico.methods.method import Method

Clients = Callable[..., list[ClientData]]
Build = Callable[..., FedEM]

RATE = 0.25
POINTS = [[(1.0, 0.0), (1.0, 0.0), (1.0, 1.0)], [(2.0, 0.0)]]


def sigmoid(x: float) -> float:
    return float(1 / (1 + np.exp(-x)))


@pytest.fixture
def two(lines: Build) -> FedEM:
    """Two clients, and the components y = 0 and y = x.

    The second explains one point of the first client.
    """
    fedem = lines("fedem", POINTS, RATE, components=2)
    fedem.bank.rows[1, 0] = 1.0
    return fedem


def test_a_round_by_hand(two: FedEM) -> None:
    played = two.round(1)
    q, far = (
        sigmoid(1.0),
        sigmoid(4.0),
    )  # of the better component, where losses are 0 and 1, or 0 and 4
    proportions = [[(2 * q + 1 - q) / 3, (2 * (1 - q) + q) / 3], [far, 1 - far]]
    np.testing.assert_allclose(two.proportions, proportions, rtol=0, atol=1e-12)
    # The first client moves y = 0 by its third point alone, with error -1;
    # the second client not at all.
    by_third = 2 * RATE * (1 - q) / 3 * np.array([1, 1])
    # It moves y = x by its other two, with error 1; the second client by its one, with error 2
    # at x = 2.
    by_others, by_far = (
        -2 * RATE * 2 * (1 - q) / 3 * np.array([1, 1]),
        -2 * RATE * 2 * (1 - far) * np.array([2, 1]),
    )
    moves = two.bank.rows - torch.tensor([[0, 0], [1, 0]])
    np.testing.assert_allclose(
        moves, [3 / 4 * by_third, 3 / 4 * by_others + 1 / 4 * by_far], rtol=0, atol=1e-12
    )
    assert [row.peers.tolist() for row in played.posteriors] == [[2, 3], [2, 3]]
    np.testing.assert_allclose(
        [row.weights for row in played.posteriors], proportions, rtol=0, atol=1e-12
    )


def test_proportions_are_the_prior_of_the_next_round(two: FedEM) -> None:
    two.e_step(two.to_shared())
    first = two.proportions[1, 0]
    two.e_step(two.to_shared())
    odds = first / (1 - first) * np.exp(4)
    assert two.proportions[1, 0] == pytest.approx(odds / (1 + odds), abs=1e-12)


def test_everybody_predicts_with_all_components_in_its_proportions(two: FedEM) -> None:
    two.round(1)
    mixtures = two.predictors(1)
    assert mixtures.visits.pairs == [(0, 2), (0, 3), (1, 2), (1, 3)]
    assert np.array_equal(mixtures.weights, two.proportions.ravel())
    assert two.names == ("c0", "c1", "component 1", "component 2")


@pytest.mark.parametrize("sizes", [(6, 6, 6), (9, 3, 4)])
def test_one_component_is_fedavg(
    method: Callable[..., Method], blobs: Clients, sizes: tuple[int, ...]
) -> None:
    fedem = method("fedem", blobs(sizes), hidden=(5,), local_epochs=2, components=1)
    fedavg = method("fedavg", blobs(sizes), hidden=(5,), local_epochs=2)
    for round_index in (1, 2, 3):
        fedem.round(round_index)
        fedavg.round(round_index)
    assert torch.equal(fedem.bank.rows, fedavg.bank.rows)
    ours, theirs = (one.exchange.traffic.take()["training"] for one in (fedem, fedavg))
    assert np.array_equal(ours.sent, theirs.sent)
    assert np.array_equal(ours.received, theirs.received)


def test_components_start_apart_and_every_pair_keeps_its_optimizer(
    method: Build, blobs: Clients
) -> None:
    fedem = method("fedem", blobs((4, 5)))
    assert len(fedem.bank.rows.unique(dim=0)) == 4
    fedem.round(1)
    assert fedem.learner.states.pairs == [(i, 2 + m) for i in range(2) for m in range(4)]


def test_each_client_pulls_and_pushes_all_components(method: Build, blobs: Clients) -> None:
    fedem = method("fedem", blobs((4, 5)), components=3)
    fedem.round(1)
    counted = fedem.exchange.traffic.take()["training"]
    sent, received = counted.sent, counted.received
    model = 15 * 8
    assert sent.tolist() == [3 * (model + 8)] * 2 + [2 * model] * 3
    assert received.tolist() == [3 * model] * 2 + [2 * (model + 8)] * 3


def test_responsibilities_are_the_posterior_over_components() -> None:
    prior, losses = np.array([[0.2, 0.8]]), np.array([[[0.0, 1.0], [2.0, 0.5]]])
    weighed = prior[:, :, None] * np.exp(-losses)
    np.testing.assert_allclose(
        responsibilities(losses, prior), weighed / weighed.sum(1), rtol=1e-12
    )
    np.testing.assert_allclose(
        responsibilities(losses + 1e4, prior), weighed / weighed.sum(1), rtol=1e-9
    )


def test_a_component_that_breaks_gets_no_sample_and_one_that_nobody_explains_says_nothing() -> None:
    prior, losses = np.array([[0.2, 0.8]]), np.array([[[np.nan, np.inf], [3.0, np.nan]]])
    assert responsibilities(losses, prior)[0].T.tolist() == [[0.0, 1.0], [0.2, 0.8]]
    assert responsibilities(losses, np.array([[1.0, 0.0]]))[0].T.tolist() == [
        [1.0, 0.0],
        [1.0, 0.0],
    ]
