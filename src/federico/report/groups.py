"""Which clients belong together in a picture: those of one true distribution, or of one cluster.

True distributions are known where the data was divided on purpose. Of own data nobody knows them:
there the clusters count that the clients' posteriors show.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from federico.report.clusters import FoundClusters
from federico.report.drawing import group_colors, thinned, true_groups

ALONE = -1
"""The group of a client that is in no cluster with anybody."""


@dataclass(frozen=True)
class ClientGroups:
    """The group of every client, and an order in which those of a group stand side by side."""

    kind: Literal["distribution", "cluster"]
    of_clients: list[int]
    """Numbers of groups; clusters are counted from 1, and `ALONE` is in none."""
    all_in_order: list[int]
    """All clients by number."""

    @property
    def names(self) -> dict[int, str]:
        """What each group is called, in the order of the pictures."""
        found: dict[int, str] = {}
        for client in self.all_in_order:
            group = self.of_clients[client]
            found[group] = f"{self.kind} {group}"
            if group == ALONE:
                found[group] = "by itself"
        return found

    @property
    def colors(self) -> list[str]:
        """The colour of every client; grey for one that is in no group."""
        return group_colors(self.of_clients, len(self.of_clients))

    def order(self, most: int) -> list[int]:
        """All clients in order; of more than `most`, that many are taken evenly from all."""
        return thinned(self.all_in_order, most)


def by_distribution(distribution: Sequence[int] | None) -> ClientGroups | None:
    """Groups by the true distribution; None where it is unknown, or groups nobody."""
    groups = true_groups(distribution)
    if groups is None:
        return None
    return ClientGroups("distribution", groups, np.argsort(groups, kind="stable").tolist())


def by_cluster(found: FoundClusters) -> ClientGroups:
    """Groups by the clusters found; a client alone in a cluster is in no group."""
    sizes = np.bincount(found.cluster_of)
    numbers: dict[int, int] = {}
    for client in found.order:
        cluster = found.cluster_of[client]
        if sizes[cluster] > 1:
            numbers.setdefault(cluster, len(numbers) + 1)
    groups = [numbers.get(cluster, ALONE) for cluster in found.cluster_of]
    return ClientGroups("cluster", groups, found.order)


def order_of(groups: ClientGroups | None, clients: int, most: int) -> list[int]:
    """The clients of a picture in the order of their groups; as they come where none is known."""
    if groups is None:
        return thinned(range(clients), most)
    return groups.order(most)
