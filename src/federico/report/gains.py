"""What a row is worth to the clients: gains against the reference row, and how sure they are.

A gain is a difference turned so that positive is better: points of accuracy, or R2.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from federico.runs.metric import Metric
from federico.types import FloatArray

LEVEL = 0.95
"""The level of intervals."""
STANDARD_ERRORS = 2.0
"""A client that is worse by more than this many standard errors of its test set is so clearly."""

Interval: TypeAlias = tuple[float, float]


@dataclass(frozen=True)
class ClientTestSet:
    """What has to be known of a client's test set to judge a gain on it."""

    samples: int
    relative_variance: float = 1.0
    """Variance of its targets, where that of all clients together is 1; 1 for classes."""


@dataclass(frozen=True)
class ClientGain:
    """What one client gained over the reference in one run."""

    client: str
    figure: float
    reference: float
    """The figure that the client has with the reference row."""
    gain: float
    """In R2 it is a share of the variance of all clients' test targets together: R2 of a few nearly
    equal targets can be anything, and a loss on them costs next to nothing."""
    standard_error: float
    """Of the reference's figure, as uncertain as the client's own test set leaves it."""

    @property
    def is_clearly_worse(self) -> bool:
        """Whether the loss is more than its test set makes likely by chance."""
        return self.gain < -STANDARD_ERRORS * self.standard_error


@dataclass(frozen=True)
class GainsOfClients:
    """The gains of all clients in all runs that can be compared client by client."""

    by_seed: dict[int, tuple[ClientGain, ...]]

    @property
    def better(self) -> float:
        """The share of clients that are better off than with the reference, over all runs."""
        return self._share(lambda client: client.gain > 0)

    @property
    def not_worse(self) -> float:
        """The share of clients that are better off or as well off, over all runs."""
        return self._share(lambda client: client.gain >= 0)

    @property
    def clearly_worse(self) -> float:
        """The share of clients that are worse off by more than two standard errors."""
        return self._share(lambda client: client.is_clearly_worse)

    @property
    def worst(self) -> float:
        """The lowest gain of a client in a run, mean over runs."""
        lowest = [min(client.gain for client in run) for run in self.by_seed.values()]
        return float(np.mean(lowest))

    @property
    def spread(self) -> float | None:
        """Standard deviation of the gain over the clients of a run, mean over runs.

        None where a run has a single client, or where somebody has diverged.
        """
        deviations = []
        for run in self.by_seed.values():
            gains = [client.gain for client in run]
            if len(gains) < 2 or not np.isfinite(gains).all():
                return None
            deviations.append(np.std(gains, ddof=1))
        return float(np.mean(deviations))

    def _share(self, holds: Callable[[ClientGain], bool]) -> float:
        answers = [holds(client) for run in self.by_seed.values() for client in run]
        return sum(answers) / len(answers)


def gains_of_run(
    ours: Mapping[str, float],
    reference: Mapping[str, float],
    test_sets: Mapping[str, ClientTestSet],
    metric: Metric,
) -> tuple[ClientGain, ...]:
    """The gain of every client that has a figure in both."""
    found = []
    for client, value in ours.items():
        if client not in reference or client not in test_sets:
            continue
        theirs = reference[client]
        test_set = test_sets[client]
        gain = test_set.relative_variance * gain_of(value, theirs, metric)
        error = test_set.relative_variance * standard_error(theirs, test_set.samples, metric)
        found.append(ClientGain(client, value, theirs, gain, error))
    return tuple(found)


def relative_variances(
    figures: Mapping[str, Sequence[float | None]], samples: Sequence[int], metric: Metric
) -> list[float]:
    """The variance of each client's test targets against their weighted mean; 1 where unknown.

    It follows from R2, which is 1 minus the squared error over the variance. Clients count by the
    size of their data, so that their gains have the mean that R2 of all of them has.
    """
    if not metric.explains_variance:
        return [1.0] * len(samples)

    variances = np.full(len(samples), np.nan)  # [clients]
    pairs = zip(figures[metric.recorded_as], figures["loss"], strict=True)
    for client, (explained, error) in enumerate(pairs):
        if explained is not None and error is not None and explained < 1:
            variances[client] = error / (1 - explained)
    known = ~np.isnan(variances)
    if not known.any():
        return [1.0] * len(samples)

    weights = np.array(samples)  # [clients]
    of_all = np.average(variances[known], weights=weights[known])
    relative: list[float] = np.where(known, variances / of_all, 1.0).tolist()
    return relative


def gain_of(ours: float, reference: float, metric: Metric) -> float:
    """One figure against the other; two that have both diverged are equally bad."""
    if ours == reference:
        return 0.0  # infinite minus infinite would not be a number
    return metric.gain(ours - reference)


def standard_error(value: float, samples: int, metric: Metric) -> float:
    """How far the figure of a test set of this many samples may be off by chance.

    Accuracy is a share: two right and two wrong answers are added (Agresti and Coull), else a
    client that is always right would have no error at all. A mean squared error of normal errors
    has the relative error sqrt(2 / samples), and R2 is 1 minus such an error in units of the
    variance.
    """
    if metric.recorded_as == "accuracy":
        share = (value * samples + 2) / (samples + 4)
        return math.sqrt(share * (1 - share) / (samples + 4))
    relative = math.sqrt(2 / samples)
    if metric.recorded_as == "r2":
        return (1 - value) * relative
    return value * relative


def mean_interval(differences: Sequence[float]) -> Interval | None:
    """The interval that holds the mean over runs, by Student's t.

    None for a single run, and where one has diverged.
    """
    values = np.array(differences)  # [runs]
    if len(values) < 2 or not np.isfinite(values).all():
        return None
    from scipy.stats import t

    mean = float(values.mean())
    error = float(values.std(ddof=1)) / math.sqrt(len(values))
    half = float(t.ppf((1 + LEVEL) / 2, len(values) - 1)) * error
    return (mean - half, mean + half)


def paired_p_value(differences: Sequence[float]) -> float | None:
    """Wilcoxon's signed-rank test over runs: how likely such differences are if both are as good.

    None for a single run, and where one has diverged.
    """
    values: FloatArray = np.array(differences)  # [runs]
    if len(values) < 2 or not np.isfinite(values).all():
        return None
    if not values.any():
        return 1.0  # the test has nothing to rank
    from scipy.stats import wilcoxon

    return float(wilcoxon(values).pvalue)
