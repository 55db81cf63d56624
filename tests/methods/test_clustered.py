from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from federico.exchange.protocol import Updates
from federico.learning.client_data import ClientData
from federico.learning.rows import Rows
from federico.methods.clustered import Clustered
from federico.methods.method import Method

Clients = Callable[..., list[ClientData]]
Build = Callable[..., Clustered]

RATE = 0.25
# All at x = 1, so that w and b move alike: by (2, 2), (-2, -2), (2.5, 2.5) and (-2, -2),
# with 2, 1, 1 and 1 samples.
POINTS = [[(1.0, 4.0)] * 2, [(1.0, -4.0)], [(1.0, 5.0)], [(1.0, -4.0)]]
MEAN, TOP, COORDINATE = 0.5 * 2**0.5, 2.5 * 2**0.5, 2.5
TOGETHER = [0, 0, 0, 0]
APART = [0, 1, 0, 1]


def test_a_torn_cluster_splits_and_each_half_averages_its_own(lines: Build) -> None:
    clustered = lines("clustered", POINTS, RATE, eps1=0.8)
    rows = [
        dict(zip(row.peers.tolist(), row.weights, strict=True))
        for row in clustered.round(1).posteriors
    ]
    assert clustered.clusters.tolist() == APART
    up, down = [(2 * 2 + 2.5) / 3] * 2, [-2.0, -2.0]
    np.testing.assert_allclose(clustered.bank.rows, [up, down, up, down], rtol=0, atol=1e-12)
    assert rows == [{0: 2 / 3, 2: 1 / 3}, {1: 0.5, 3: 0.5}] * 2, "whose data each model is made of"


def test_in_one_cluster_everybody_gets_the_average(lines: Build) -> None:
    clustered = lines("clustered", POINTS, RATE, eps1=0.6)
    played = clustered.round(1)
    assert clustered.clusters.tolist() == TOGETHER
    np.testing.assert_allclose(clustered.bank.rows, np.full((4, 2), 0.5), rtol=0, atol=1e-12)
    assert all(row.weights.tolist() == [0.4, 0.2, 0.2, 0.2] for row in played.posteriors)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"eps1": MEAN + 0.01}, APART),
        ({"eps1": MEAN - 0.01}, TOGETHER),
        ({"eps1": 1.0, "eps2": TOP - 0.01}, APART),
        ({"eps1": 1.0, "eps2": TOP + 0.01}, TOGETHER),
        ({"eps1": MEAN / TOP + 0.01, "relative": True}, APART),
        ({"eps1": MEAN / TOP - 0.01, "relative": True}, TOGETHER),
        ({"eps1": 1.0, "eps2": COORDINATE - 0.01, "compat": "fedem"}, APART),
        ({"eps1": 1.0, "eps2": COORDINATE + 0.01, "compat": "fedem"}, TOGETHER),
        ({"eps1": 1.0, "min_round": 1}, TOGETHER),
    ],
)
def test_who_splits(lines: Build, options: dict[str, float], expected: list[int]) -> None:
    clustered = lines("clustered", POINTS, RATE, **options)
    clustered.round(1)
    assert clustered.clusters.tolist() == expected


def test_from_the_round_after_the_last_without_splits_clusters_split(lines: Build) -> None:
    clustered = lines("clustered", POINTS, RATE, eps1=9.0, eps2=0.0, min_round=1)
    clustered.round(1)
    clustered.round(2)
    assert clustered.clusters.tolist() == APART


def test_two_stay_together_however_far_apart(lines: Build) -> None:
    pair = lines("clustered", POINTS[:2], RATE, eps1=9.0, eps2=0.0)
    pair.round(1)
    assert pair.clusters.tolist() == [0, 0]


def updates_of(signs: list[float]) -> Updates:
    """One update along w per client."""
    clients = np.arange(len(signs))
    rows = torch.tensor([[2 * sign, 0.0] for sign in signs], dtype=torch.float64)
    return Updates(len(signs) + clients, clients, np.ones(len(signs)), Rows.of(rows))


def test_three_successive_splits_stay_a_partition(lines: Build) -> None:
    clustered = lines("clustered", [[(0.0, 0.0)]] * 16, RATE)
    for bit, apart in ((1, 2), (2, 4), (4, 8)):
        clustered.split(updates_of([1.0 if i & bit else -1.0 for i in range(16)]))
        assert clustered.clusters.tolist() == [i % apart for i in range(16)], (
            "everybody with those of the same signs"
        )
    clustered.split(updates_of([1.0 if i < 8 else -1.0 for i in range(16)]))
    assert clustered.clusters.tolist() == [i % 8 for i in range(16)], "pairs do not split"


def test_the_cut_is_by_direction_and_keeps_the_farthest_of_a_half_near(lines: Build) -> None:
    clustered = lines("clustered", [[(0.0, 0.0)]] * 4, RATE, eps1=99.0)
    angles, lengths = np.deg2rad([0, 40, 85, 140]), np.array([2.0, 9.0, 2.0, 9.0])
    clients = np.arange(4)
    rows = torch.from_numpy(lengths[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1))
    clustered.split(Updates(4 + clients, clients, np.ones(4), Rows.of(rows)))
    assert clustered.clusters.tolist() == [0, 0, 2, 2], (
        "linked by the nearest, 0, 40 and 85 would stay together"
    )


def test_statistics_have_no_say_in_a_split(
    method: Build, blobs: Clients, batch_norm_net: type[nn.Module]
) -> None:
    clustered = method(
        "clustered", blobs((4, 4, 4, 4)), model=batch_norm_net, eps2=0.0, relative=True
    )
    layout, clients = clustered.bank.layout, np.arange(4)
    rows = torch.zeros(4, layout.size, dtype=torch.float64)
    rows[:, 0] = torch.tensor([1.0, -1.0, 1.0, -1.0])
    rows[:, layout.parameters :] = torch.tensor([9.0, 9.0, -9.0, 9.0])[:, None]
    clustered.split(Updates(4 + clients, clients, np.ones(4), Rows.of(rows)))
    assert clustered.clusters.tolist() == APART


def test_a_cluster_waits_for_all_its_updates(lines: Build) -> None:
    clustered = lines("clustered", [[(0.0, 0.0)]] * 4, RATE, eps1=9.0)
    whole = updates_of([1.0, -1.0, 1.0, -1.0])
    clustered.split(whole.take(np.array([0, 1, 3])))
    assert clustered.clusters.tolist() == TOGETHER
    clustered.split(whole)
    assert clustered.clusters.tolist() == APART


def test_without_a_split_it_is_fedavg_at_the_same_cost(
    method: Callable[..., Method], blobs: Clients
) -> None:
    clustered, fedavg = (
        method(name, blobs((9, 3, 4)), hidden=(5,)) for name in ("clustered", "fedavg")
    )
    for round_index in (1, 2, 3):
        clustered.round(round_index)
        fedavg.round(round_index)
    assert torch.equal(clustered.bank.rows, fedavg.bank.rows.expand(3, -1))
    ours, theirs = (one.exchange.traffic.take()["training"] for one in (clustered, fedavg))
    assert np.array_equal(ours.sent[:3], theirs.sent[:3])
    assert np.array_equal(ours.received[:3], theirs.received[:3])


def test_everybody_predicts_with_the_model_of_its_cluster(lines: Build) -> None:
    clustered = lines("clustered", POINTS, RATE, eps1=0.8)
    clustered.round(1)
    mixtures = clustered.predictors(1)
    assert mixtures.visits.pairs == [(0, 4), (1, 5), (2, 6), (3, 7)]
    assert clustered.names == ("c0", "c1", "c2", "c3", "cluster", "cluster", "cluster", "cluster")
