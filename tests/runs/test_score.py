"""A score that is added up gives the figures that a run reports."""

import numpy as np
import pytest
import torch

from federico.learning.metrics import classification_figures, regression_figures
from federico.runs.score import describe_figures, score_for


def test_classes_in_pieces() -> None:
    rng = np.random.default_rng(0)
    outputs = rng.dirichlet(np.ones(3), size=50)
    labels = rng.integers(0, 3, 50)
    score = score_for("classification", 3)
    for part in (slice(0, 7), slice(7, 7), slice(7, 50)):
        score.add(outputs[part], labels[part])
    expected = classification_figures(
        torch.from_numpy(outputs), torch.from_numpy(labels), np.array([50])
    )
    assert score.rows == 50
    for name, value in score.figures().items():
        assert value == pytest.approx(expected[name].item()), name
    assert describe_figures(score.figures()).startswith("accuracy ")


def test_a_prediction_that_is_no_number_is_wrong() -> None:
    score = score_for("classification", 2)
    score.add(np.array([[np.nan, 0.5], [0.9, 0.1]]), np.array([0, 0]))
    assert score.figures()["accuracy"] == 0.5
    assert np.isfinite(score.figures()["loss"])


def test_values_in_pieces() -> None:
    rng = np.random.default_rng(1)
    # Far from 0, where sums of squares would lose the digits that matter.
    targets = 1e6 + rng.normal(size=(40, 2))
    targets[:, 1] = 5.0
    outputs = targets + rng.normal(size=(40, 2)) / 3
    score = score_for("regression", 2)
    for part in (slice(0, 1), slice(1, 40)):
        score.add(outputs[part], targets[part])
    mean = torch.zeros(40, 2)
    expected = regression_figures(
        torch.from_numpy(outputs), torch.from_numpy(targets), mean, np.array([40])
    )
    for name, value in score.figures().items():
        assert value == pytest.approx(expected[name].item()), name
    assert "r2" in score.figures()


def test_values_that_never_change_have_no_r2() -> None:
    score = score_for("regression", 1)
    score.add(np.array([[1.0], [2.0]]), np.array([[3.0], [3.0]]))
    assert describe_figures(score.figures()) == "RMSE 1.581, MAE 1.5"
