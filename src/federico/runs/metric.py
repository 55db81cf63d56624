"""The figures that a run is judged by: their names, which way is better, how they are written.

The status of a peer is shown with this file, and must be quick: numpy is imported where needed.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from federico.types import Task

MINUS = "\N{MINUS SIGN}"
UNDEFINED = "-"
TRIGGER_SUCCESS = "trigger_success"
"""The name in records and results of how often the mark of a backdoor decides."""
TOO_LARGE_FOR_DECIMALS = 100
"""An R2 as bad as this or worse is written without decimals."""
TOO_LARGE_FOR_A_COLUMN = 1e6
"""From here on figures of a column are written one by one, with an exponent."""
SPOKEN_WITH_A_VOWEL = "aeioAEIMR"
"""First letters of names that are said with a vowel: an R2, an accuracy."""


@dataclass(frozen=True)
class Metric:
    """A figure of a client's predictions for its own test data."""

    name: str
    """Its name for people."""
    recorded_as: str
    """The name it has in records and results."""
    higher_is_better: bool = False
    in_percent: bool = False
    """Whether it is kept as a fraction and shown in percent."""
    explains_variance: bool = False
    """Whether it is 1 - loss / variance, such as R2: then clients also count by their variance, and
    the mean says how much of the variance of all clients is explained."""

    @property
    def axis(self) -> str:
        """The label of an axis that shows it."""
        if self.in_percent:
            return f"{self.name} (%)"
        return self.name

    @property
    def with_article(self) -> str:
        """Its name in a sentence: a mean squared error, an R2."""
        article = "a"
        if self.name[0] in SPOKEN_WITH_A_VOWEL:
            article = "an"
        return f"{article} {self.name}"

    @property
    def worst(self) -> float:
        """What stands for a client whose model has diverged."""
        if self.higher_is_better:
            return -math.inf
        return math.inf

    def of_clients(self, figures: Mapping[str, Sequence[float | None]]) -> list[float]:
        """Each client's figure from all that was recorded of one round.

        A model without a finite loss has diverged, and its figure is the worst there is. A figure
        that a client's test data does not define, such as R2 on a single sample, is NaN.
        """
        by_client = []
        for value, loss in zip(figures[self.recorded_as], figures["loss"], strict=True):
            if value is not None:
                by_client.append(value)
            elif loss is None:
                by_client.append(self.worst)
            else:
                by_client.append(math.nan)
        return by_client

    def mean(self, figures: Mapping[str, Sequence[float | None]], samples: Sequence[int]) -> float:
        """The paper's figure: each client's own, weighted by the size of its data.

        A client that has diverged makes the mean infinite; one for whom the figure is undefined is
        left out.
        """
        import numpy as np

        # As in `of_clients`, but of thousands of clients at once; None becomes NaN.
        by_client = np.array(figures[self.recorded_as], dtype=np.float64)  # [clients]
        losses = np.array(figures["loss"], dtype=np.float64)  # [clients]
        has_diverged = np.isnan(by_client) & np.isnan(losses)
        if has_diverged.any() or np.isinf(by_client).any():
            return self.worst

        weights = np.array(samples, dtype=np.float64)  # [clients]
        defined = ~np.isnan(by_client)
        if self.explains_variance:
            # R2 of a few nearly equal test targets can be anything, and must not count like others.
            imperfect = defined & (by_client < 1)
            if imperfect.any():
                weights[imperfect] *= losses[imperfect] / (1 - by_client[imperfect])
                defined = imperfect
        if not weights[defined].any():
            return math.nan
        return float(np.average(by_client[defined], weights=weights[defined]))

    def drawn(self, value: float) -> float:
        """The value as an axis shows it; a gap for what is not finite."""
        if not math.isfinite(value):
            return math.nan
        return self.scaled(value)

    def scaled(self, value: float) -> float:
        """The value in the unit of the axis."""
        if self.in_percent:
            return 100 * value
        return value

    def text(self, value: float) -> str:
        """The value with its unit."""
        if self.in_percent:
            return f"{self.bare(value)} %"
        return self.bare(value)

    def named(self, value: float) -> str:
        """The value with its unit and its name: 87.5 % accuracy, R2 0.51."""
        if self.in_percent:
            return f"{self.text(value)} {self.name}"
        return f"{self.name} {self.text(value)}"

    def decimals(self, values: Iterable[float]) -> int | None:
        """How many decimals all figures of a column have; None where `bare` alone says it.

        The largest has three digits that count, and up to three decimals the smallest as well.
        """
        if self.in_percent or self.explains_variance:
            return None
        sizes = [abs(value) for value in values if math.isfinite(value) and value != 0]
        if not sizes or max(sizes) >= TOO_LARGE_FOR_A_COLUMN:
            return None
        for_largest = _decimals_of_three_digits(max(sizes))
        for_smallest = _decimals_of_three_digits(min(sizes))
        return max(for_largest, min(3, for_smallest))

    def bare(self, value: float, decimals: int | None = None) -> str:
        """The value without its unit, where a heading gives it; `decimals` as in its column."""
        if math.isnan(value):
            return UNDEFINED
        if math.isinf(value):
            return "diverged"
        shown = f"{value:.3g}" if decimals is None else f"{value:.{decimals}f}"
        if self.explains_variance and abs(value) < TOO_LARGE_FOR_DECIMALS:
            shown = f"{value:.3f}"
        if self.in_percent:
            shown = f"{self.scaled(value):.1f}"
        if shown.startswith("-"):
            shown = MINUS + shown.removeprefix("-")
        return shown

    def spread(self, sd: float | None) -> str:
        """What follows a figure: its standard deviation, or nothing."""
        if not sd:
            return ""
        if self.in_percent:
            return f" ± {self.scaled(sd):.1f}"
        if self.explains_variance and sd < TOO_LARGE_FOR_DECIMALS:
            return f" ± {sd:.3f}"
        return f" ± {sd:.2g}"

    def distance(self, difference: float) -> str:
        """The size of a difference: 6.9 points."""
        size = self.bare(abs(difference))
        if self.in_percent:
            return f"{size} points"
        return size

    def signed(self, difference: float) -> str:
        """A difference with its sign: +6.9; without one where nothing but zeros are shown."""
        if not math.isfinite(difference):
            return "-"
        size = self.bare(abs(difference))
        sign = ""
        if size.strip("0."):
            sign = "+" if difference > 0 else MINUS
        return sign + size

    def gain(self, difference: float) -> float:
        """The difference turned so that positive is better."""
        if self.higher_is_better:
            return difference
        return -difference


ACCURACY = Metric("accuracy", "accuracy", higher_is_better=True, in_percent=True)
LOG_LOSS = Metric("log loss", "loss")
AUROC = Metric("AUROC", "auroc", higher_is_better=True, in_percent=True)
MACRO_F1 = Metric("macro F1", "macro_f1", higher_is_better=True, in_percent=True)
CALIBRATION_ERROR = Metric("calibration error", "calibration_error", in_percent=True)

R2 = Metric("R2", "r2", higher_is_better=True, explains_variance=True)
SQUARED_ERROR = Metric("mean squared error", "loss")
ROOT_SQUARED_ERROR = Metric("RMSE", "rmse")
ABSOLUTE_ERROR = Metric("MAE", "mae")
SKILL = Metric(
    "R2 against the training mean", "skill", higher_is_better=True, explains_variance=True
)

METRICS: dict["Task", tuple[Metric, ...]] = {
    "classification": (ACCURACY, LOG_LOSS, AUROC, MACRO_F1, CALIBRATION_ERROR),
    "regression": (R2, ROOT_SQUARED_ERROR, ABSOLUTE_ERROR, SQUARED_ERROR, SKILL),
}
"""The figures of a task; the first is the one that a run is judged by."""


def _decimals_of_three_digits(size: float) -> int:
    """How many decimals a number of this size needs to be shown with three digits that count."""
    first_digit = math.floor(math.log10(size))
    return max(0, 2 - first_digit)


def metric_of(task: "Task") -> Metric:
    """The figure that a task is judged by."""
    return METRICS[task][0]


def tuning_metric(task: "Task") -> Metric:
    """The figure that learning rates are chosen by, which the smallest validation part defines."""
    if task == "classification":
        return ACCURACY
    return SQUARED_ERROR


def metric_in(figures: Mapping[str, object]) -> Metric:
    """The figure that a run is judged by, from the names of all that were recorded."""
    if ACCURACY.recorded_as in figures:
        return ACCURACY
    return R2
