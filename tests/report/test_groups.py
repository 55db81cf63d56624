from federico.report.clusters import FoundClusters
from federico.report.drawing import NO_GROUP
from federico.report.groups import ALONE, by_cluster, by_distribution, order_of


def test_clients_are_ordered_by_distribution_and_thinned_evenly() -> None:
    assert order_of(by_distribution([1, 0, 1, 0]), 4, 9) == [1, 3, 0, 2]
    assert order_of(None, 1000, 3) == [0, 499, 999]


def test_clusters_found_are_counted_from_one_and_a_client_alone_is_in_none() -> None:
    groups = by_cluster(FoundClusters(order=[2, 0, 3, 1], cluster_of=[1, 2, 0, 1]))

    assert groups.of_clients == [1, ALONE, ALONE, 1]
    assert groups.names == {ALONE: "by itself", 1: "cluster 1"}
    assert groups.colors[1] == NO_GROUP
    assert groups.colors[0] == groups.colors[3] != NO_GROUP
    assert order_of(groups, 4, 9) == [2, 0, 3, 1]
