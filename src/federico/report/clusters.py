"""Clusters of clients that trust each other, as the posteriors show them; nobody names them.

Only the results of a method are looked at, never the true distributions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from federico.types import FloatArray, IntArray

LEAST_ALIKE = 0.5
"""Clients whose circles of mutual trust are less alike than this (cosine) are in two clusters."""

MOST_COMPARED = 1000
"""Clients that are compared each with each; of more, only those who trust each other are."""
MOST_ORDERED = 256
"""Clients for whom the best order is looked for."""


@dataclass(frozen=True)
class FoundClusters:
    """Who trusts whom, found from the posteriors alone."""

    order: list[int]
    """All clients by number: those who trust each other stand side by side."""
    cluster_of: list[int]
    """The cluster of each client by number; clusters are counted from 0 along `order`."""

    @property
    def count(self) -> int:
        """How many clusters there are; a client that nobody trusts is one by itself."""
        return len(set(self.cluster_of))


def found_clusters(
    clients: Sequence[str], posterior: Sequence[Mapping[str, float]]
) -> FoundClusters:
    """The clusters of these clients, from what each of them trusts each model."""
    if len(clients) > MOST_COMPARED:
        return linked(clients, posterior)
    return cluster(trust_matrix(clients, posterior))


def trust_matrix(clients: Sequence[str], posterior: Sequence[Mapping[str, float]]) -> FloatArray:
    """How much each client (row) trusts the model of each client (column)."""
    number_of = {name: number for number, name in enumerate(clients)}
    trust: FloatArray = np.zeros((len(posterior), len(clients)))
    for client, weights in enumerate(posterior):
        for owner, weight in weights.items():
            # The model of a component or of a cluster belongs to no client.
            if owner in number_of:
                trust[client, number_of[owner]] = weight
    return trust


def cluster(trust: FloatArray) -> FoundClusters:
    """Hierarchical clustering of the symmetrised trust, cut where clients are less alike than not.

    Two clients are alike if they share their circle: if the rows of the symmetrised matrix point
    the same way. Whether a client trusts its own model makes no difference: it belongs to its own
    circle as much as the one it shares most with.
    """
    clients = len(trust)
    if clients < 2:
        return FoundClusters(list(range(clients)), [0] * clients)
    from scipy.cluster.hierarchy import fcluster, leaves_list, linkage
    from scipy.spatial.distance import pdist

    circles = _circles_of_trust(trust)  # [clients, clients]
    distances = np.clip(pdist(circles, metric="cosine"), 0.0, 1.0)  # [pairs]
    # The best order of a thousand clients takes seconds; any order keeps clusters together.
    tree = linkage(distances, method="average", optimal_ordering=clients <= MOST_ORDERED)
    order = leaves_list(tree).tolist()
    labels = fcluster(tree, t=1 - LEAST_ALIKE, criterion="distance")
    return FoundClusters(order, _counted_along(order, labels))


def linked(clients: Sequence[str], posterior: Sequence[Mapping[str, float]]) -> FoundClusters:
    """Clusters of so many clients that their circles of trust cannot all be compared.

    Two clients are linked if each of them shares with the other at least half as much trust as with
    whom it shares most. A cluster is all who are linked, be it through others. Time and memory are
    those of the weights there are, not of all pairs.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    number_of = {name: number for number, name in enumerate(clients)}
    trusting: list[int] = []
    trusted: list[int] = []
    weights: list[float] = []
    for client, row in enumerate(posterior):
        for owner, weight in row.items():
            other = number_of.get(owner, client)
            if other != client:
                trusting.append(client)
                trusted.append(other)
                weights.append(weight)

    count = len(clients)
    trust = csr_array((weights, (trusting, trusted)), shape=(count, count))
    mutual = ((trust + trust.T) / 2).tocoo()
    most: FloatArray = np.zeros(count)
    np.maximum.at(most, mutual.row, mutual.data)
    least = LEAST_ALIKE * np.maximum(most[mutual.row], most[mutual.col])
    is_link = (mutual.data >= least) & (mutual.data > 0)

    links = (is_link[is_link], (mutual.row[is_link], mutual.col[is_link]))
    _, labels = connected_components(csr_array(links, shape=(count, count)), directed=False)
    order = np.argsort(labels, kind="stable").tolist()
    return FoundClusters(order, _counted_along(order, labels))


def _circles_of_trust(trust: FloatArray) -> FloatArray:
    """The mean of both directions; each client trusts itself as much as the one it trusts most."""
    mutual: FloatArray = (trust + trust.T) / 2
    np.fill_diagonal(mutual, 0.0)
    most = mutual.max(axis=1)
    # A client that shares nothing with anybody is a circle of its own.
    np.fill_diagonal(mutual, np.where(most > 0, most, 1.0))
    return mutual


def _counted_along(order: Sequence[int], labels: IntArray) -> list[int]:
    """The clusters numbered from 0 in the order in which they come."""
    numbers: dict[int, int] = {}
    for client in order:
        numbers.setdefault(int(labels[client]), len(numbers))
    return [numbers[int(label)] for label in labels]
