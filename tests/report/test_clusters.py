"""Clusters are found from posteriors alone, whatever clients are called."""

import numpy as np
import pytest

from federico.report.clusters import cluster, found_clusters, linked


def test_those_who_trust_each_other_stand_side_by_side() -> None:
    clients = ["a", "b", "c", "d"]
    posterior = [
        {"a": 0.5, "c": 0.5},
        {"b": 0.6, "d": 0.4},
        {"a": 0.3, "c": 0.7},
        {"b": 0.9, "d": 0.1},
    ]

    found = found_clusters(clients, posterior)

    assert found.count == 2
    assert found.cluster_of[0] == found.cluster_of[2]
    assert found.cluster_of[1] == found.cluster_of[3]
    assert {*found.order[:2]} in ({0, 2}, {1, 3})
    assert sorted(found.cluster_of[client] for client in found.order) == [
        found.cluster_of[client] for client in found.order
    ]


def test_clients_without_trust_in_their_own_models_are_still_one_cluster() -> None:
    assert cluster(np.array([[0.0, 1.0], [1.0, 0.0]])).count == 1


def test_who_shares_nothing_is_alone() -> None:
    assert cluster(np.eye(3)).count == 3
    assert cluster(np.array([[1.0]])).order == [0]


@pytest.mark.parametrize("groups", [2, 5])
def test_clusters_are_those_that_the_trust_was_made_of(groups: int) -> None:
    draw = np.random.default_rng(0)
    group_of = draw.permutation(np.arange(40) % groups)
    trust = draw.random((40, 40)) * (group_of[:, None] == group_of)
    trust /= trust.sum(axis=1, keepdims=True)

    found = cluster(trust)

    assert found.count == groups
    pairs = set(zip(group_of.tolist(), found.cluster_of, strict=True))
    assert len(pairs) == groups


@pytest.mark.parametrize("groups", [2, 5])
def test_clusters_of_very_many_clients_are_those_that_the_trust_was_made_of(groups: int) -> None:
    draw = np.random.default_rng(0)
    names = [str(client) for client in range(40)]
    group_of = draw.permutation(np.arange(40) % groups).tolist()
    posterior = []
    for client in range(40):
        same = [other for other in range(40) if group_of[other] == group_of[client]]
        trusted = [client, *draw.choice(same, 4)]
        weights = {names[other]: 0.2 for other in trusted}
        # A little trust in everybody links nobody.
        posterior.append(dict.fromkeys(names, 0.01) | weights)

    found = linked(names, posterior)

    assert found.count == groups
    pairs = set(zip(group_of, found.cluster_of, strict=True))
    assert len(pairs) == groups
    in_order = [found.cluster_of[client] for client in found.order]
    assert in_order == sorted(in_order)


def test_ten_thousand_clients_are_clustered_without_a_matrix_of_all_pairs() -> None:
    names = [str(client) for client in range(10_000)]
    posterior = [{name: 1.0} for name in names]
    posterior[0] = {"0": 0.5, "9999": 0.5}

    found = found_clusters(names, posterior)

    assert found.count == 9_999
    assert found.cluster_of[0] == found.cluster_of[9_999]


def test_even_trust_in_everybody_is_one_cluster() -> None:
    draw = np.random.default_rng(0)
    trust = draw.random((30, 30))

    assert cluster(trust / trust.sum(axis=1, keepdims=True)).count == 1
