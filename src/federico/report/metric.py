"""The one figure that a run is judged by, and how it is written for people."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from federico.types import Task

MINUS = "\N{MINUS SIGN}"


@dataclass(frozen=True)
class Metric:
    """Accuracy is kept as a fraction and shown in percent; an error is kept and shown as it is."""

    name: str
    higher_is_better: bool
    recorded_as: Literal["accuracy", "loss"]
    """The name it has in records and results."""

    @property
    def axis(self) -> str:
        """The label of an axis that shows it."""
        if self.higher_is_better:
            return f"{self.name} (%)"
        return self.name

    def mean(self, by_client: Sequence[float | None], samples: Sequence[int]) -> float:
        """The paper's figure: each client's own, weighted by the size of its data.

        A client whose figure is not finite (None) makes the mean infinite.
        """
        figures = [known_or_infinite(value) for value in by_client]
        return float(np.average(figures, weights=samples))

    def drawn(self, value: float) -> float:
        """The value as an axis shows it; a gap for what is not finite."""
        if not math.isfinite(value):
            return math.nan
        return self.scaled(value)

    def scaled(self, value: float) -> float:
        """The value in the unit of the axis."""
        if self.higher_is_better:
            return 100 * value
        return value

    def text(self, value: float) -> str:
        """The value with its unit."""
        if self.higher_is_better:
            return f"{self.bare(value)} %"
        return self.bare(value)

    def bare(self, value: float) -> str:
        """The value without its unit, where a heading gives it."""
        if not math.isfinite(value):
            return "diverged"
        if self.higher_is_better:
            return f"{self.scaled(value):.1f}"
        return f"{value:.3g}"

    def spread(self, sd: float | None) -> str:
        """What follows a figure: its standard deviation, or nothing."""
        if not sd:
            return ""
        if self.higher_is_better:
            return f" ± {self.scaled(sd):.1f}"
        return f" ± {sd:.2g}"

    def distance(self, difference: float) -> str:
        """The size of a difference: 6.9 points."""
        size = self.bare(abs(difference))
        if self.higher_is_better:
            return f"{size} points"
        return size

    def signed(self, difference: float) -> str:
        """A difference with its sign: +6.9."""
        if not math.isfinite(difference):
            return "-"
        sign = ""
        if difference > 0:
            sign = "+"
        elif difference < 0:
            sign = MINUS
        return sign + self.bare(abs(difference))

    def gain(self, difference: float) -> float:
        """The difference turned so that positive is better."""
        if self.higher_is_better:
            return difference
        return -difference


ACCURACY = Metric("accuracy", higher_is_better=True, recorded_as="accuracy")
SQUARED_ERROR = Metric("mean squared error", higher_is_better=False, recorded_as="loss")


def metric_of(task: Task) -> Metric:
    """The figure that a task is judged by."""
    if task == "classification":
        return ACCURACY
    return SQUARED_ERROR


def known_or_infinite(value: float | None) -> float:
    """A client's figure; results store one that is not finite as None."""
    if value is None:
        return math.inf
    return value
