"""One cell, round by round: who trusts whom, figures, bytes and seconds, and the clients' data."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter

from federico.errors import RunError
from federico.report.about_client import about_client, evidence_of
from federico.report.clusters import found_clusters
from federico.report.drawing import true_groups
from federico.runs.layout import CellDir, Description
from federico.runs.metric import METRICS
from federico.runs.records import Record, iterate_some_parts, read_last_record
from federico.types import Array, FloatArray
from federico.ui import plain
from federico.ui.plain import Plain

MOST_NODES = 128
"""With more clients than this the graph shows clusters, and clients on demand."""
MOST_ROUNDS = 400
MOST_SERIES = 8
"""Models whose weight over the rounds is kept of each client of many."""


@dataclass(frozen=True)
class ShownRound:
    """What is shown of every round, see `Record`."""

    round: int
    figures: dict[str, list[float | None]] | None
    posterior: list[dict[str, float]]
    neighbors: list[list[str]]
    sent: list[int]
    received: list[int]
    moved: int
    alone: dict[str, list[float | None]] | None = None


SHOWN_ROUND = TypeAdapter(ShownRound)


def cell_view(path: Path) -> Plain:
    """All rounds of a cell."""
    cell = CellDir(path)
    about = cell.description
    last = read_last_record(path)
    if last is None:
        raise RunError(f"{path.name}: has not finished a round yet; wait for the first")
    rounds = list(iterate_some_parts(path, SHOWN_ROUND, MOST_ROUNDS))
    spent = cell.spent
    return {
        "name": about.title or about.method,
        "seed": about.seed,
        "clients": about.clients,
        "rounds": [each.round for each in rounds],
        "trust": _trust(about, last, rounds),
        "figures": _figures(about, rounds),
        "sent": np.sum([each.sent for each in rounds], axis=0).tolist(),
        "received": np.sum([each.received for each in rounds], axis=0).tolist(),
        "moved": [each.moved for each in rounds],
        "phases": _phases([each.seconds for each in spent]),
        "data": _data(about),
    }


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
    samples = np.add(about.train_samples, about.test_samples).tolist()
    found = []
    for metric in METRICS[about.task]:
        places = []
        used = []
        alone = []
        for each in rounds:
            if each.figures is None or metric.recorded_as not in each.figures:
                continue
            places.append(each.round)
            used.append(plain.number(metric.mean(each.figures, samples)))
            if each.alone is not None:
                alone.append(plain.number(metric.mean(each.alone, samples)))
        if places:
            line = plain.metric(metric) | {"rounds": places, "used": used, "alone": alone}
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


def _trust(about: Description, last: Record, rounds: Sequence[ShownRound]) -> Plain | None:
    """Who trusts whom over the rounds; None for a method without posteriors over clients."""
    owners: set[str] = set()
    for row in last.posterior:
        owners.update(row)
    if owners.isdisjoint(about.clients):
        return None

    clusters = found_clusters(about.clients, last.posterior)
    truth = true_groups(about.distribution)
    groups = truth or clusters.cluster_of
    order = sorted(clusters.order, key=lambda client: groups[client])
    known = None
    if truth is not None:
        known = dict(zip(about.clients, truth, strict=True))
    sentences = [about_client(each, known) for each in evidence_of(about, last)]

    places = {name: place for place, name in enumerate(about.clients)}
    shown: Plain = {
        "groups": groups,
        "group_word": "distribution" if truth else "cluster",
        "order": order,
        "sentences": sentences,
        "moves": _moves(about, rounds),
    }
    if len(about.clients) <= MOST_NODES:
        matrices = [_matrix(each.posterior, places) for each in rounds]
        return shown | {"by_cluster": False, "weights": _packed(matrices)}
    matrices = [_between_groups(each.posterior, places, groups) for each in rounds]
    return shown | {
        "by_cluster": True,
        "weights": _packed(matrices),
        "series": _series(about, rounds),
    }


def _matrix(posterior: Sequence[Mapping[str, float]], places: Mapping[str, int]) -> FloatArray:
    """How much each client (row) trusts each model (column)."""
    matrix: FloatArray = np.zeros((len(places), len(places)))
    for client, row in enumerate(posterior):
        for owner, weight in row.items():
            if owner in places:
                matrix[client, places[owner]] = weight
    return matrix


def _between_groups(
    posterior: Sequence[Mapping[str, float]], places: Mapping[str, int], groups: Sequence[int]
) -> FloatArray:
    """The mean weight that clients of one group (row) give to all models of another (column)."""
    distinct = sorted(set(groups))
    number = {group: place for place, group in enumerate(distinct)}
    matrix: FloatArray = np.zeros((len(distinct), len(distinct)))
    members = np.zeros(len(distinct))
    for client, row in enumerate(posterior):
        mine = number[groups[client]]
        members[mine] += 1
        for owner, weight in row.items():
            if owner in places:
                matrix[mine, number[groups[places[owner]]]] += weight
    return matrix / np.maximum(members, 1)[:, None]


def _packed(matrices: Sequence[Array]) -> str:
    """All matrices one after another, a byte for each weight: 255 is the whole posterior."""
    scaled = np.rint(255 * np.array(matrices)).astype(np.uint8)  # [rounds, nodes, nodes]
    return base64.b64encode(scaled.tobytes()).decode("ascii")


def _series(about: Description, rounds: Sequence[ShownRound]) -> list[Plain]:
    """For every client the models that it ever trusted most, and their weight in each round."""
    found = []
    for client in range(len(about.clients)):
        highest: dict[str, float] = {}
        for each in rounds:
            for owner, weight in each.posterior[client].items():
                highest[owner] = max(weight, highest.get(owner, 0.0))
        owners = sorted(highest, key=lambda owner: -highest[owner])[:MOST_SERIES]
        series = {}
        for owner in owners:
            weights = [each.posterior[client].get(owner, 0.0) for each in rounds]
            series[owner] = [round(100 * weight) for weight in weights]
        found.append(series)
    return found


def _moves(about: Description, rounds: Sequence[ShownRound]) -> list[list[Plain]]:
    """For every client the rounds in which its trust moved most, and whose models it judged then.

    Trust follows from evidence on held-out samples, which a client has only of models it visits.
    """
    found: list[list[Plain]] = []
    for client in range(len(about.clients)):
        moves = []
        for before, now in pairwise(rounds):
            old = before.posterior[client]
            new = now.posterior[client]
            for owner in old.keys() | new.keys():
                change = new.get(owner, 0.0) - old.get(owner, 0.0)
                if abs(change) >= 0.05:
                    visited = now.neighbors[client] if now.neighbors else []
                    moves.append((abs(change), now.round, owner, old, new, visited))
        moves.sort(key=lambda move: -move[0])
        lines = []
        for _, index, owner, old, new, visited in moves[:3]:
            lines.append(
                {
                    "round": index,
                    "owner": owner,
                    "before": round(old.get(owner, 0.0), 3),
                    "after": round(new.get(owner, 0.0), 3),
                    "visited": visited,
                }
            )
        found.append(lines)
    return found
