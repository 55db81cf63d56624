from collections.abc import Callable

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from torch import nn

from federico.errors import ConfigError
from federico.learning.bank import Bank
from federico.learning.client_data import ClientData
from federico.methods.fedfomo import FedFomo, FedFomoOptions
from federico.methods.method import Method, pull_neighbors

Clients = Callable[..., list[ClientData]]
Build = Callable[..., FedFomo]

RATE = 0.25
# A client's points are all the same, so that it does not matter which of the five it holds out.
POINTS = [[(1.0, 2.0)] * 5, [(1.0, 2.0)] * 5, [(1.0, 0.0)] * 5]
MODELS = [[0.5, 0.0], [1.0, 1.0], [-3.0, 0.0]]


@pytest.fixture
def three(lines: Build) -> FedFomo:
    """Three clients in the middle of a run.

    All began at (0, 0) and have trained since, the last one for the worse.
    """
    fedfomo = lines("fedfomo", POINTS, RATE)
    fedfomo.first.zero_()
    fedfomo.bank.rows.copy_(torch.tensor(MODELS))
    return fedfomo


def test_a_round_by_hand(three: FedFomo) -> None:
    played = three.round(1)
    # The first client wants w + b = 2. Losses: 4 at the start, then 2.25, 0 and 25; distances: 1/2,
    # root 2 and 3.
    worth = np.array([1.75 / 0.5, 4 / 2**0.5, -21 / 3])
    np.testing.assert_allclose(three.propensity[0], worth / abs(worth.sum()), rtol=1e-12)
    weights = worth[:2] / worth[:2].sum()
    assert played.posteriors[0].peers.tolist() == [0, 1]
    np.testing.assert_allclose(played.posteriors[0].weights, weights, rtol=1e-12)
    combined = weights @ np.array(MODELS[:2])
    np.testing.assert_allclose(three.first[0], combined, rtol=0, atol=1e-12)
    trained = combined - 2 * RATE * (combined.sum() - 2)
    np.testing.assert_allclose(three.bank.rows[0], trained, rtol=0, atol=1e-12)


def test_where_no_candidate_gains_a_client_goes_back_to_where_it_began(three: FedFomo) -> None:
    played = three.round(1)
    assert three.propensity[2].max() < 0
    assert three.first[2].tolist() == [0, 0]
    assert three.bank.rows[2].tolist() == [0, 0], "it began where its loss is 0: no step moves it"
    assert played.posteriors[2].peers.tolist() == [2]
    assert played.posteriors[2].weights.tolist() == [1]


def test_propensities_add_up_and_choose_the_candidates(three: FedFomo) -> None:
    three.opt = FedFomoOptions(neighbors=1, epsilon=0.0)
    three.propensity[0] = [9.0, 0.0, 2.0]
    three.round(1)
    worth = np.array([1.75 / 0.5, -21 / 3])
    np.testing.assert_allclose(three.propensity[0], [9 + 3.5 / 3.5, 0, 2 - 7 / 3.5], rtol=1e-12)
    assert abs(worth.sum()) == 3.5


def test_a_candidate_that_gives_no_numbers_is_no_candidate(three: FedFomo) -> None:
    three.bank.rows[1] = torch.nan
    row = three.round(1).posteriors[0]
    assert row.peers.tolist() == [0]
    assert three.bank.rows[0].isfinite().all()
    assert three.propensity[0, 1] == 0


def test_models_are_judged_by_what_is_held_out(method: Build, blobs: Clients) -> None:
    fedfomo = method("fedfomo", blobs((10, 15, 20)))
    fedfomo.round(1)
    neighbors = [np.array([1, 2]), np.array([2]), np.array([], dtype=np.int64)]
    visits = pull_neighbors(fedfomo, 1, neighbors)
    assert visits.pairs == [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)]
    began = Bank(fedfomo.bank.layout, np.arange(3), fedfomo.first)
    before = fedfomo.learner.evaluate(began, fedfomo.to_own(), "held_out")
    after = fedfomo.learner.evaluate(fedfomo.bank, visits, "held_out")
    assert np.array_equal(fedfomo.measure_gains(visits), before[visits.clients] - after)


def test_statistics_do_not_count_as_distance(
    method: Build, blobs: Clients, batch_norm_net: type[nn.Module]
) -> None:
    fedfomo = method("fedfomo", blobs((10, 10)), model=batch_norm_net, batch_size=2)
    fedfomo.bank.rows.zero_()
    fedfomo.first.zero_()
    fedfomo.bank.rows[:, 0] = torch.tensor([1.0, 2.0])
    fedfomo.bank.rows[1, fedfomo.bank.layout.parameters :] = 9.0
    row = fedfomo.combine(0, 0, np.array([0, 1]), np.array([3.0, 2.0]))
    np.testing.assert_allclose(row.weights, [0.75, 0.25])


def test_the_chance_to_explore_decays(method: Build, blobs: Clients) -> None:
    fedfomo = method("fedfomo", blobs((5,) * 9), neighbors=2, epsilon=1.0, epsilon_decay=0.5)
    fedfomo.propensity[:, [3, 6]] = 1.0
    greedy = [i not in (3, 6) for i in range(9)]

    def best(round_index: int) -> list[bool]:
        return [chosen.tolist() == [3, 6] for chosen in fedfomo.sample(round_index)]

    assert best(3) == greedy, "1 - 2 * 0.5 = 0: only merit counts"
    assert sum(best(1)) <= 2, "all is chance"
    assert sum(best(1)) <= sum(best(2)) < sum(greedy), "one in two"


def test_the_first_round_is_training_alone_on_what_is_not_held_out(
    method: Callable[..., Method], blobs: Clients
) -> None:
    fedfomo = method("fedfomo", blobs((10, 5, 15)), local_epochs=2)
    assert fedfomo.learner.samples.tolist() == [8, 4, 12]
    start = fedfomo.bank.rows.clone()
    assert len(start.unique(dim=0)) == 1, "one start for all"
    expected = (
        start
        + fedfomo.learner.train(fedfomo.bank, fedfomo.to_own(), 1, epochs=2, fresh=True).as_tensor()
    )
    fedfomo.round(1)
    assert torch.equal(fedfomo.bank.rows, expected)
    assert torch.equal(fedfomo.first, start)


def test_only_the_candidates_models_travel(method: Build, blobs: Clients) -> None:
    fedfomo = method("fedfomo", blobs((5, 5, 5, 5)), neighbors=2)
    fedfomo.round(1)
    assert fedfomo.exchange.traffic.take()["training"].received.tolist() == [2 * 15 * 8] * 4


def test_everybody_predicts_with_its_own_model(three: FedFomo) -> None:
    assert three.predictors(1).visits.pairs == [(0, 0), (1, 1), (2, 2)]


def test_options_without_a_meaning_are_refused(method: Build, blobs: Clients) -> None:
    for bad in (
        {"validation": 0.0},
        {"validation": 1.0},
        {"epsilon": 1.1},
        {"epsilon_decay": -0.1},
        {"neighbors": -1},
    ):
        with pytest.raises(ValidationError):
            FedFomoOptions(**bad)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"fedfomo\.neighbors = 2: .* set it to 1 or less"):
        method("fedfomo", blobs((5, 5)), neighbors=2)
