"""Is it worth it? What each client is alone, with its collaborators, and with what it uses.

Known where the method has each client train a private model, which is its control: the same run
says what the client would be alone.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from federico.report.gains import gain_of, relative_variances
from federico.runs.metric import Metric
from federico.runs.results import CellResult


@dataclass(frozen=True)
class WorthToClient:
    """The figures of one client that a task is judged by, of one run or mean over runs."""

    client: str
    train_samples: float
    alone: float
    """Of the model that the client trained alone."""
    together: float
    """Of its collaborators' models without that one."""
    used: float
    """Of what it predicts with."""
    together_share: float
    """How much the collaborators' models count in it, from 0 to 1."""
    together_chance: float | None
    """How probable it is that they do better than training alone, as held-out samples tell; None
    where nothing can be said. Over runs it is the mean of those that say it."""
    gain: float
    """What is used against training alone; positive is better. That of R2 is in shares of the
    variance of all clients' test targets, as R2 of a few nearly equal targets can be anything."""
    gain_together: float
    """The same of the collaborators' models."""


@dataclass(frozen=True)
class WorthToAll:
    """How many clients are better off than alone, and by how much."""

    better: int
    as_good: int
    worse: int
    median: float
    lowest: float
    highest: float

    @property
    def clients(self) -> int:
        """All clients that can be compared."""
        return self.better + self.as_good + self.worse


def worth_of_cell(cell: CellResult, metric: Metric) -> dict[str, WorthToClient]:
    """Every client of a cell whose test data defines the figure; none without private models."""
    comparisons = cell.comparisons
    if comparisons is None:
        return {}

    alone = metric.of_clients(comparisons.alone)
    together = metric.of_clients(comparisons.together)
    used = metric.of_clients(comparisons.used)
    samples = np.add(cell.train_samples, cell.test_samples).tolist()
    units = relative_variances(comparisons.used, samples, metric)
    found: dict[str, WorthToClient] = {}
    for place, client in enumerate(cell.clients):
        worth = WorthToClient(
            client=client,
            train_samples=cell.train_samples[place],
            alone=alone[place],
            together=together[place],
            used=used[place],
            together_share=comparisons.together_share[place],
            together_chance=comparisons.of(place).together_chance,
            gain=units[place] * gain_of(used[place], alone[place], metric),
            gain_together=units[place] * gain_of(together[place], alone[place], metric),
        )
        figures = (worth.alone, worth.together, worth.used)
        if not any(math.isnan(figure) for figure in figures):
            found[client] = worth
    return found


def mean_over_runs(runs: Sequence[Mapping[str, WorthToClient]]) -> list[WorthToClient]:
    """Every client, mean over the runs that have a client of that name."""
    by_client: dict[str, list[WorthToClient]] = defaultdict(list)
    for run in runs:
        for client, worth in run.items():
            by_client[client].append(worth)

    found = []
    for client, seen in by_client.items():
        found.append(
            WorthToClient(
                client=client,
                train_samples=_mean([each.train_samples for each in seen]),
                alone=_mean([each.alone for each in seen]),
                together=_mean([each.together for each in seen]),
                used=_mean([each.used for each in seen]),
                together_share=_mean([each.together_share for each in seen]),
                together_chance=_mean_of_known([each.together_chance for each in seen]),
                gain=_mean([each.gain for each in seen]),
                gain_together=_mean([each.gain_together for each in seen]),
            )
        )
    return found


def by_gain(clients: Sequence[WorthToClient]) -> list[WorthToClient]:
    """The clients in the order of what they gain, the most first."""
    return sorted(clients, key=lambda worth: -worth.gain)


def worth_to_all(clients: Sequence[WorthToClient]) -> WorthToAll:
    """How many are better off than alone, and by how much."""
    gains = [worth.gain for worth in clients]
    better = sum(gain > 0 for gain in gains)
    worse = sum(gain < 0 for gain in gains)
    return WorthToAll(
        better=better,
        as_good=len(gains) - better - worse,
        worse=worse,
        median=float(np.median(gains)),
        lowest=min(gains),
        highest=max(gains),
    )


def _mean_of_known(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return _mean(known) if known else None


def _mean(values: Sequence[float]) -> float:
    if len(values) == 1:  # thousands of clients of one run
        return float(values[0])
    return float(np.mean(values))
