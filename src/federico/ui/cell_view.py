"""One cell, round by round: who trusts whom, figures, bytes and seconds, and the clients' data."""

import base64
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from federico.report.clusters import found_clusters
from federico.report.drawing import true_groups
from federico.runs.layout import Description
from federico.runs.metric import METRICS
from federico.stopwatch import Spent
from federico.types import Array, FloatArray
from federico.ui import plain
from federico.ui.plain import Plain
from federico.ui.rounds import MOST_ROUNDS, ShownCell, ShownRound

MOST_NODES = 128
"""With more clients than this the graph shows clusters, and clients on demand."""
MOST_GROUPS = 64
"""Clusters of many clients that are shown; the smallest of more are one together."""
MOST_WEIGHTS = 2_000_000
"""Weights that are sent at most: rounds are left out where there are more."""


def cell_view(shown: ShownCell) -> Plain:
    """All rounds of a cell."""
    about = shown.about
    rounds = shown.rounds
    spent = _of_rounds(shown.cell.spent, rounds)
    return {
        "name": about.title or about.method,
        "seed": about.seed,
        "clients": about.clients,
        "rounds": [each.round for each in rounds],
        "trust": _trust(shown),
        "figures": _figures(about, rounds),
        "sent": shown.traffic.sent,
        "received": shown.traffic.received,
        "moved": [each.moved for each in rounds],
        "phases": _phases([each.seconds for each in spent]),
        "data": _data(about),
    }


def _of_rounds(spent: Sequence[Spent], rounds: Sequence[ShownRound]) -> list[Spent]:
    """What each of these rounds took; nothing where one is not known."""
    if not rounds or len(spent) < rounds[-1].round:
        return []
    return [spent[each.round - 1] for each in rounds]


def _data(about: Description) -> Plain:
    """The partition: sizes, labels and hashes."""
    return {
        "train": about.train_samples,
        "test": about.test_samples,
        "labels": about.label_names,
        "counts": about.label_counts,
        "distribution": about.distribution,
        "data_hash": about.data_hash,
        "partition_hash": about.partition_hash,
    }


def _figures(about: Description, rounds: Sequence[ShownRound]) -> list[Plain]:
    """Every metric over the evaluated rounds: what is used, and what the same clients are alone."""
    found = []
    for metric in METRICS[about.task]:
        places = []
        used = []
        alone_rounds = []
        alone = []
        for each in rounds:
            if each.figures is None or metric.recorded_as not in each.figures:
                continue
            places.append(each.round)
            used.append(plain.number(about.mean(metric, each.figures)))
            if each.alone is not None:
                alone_rounds.append(each.round)
                alone.append(plain.number(about.mean(metric, each.alone)))
        if places:
            line = plain.metric(metric)
            line |= {"rounds": places, "used": used, "alone_rounds": alone_rounds, "alone": alone}
            found.append(line)
    return found


def _phases(rounds: Sequence[Mapping[str, float]]) -> dict[str, list[float]]:
    """Seconds by the clock on the wall of every phase in every round."""
    names: list[str] = []
    for seconds in rounds:
        names += [name for name in seconds if name not in names]
    found = {}
    for name in names:
        found[name] = [round(seconds.get(name, 0.0), 5) for seconds in rounds]
    return found


def _trust(shown: ShownCell) -> Plain | None:
    """Who trusts whom over the rounds; None for a method without posteriors over clients."""
    if not shown.knows_trust:
        return None

    about = shown.about
    clusters = found_clusters(about.clients, shown.last.posterior)
    truth = true_groups(about.distribution)
    groups = truth or clusters.cluster_of
    order = sorted(clusters.order, key=lambda client: groups[client])

    # Nodes of the graph are clients, or groups of them where there are too many.
    by_group = len(about.clients) > MOST_NODES
    nodes = list(range(len(about.clients)))
    if by_group:
        nodes = _largest_groups(groups)
    count = max(nodes) + 1
    some = _evenly(len(shown.rounds), min(MOST_ROUNDS, max(2, MOST_WEIGHTS // count**2)))
    places = {name: place for place, name in enumerate(about.clients)}
    matrices = []
    for place in some:
        posterior = shown.rounds[place].posterior
        matrices.append(_mean_weights(posterior, places, nodes, count))
    return {
        "groups": groups,
        "group_word": "distribution" if truth else "cluster",
        "order": order,
        "by_group": by_group,
        "nodes": nodes,
        "rounds": [shown.rounds[place].round for place in some],
        "weights": _packed(matrices),
    }


def _largest_groups(groups: Sequence[int]) -> list[int]:
    """The node of each client: its group, the largest first, the smallest ones together."""
    by_size = [group for group, _ in Counter(groups).most_common()]
    node_of = {group: min(place, MOST_GROUPS - 1) for place, group in enumerate(by_size)}
    return [node_of[group] for group in groups]


def _evenly(count: int, most: int) -> list[int]:
    """At most so many places, evenly from all, the first and the last among them."""
    places = np.linspace(0, count - 1, min(count, most))
    return sorted(set(places.astype(int).tolist()))


def _mean_weights(
    posterior: Sequence[Mapping[str, float]],
    places: Mapping[str, int],
    nodes: Sequence[int],
    count: int,
) -> FloatArray:
    """The weight that the clients of one node (row) give to the models of another (column)."""
    weights: FloatArray = np.zeros((count, count))
    members = np.bincount(nodes, minlength=count)
    for client, row in enumerate(posterior):
        for owner, weight in row.items():
            if owner in places:
                weights[nodes[client], nodes[places[owner]]] += weight
    return weights / np.maximum(members, 1)[:, None]


def _packed(matrices: Sequence[Array]) -> str:
    """All matrices one after another, a byte for each weight: 255 is the whole posterior."""
    scaled = np.rint(255 * np.clip(np.array(matrices), 0.0, 1.0)).astype(np.uint8)
    return base64.b64encode(scaled.tobytes()).decode("ascii")
