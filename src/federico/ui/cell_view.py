"""One cell, round by round: who trusts whom, figures, bytes and seconds, and the clients' data."""

import base64
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from federico.report.clusters import found_clusters
from federico.report.drawing import true_groups
from federico.runs.layout import Description
from federico.runs.metric import METRICS, Metric
from federico.runs.records import weights_kept
from federico.stopwatch import Spent
from federico.types import IntArray
from federico.ui import plain
from federico.ui.plain import Plain
from federico.ui.rounds import ShownCell, ShownRound

MOST_NODES = 128
"""With more clients than this the graph shows clusters, and clients on demand."""
MOST_GROUPS = 64
"""Clusters of many clients that are shown; the smallest of more are one together."""
MOST_WEIGHTS = 2_000_000
"""Weights that are sent at most: rounds are left out where there are more."""
SHARES = {
    "together_share": ("share of the collaborators in predictions", True),
    "effective_collaborators": ("effective collaborators", False),
    "on_own_distribution": ("trust in clients of the own distribution", True),
}
"""What records say of every client beside figures: its name for people, and if it is in percent."""


def cell_view(shown: ShownCell) -> Plain:
    """All rounds of a cell."""
    about = shown.about
    rounds = shown.rounds
    spent = of_rounds(shown.spent, rounds)
    traffic = shown.traffic
    return {
        "name": about.title or about.method,
        "seed": about.seed,
        "clients": about.clients,
        "rounds": [each.round for each in rounds],
        "trust": _trust(shown),
        "figures": _figures(about, rounds),
        "sent": traffic.sent,
        "received": traffic.received,
        "evaluation_sent": traffic.evaluation_sent,
        "evaluation_received": traffic.evaluation_received,
        "moved": [each.moved for each in rounds],
        "evaluation_moved": [each.evaluation_moved for each in rounds],
        "phases": phases([each.seconds for each in spent]),
        "seconds": _of_clients(shown),
        "data": _data(about),
    }


def of_rounds(spent: Sequence[Spent], rounds: Sequence[ShownRound]) -> list[Spent]:
    """What each of these rounds took; nothing where one is not known."""
    if not rounds or len(spent) < rounds[-1].round:
        return []
    return [spent[each.round - 1] for each in rounds]


def is_shared_out(spent: Sequence[Spent], clients: int) -> bool:
    """Whether it is known of all these rounds how much was done for each client."""
    for each in spent:
        if not each.samples:
            return False
        for counts in each.samples.values():
            if len(counts) != clients or sum(counts) == 0:
                return False
    return True


def share_of_client(spent: Spent, place: int) -> dict[str, float]:
    """The seconds of each phase that are the share of the client at this place.

    It is the share of the samples that went through models for this client. Phases in which no
    model meets samples, such as writing records, are nobody's.
    """
    found = {}
    for phase, samples in spent.samples.items():
        found[phase] = spent.seconds.get(phase, 0.0) * samples[place] / sum(samples)
    return found


def _of_clients(shown: ShownCell) -> list[float]:
    """The seconds of all rounds that are the share of each client; nothing where not counted."""
    clients = len(shown.about.clients)
    spent = shown.spent[: shown.last.round]
    if len(spent) < shown.last.round or not is_shared_out(spent, clients):
        return []
    seconds = np.zeros(clients)
    for each in spent:
        for phase, samples in each.samples.items():
            counts = np.array(samples)
            seconds += each.seconds.get(phase, 0.0) * counts / counts.sum()
    return [float(f"{value:.4g}") for value in seconds.tolist()]


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
    """Every metric over the evaluated rounds: of what is used, alone and with collaborators."""
    found = []
    for metric in METRICS[about.task]:
        places = []
        used = []
        alone_rounds = []
        alone: list[float | None] = []
        together: list[float | None] = []
        for each in rounds:
            if each.figures is None or metric.recorded_as not in each.figures:
                continue
            means = _means(each, about, metric)
            places.append(each.round)
            used.append(means[0])
            if len(means) > 1:
                alone_rounds.append(each.round)
                alone.append(means[1])
                together.append(means[2])
        if places:
            line = plain.metric(metric)
            line |= {"rounds": places, "used": used, "alone_rounds": alone_rounds, "alone": alone}
            line["together"] = together
            found.append(line)
    return found + _shares(about, rounds)


def _shares(about: Description, rounds: Sequence[ShownRound]) -> list[Plain]:
    """The share of the collaborators and the like over the rounds, mean over honest clients."""
    found = []
    for key, (name, in_percent) in SHARES.items():
        places = []
        means = []
        for each in rounds:
            if key not in each.shares:
                continue
            values = [each.shares[key][place] for place in about.honest]
            places.append(each.round)
            means.append(plain.number(sum(values) / len(values) if values else None))
        if places:
            found.append(
                {
                    "name": name,
                    "key": key,
                    "percent": in_percent,
                    "higher": True,
                    "rounds": places,
                    "used": means,
                    "alone_rounds": [],
                    "alone": [],
                    "together": [],
                }
            )
    return found


def _means(shown: ShownRound, about: Description, metric: Metric) -> tuple[float | None, ...]:
    """The mean over clients of what is used, and of what they are alone and with collaborators.

    Only the first where the others are not known.
    """
    made: tuple[float | None, ...] | None = shown.made.get(metric.recorded_as)
    if made is None:
        parts = [shown.figures]
        if shown.alone is not None and shown.together is not None:
            parts += [shown.alone, shown.together]
        made = tuple(plain.number(about.mean(metric, part or {})) for part in parts)
        shown.made[metric.recorded_as] = made
    return made


def phases(rounds: Sequence[Mapping[str, float]]) -> dict[str, list[float]]:
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
    count = len(about.clients)
    groups = true_groups(about.distribution)
    # Clients of one true distribution stand in the order in which the run names them: that does
    # not change while the run goes on. Clusters are looked for only where they are needed.
    word = "distribution"
    order = list(range(count))
    if groups is None:
        clusters = found_clusters(about.clients, shown.last.posterior)
        word = "cluster"
        groups = clusters.cluster_of
        order = clusters.order
    in_groups = list(groups)
    order = sorted(order, key=lambda client: in_groups[client])

    # Nodes of the graph are clients, or groups of them where there are too many.
    by_group = count > MOST_NODES
    nodes = np.arange(count)
    if by_group:
        nodes = np.array(_largest_groups(in_groups))
    side = int(nodes.max()) + 1
    some = _evenly(len(shown.rounds), max(2, MOST_WEIGHTS // side**2))
    rounds = [shown.rounds[place] for place in some]
    return {
        "groups": in_groups,
        "group_word": word,
        "order": order,
        "by_group": by_group,
        "nodes": nodes.tolist(),
        "rounds": [each.round for each in rounds],
        "weights": _packed([_mean_weights(each, nodes, by_group) for each in rounds]),
        "weights_kept": min(weights_kept(count), count),
    }


def _largest_groups(groups: Sequence[int]) -> list[int]:
    """The node of each client: its group, the largest first, the smallest ones together."""
    by_size = [group for group, _ in Counter(groups).most_common()]
    node_of = {group: min(place, MOST_GROUPS - 1) for place, group in enumerate(by_size)}
    return [node_of[group] for group in groups]


def _evenly(count: int, most: int) -> list[int]:
    """At most this many places, evenly from all, the first and the last among them."""
    places = np.linspace(0, count - 1, min(count, most))
    return sorted(set(places.astype(int).tolist()))


def _mean_weights(shown: ShownRound, nodes: IntArray, by_group: bool) -> bytes:
    """The weight that the clients of one node (row) give to the models of another (column).

    A byte for each: whole numbers of 255ths.
    """
    # Clusters may be others after every round, so only the weights of clients are kept.
    if not by_group and "weights" in shown.made:
        made: bytes = shown.made["weights"]
        return made

    trust = shown.trust
    is_client = trust.owners < len(nodes)
    givers = nodes[trust.clients[is_client]]
    owners = nodes[trust.owners[is_client]]
    side = int(nodes.max()) + 1
    sums = np.bincount(
        givers * side + owners, weights=trust.weights[is_client], minlength=side * side
    )
    members = np.bincount(nodes, minlength=side)
    weights = np.nan_to_num(sums).reshape(side, side) / np.maximum(members, 1)[:, None]
    packed = np.rint(255 * np.clip(weights, 0.0, 1.0)).astype(np.uint8).tobytes()
    if not by_group:
        shown.made["weights"] = packed
    return packed


def _packed(matrices: Sequence[bytes]) -> str:
    """All rounds end to end, as text."""
    return base64.b64encode(b"".join(matrices)).decode("ascii")
