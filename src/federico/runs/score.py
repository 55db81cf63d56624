"""What predictions are worth where the truth is known, added up without keeping them."""

from typing import Protocol

import numpy as np

from federico.learning.metrics import CALIBRATION_BINS, NO_CLASS, SMALLEST_PROBABILITY
from federico.types import Array, FloatArray, IntArray, Task


class Score(Protocol):
    """Judges predictions, some rows at a time."""

    rows: int
    """Rows that were judged so far."""

    def add(self, outputs: FloatArray, targets: Array) -> None:
        """Judge these rows as well."""

    def figures(self) -> dict[str, float]:
        """The figures over all rows, by the names they have in a run; needs at least one row."""


class ClassScore:
    """Judges class probabilities: accuracy, log loss and calibration error."""

    def __init__(self) -> None:
        self.rows = 0
        self._hits = 0
        self._log_loss = 0.0
        # Of each bin of confidence: how much more confidence there was than hits.
        self._excess: FloatArray = np.zeros(CALIBRATION_BINS)

    def add(self, outputs: FloatArray, targets: IntArray) -> None:
        """Judge probabilities [rows, classes] by the true classes [rows]."""
        self.rows += len(targets)
        is_nan = np.isnan(outputs).any(1)
        predicted = np.where(is_nan, NO_CLASS, outputs.argmax(1))
        hits = predicted == targets
        self._hits += int(hits.sum())

        # `fmax` takes the number where the other one is NaN.
        of_true_class = outputs[np.arange(len(targets)), targets]
        above_zero = np.fmax(of_true_class, SMALLEST_PROBABILITY)
        self._log_loss -= float(np.log(above_zero).sum())

        # How sure each answer is; no answer counts as one that is quite sure, and wrong.
        confidence = np.where(is_nan, 1.0, outputs.max(1))
        bins = np.ceil(confidence * CALIBRATION_BINS).astype(np.int64) - 1
        bins = np.clip(bins, 0, CALIBRATION_BINS - 1)
        self._excess += np.bincount(bins, weights=confidence - hits, minlength=CALIBRATION_BINS)

    def figures(self) -> dict[str, float]:
        """See `Score`."""
        return {
            "accuracy": self._hits / self.rows,
            "loss": self._log_loss / self.rows,
            "calibration_error": float(np.abs(self._excess).sum()) / self.rows,
        }


class ValueScore:
    """Judges predicted values: root mean squared error, mean absolute error and R2."""

    def __init__(self, outputs: int) -> None:
        self.rows = 0
        # Of each value that is predicted, [outputs].
        self._squared: FloatArray = np.zeros(outputs)
        self._absolute: FloatArray = np.zeros(outputs)
        # Deviations are counted from the first target: from 0, large ones would lose their digits.
        self._first: FloatArray = np.zeros(outputs)
        self._deviation: FloatArray = np.zeros(outputs)
        self._squared_deviation: FloatArray = np.zeros(outputs)

    def add(self, outputs: FloatArray, targets: FloatArray) -> None:
        """Judge values by the true ones, both [rows, outputs]."""
        if self.rows == 0 and len(targets):
            self._first = targets[0]
        self.rows += len(targets)
        errors = outputs - targets
        self._squared += np.square(errors).sum(0)
        self._absolute += np.abs(errors).sum(0)
        deviations = targets - self._first
        self._deviation += deviations.sum(0)
        self._squared_deviation += np.square(deviations).sum(0)

    def figures(self) -> dict[str, float]:
        """See `Score`; R2 is left out where the targets do not vary."""
        found = {
            "rmse": float(np.sqrt(self._squared.mean() / self.rows)),
            "mae": float(self._absolute.mean() / self.rows),
        }
        variation = self._squared_deviation - self._deviation**2 / self.rows
        varies = variation > 0
        if varies.any():
            found["r2"] = float((1 - self._squared[varies] / variation[varies]).mean())
        return found


def score_for(task: Task, outputs: int) -> Score:
    """What judges the predictions of a task with this many classes or values."""
    return ClassScore() if task == "classification" else ValueScore(outputs)


def describe_figures(figures: dict[str, float]) -> str:
    """The figures in a few words."""
    if "accuracy" in figures:
        return (
            f"accuracy {100 * figures['accuracy']:.1f} %, log loss {figures['loss']:.3f}, "
            f"calibration error {figures['calibration_error']:.3f}"
        )
    shown = f"RMSE {figures['rmse']:.4g}, MAE {figures['mae']:.4g}"
    if "r2" in figures:
        shown = f"R2 {figures['r2']:.3f}, {shown}"
    return shown
