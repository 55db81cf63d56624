"""The one figure a run is judged by, and how it is written for people."""

import math
from dataclasses import dataclass

from federico.runs.layout import Description
from federico.runs.records import Record, mean_accuracy, mean_loss
from federico.types import Task

MINUS = "\N{MINUS SIGN}"


@dataclass(frozen=True)
class Metric:
    """Accuracy is kept as a fraction and shown in percent; an error is kept and shown as it is."""

    name: str
    higher_is_better: bool

    @property
    def axis(self) -> str:
        """The label of an axis that holds it."""
        return f"{self.name} (%)" if self.higher_is_better else self.name

    def mean(self, record: Record, of: Description) -> float | None:
        """The paper's figure: each client's own test data, weighted by the size of its whole data."""
        sizes = [
            train + test for train, test in zip(of.train_samples, of.test_samples, strict=True)
        ]
        return mean_accuracy(record, sizes) if self.higher_is_better else mean_loss(record, sizes)

    def per_client(self, record: Record) -> list[float]:
        """Every client's own, in the cell's order; nothing where the round was not evaluated."""
        if self.higher_is_better:
            return record.accuracy or []
        return [math.inf if loss is None else loss for loss in record.loss or []]

    def drawn(self, value: float) -> float:
        """The value as an axis shows it; a gap for what is not finite."""
        return self.scaled(value) if math.isfinite(value) else math.nan

    def scaled(self, value: float) -> float:
        """In the unit of the axis."""
        return 100 * value if self.higher_is_better else value

    def text(self, value: float) -> str:
        """With its unit."""
        return f"{self.bare(value)} %" if self.higher_is_better else self.bare(value)

    def bare(self, value: float) -> str:
        """Without the unit, where a heading gives it."""
        if not math.isfinite(value):
            return "diverged"
        return f"{self.scaled(value):.1f}" if self.higher_is_better else f"{value:.3g}"

    def spread(self, sd: float | None) -> str:
        """What follows a figure: its standard deviation, or nothing."""
        if not sd:
            return ""
        return f" ± {self.scaled(sd):.1f}" if self.higher_is_better else f" ± {sd:.2g}"

    def distance(self, difference: float) -> str:
        """The size of a difference: 6.9 points."""
        size = self.bare(abs(difference))
        return f"{size} points" if self.higher_is_better else size

    def signed(self, difference: float) -> str:
        """A difference with its sign: +6.9."""
        sign = MINUS if difference < 0 else "+" * (difference > 0)
        return sign + self.bare(abs(difference)) if math.isfinite(difference) else "-"

    def gain(self, difference: float) -> float:
        """The difference turned so that positive is better."""
        return difference if self.higher_is_better else -difference


ACCURACY = Metric("accuracy", higher_is_better=True)
SQUARED_ERROR = Metric("mean squared error", higher_is_better=False)


def metric_of(task: Task) -> Metric:
    """What a task is judged by."""
    return ACCURACY if task == "classification" else SQUARED_ERROR
