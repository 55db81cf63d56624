"""What a measurement says: ratios within one run, which hold on a noisy machine where seconds do
not, and their goals.

A measurement is the plain JSON that `benchmarks.rows` describes; nothing here needs torch.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Literal

import numpy as np

Measurement = Mapping[str, Any]
GIGABYTE = 1e9


@dataclass(frozen=True)
class Ratio:
    """One figure of a measurement."""

    name: str
    title: str
    of: Callable[[Measurement], float]
    better: Literal["higher", "lower"]
    goals: Mapping[str, float] = field(default_factory=dict)
    """Per row, where there is one."""
    rounding: bool = False
    """Whether it measures chance: any value within the goal is as good as any other."""

    def reached(self, row: str, value: float) -> bool:
        """Whether the value is as good as the row's goal, or better."""
        return value >= self.goals[row] if self.better == "higher" else value <= self.goals[row]


@dataclass(frozen=True)
class Spread:
    """A figure over several measurements."""

    values: tuple[float, ...]

    @property
    def middle(self) -> float:
        """The median."""
        return median(self.values)

    @property
    def width(self) -> float:
        """From the lowest to the highest."""
        return max(self.values) - min(self.values)

    def __str__(self) -> str:
        low, high = min(self.values), max(self.values)
        return (
            f"{self.middle:.3g}" if low == high else f"{self.middle:.3g} ({low:.3g} to {high:.3g})"
        )


def spread(ratio: Ratio, measurements: Iterable[Measurement]) -> Spread:
    """This ratio of each measurement."""
    return Spread(tuple(ratio.of(measurement) for measurement in measurements))


def slope(sizes: Sequence[float], values: Sequence[float]) -> float:
    """The power of the size that a value grows with: the slope of a straight line through the
    logarithms.
    """
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def worked(turn: Mapping[str, Any]) -> float:
    """Seconds of E-step and M-step."""
    return float(turn["phases"]["e_step"] + turn["phases"]["m_step"])


def _over_turns(figure: Callable[[Mapping[str, Any]], float]) -> Callable[[Measurement], float]:
    return lambda measurement: median(figure(turn) for turn in measurement["turns"])


def _of_matmul(measurement: Measurement) -> float:
    rate: float = median(measurement["rates"])
    return median(float(turn["flop"]) / worked(turn) / rate for turn in measurement["turns"])


def _worst_difference(when: str) -> Callable[[Measurement], float]:
    return lambda measurement: max(float(turn["difference"][when]) for turn in measurement["turns"])


def _peak(measurement: Measurement) -> float:
    return float(measurement["peak"]) / GIGABYTE


MODELS = (
    Ratio(
        "of_matmul",
        "E- and M-step: part of the matrix-multiply rate",
        _of_matmul,
        "higher",
        {"mlp": 0.65},
    ),
    Ratio(
        "over_bare",
        "E- and M-step: federico / bare loop",
        _over_turns(lambda turn: worked(turn) / sum(turn["bare"].values())),
        "lower",
        {"cnn2": 1.1, "resnet18": 1.15},
    ),
    Ratio(
        "training",
        "training: plain twin / federico",
        _over_turns(lambda turn: turn["plain"]["m_step"] / turn["phases"]["m_step"]),
        "higher",
        {"linear": 20, "mlp": 2, "cnn2": 1.25, "resnet18": 1.15},
    ),
    Ratio(
        "round",
        "whole round: plain twin / federico",
        _over_turns(lambda turn: sum(turn["plain"].values()) / turn["whole"]),
        "higher",
        {"mlp": 2.5, "cnn2": 1.6},
    ),
    Ratio(
        "rest",
        "part of a round that is neither E- nor M-step",
        _over_turns(lambda turn: 1 - worked(turn) / turn["whole"]),
        "lower",
        {"mlp": 0.1, "cnn2": 0.1},
    ),
    Ratio(
        "before",
        "losses before training: difference to the twin's",
        _worst_difference("before"),
        "lower",
        dict.fromkeys(("linear", "mlp", "cnn2", "resnet18"), 1e-4),
        rounding=True,
    ),
    Ratio(
        "after",
        "mean test loss after it: difference to the twin's",
        _worst_difference("after"),
        "lower",
        dict.fromkeys(("linear", "mlp", "cnn2", "resnet18"), 1e-2),
        rounding=True,
    ),
    Ratio("peak", "peak memory (GB)", _peak, "lower"),
)


def _slope_of(what: str, work: Sequence[float]) -> Callable[[Measurement], float]:
    return lambda measurement: slope(work, [point[what] for point in measurement["points"]])


def _per_size(
    what: str, sizes: Sequence[float], small: float, large: float
) -> Callable[[Measurement], float]:
    def per_size(measurement: Measurement, size: float) -> float:
        return float(measurement["points"][sizes.index(size)][what]) / size

    return lambda measurement: per_size(measurement, large) / per_size(measurement, small)


def _per_further(
    what: str, sizes: Sequence[float], middle: float
) -> Callable[[Measurement], float]:
    """What one more costs beyond the middle size, over what it costs up to there: a fixed part
    falls out.
    """
    place = sizes.index(middle)

    def per_further(measurement: Measurement, first: int, last: int) -> float:
        points = measurement["points"]
        return float(points[last][what] - points[first][what]) / (sizes[last] - sizes[first])

    return lambda measurement: (
        per_further(measurement, place, len(sizes) - 1) / per_further(measurement, 0, place)
    )


def growth(work: Sequence[float]) -> tuple[Ratio, ...]:
    """Of a series with these amounts of work: time and memory may grow no faster."""
    goals = dict.fromkeys(
        ("growth-clients", "growth-neighbors", "growth-samples", "growth-model"), 1.1
    )
    return (
        Ratio(
            "time_slope",
            "power of the work that time grows with",
            _slope_of("seconds", work),
            "lower",
            goals,
        ),
        Ratio(
            "memory_slope",
            "power of the work that memory grows with",
            _slope_of("memory", work),
            "lower",
            goals,
        ),
    )


def growth_in_clients(clients: Sequence[float]) -> tuple[Ratio, ...]:
    """The same for the number of clients, and what a client of many costs against one of few."""
    small, middle, large = 256, 1024, 4096
    time, memory = (
        _per_size("seconds", clients, small, large),
        _per_further("memory", clients, middle),
    )
    return (
        *growth(clients),
        Ratio(
            "client_time",
            f"time per client, K={large} / K={small}",
            time,
            "lower",
            {"growth-clients": 1.5},
        ),
        Ratio(
            "client_memory",
            f"memory per further client, beyond K={middle} / up to it",
            memory,
            "lower",
            {"growth-clients": 1.1},
        ),
    )


ENDURANCE = (
    Ratio("peak", "peak memory (GB)", _peak, "lower", {"endurance": 6.0}),
    Ratio(
        "aging",
        "last round / median round",
        lambda one: float(one["last"] / one["seconds"]),
        "lower",
    ),
)
RANKS = (
    Ratio(
        "over_one",
        "2 ranks x 1 thread / 1 process x 2 threads",
        lambda one: float(one["ranks"] / one["one"]),
        "lower",
        {"ranks": 1.15},
    ),
)
