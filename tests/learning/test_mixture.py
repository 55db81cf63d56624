import numpy as np
import pytest
import torch
from torch import nn

from federico.learning.layout import ModelLayout
from federico.learning.mixture import MixturePredictor
from federico.types import FloatArray, Task

WEIGHTS = np.array([0.2, 0.8])
X = np.random.default_rng(0).standard_normal((7, 3))


@pytest.fixture
def layout() -> ModelLayout:
    return ModelLayout(lambda: nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.9)), torch.float64)


def predictor(layout: ModelLayout, task: Task, weights: FloatArray = WEIGHTS) -> MixturePredictor:
    return MixturePredictor(layout, [10 * layout.initial(0, name) for name in "ab"], weights, task)


def outputs(layout: ModelLayout) -> list[FloatArray]:
    rows = [10 * layout.initial(0, name) for name in "ab"]
    return [X @ row[:12].view(4, 3).numpy().T + row[12:].numpy() for row in rows]


def softmax(logits: FloatArray) -> FloatArray:
    scores: FloatArray = np.exp(logits)
    return scores / scores.sum(1, keepdims=True)


def test_probabilities_are_mixed_and_not_logits(layout: ModelLayout) -> None:
    a, b = outputs(layout)
    predicted = predictor(layout, "classification")(X)
    np.testing.assert_allclose(predicted, 0.2 * softmax(a) + 0.8 * softmax(b), atol=1e-12)
    assert not np.allclose(predicted, softmax(0.2 * a + 0.8 * b), atol=1e-3)
    np.testing.assert_allclose(predicted.sum(1), 1)


def test_values_are_mixed_for_regression(layout: ModelLayout) -> None:
    a, b = outputs(layout)
    np.testing.assert_allclose(predictor(layout, "regression")(X), 0.2 * a + 0.8 * b, atol=1e-12)


def test_the_size_of_batches_does_not_matter(layout: ModelLayout) -> None:
    mixed = predictor(layout, "classification")
    np.testing.assert_allclose(mixed(X, batch_size=2), mixed(X), atol=1e-12)


def test_an_array_that_cannot_be_written_or_runs_backwards_will_do(layout: ModelLayout) -> None:
    mixed = predictor(layout, "classification")
    backwards = X.copy()[::-1]
    backwards.flags.writeable = False
    np.testing.assert_allclose(mixed(backwards), mixed(X)[::-1])


def test_bytes_are_scaled_as_in_training() -> None:
    layout = ModelLayout(lambda: nn.Sequential(nn.Flatten(), nn.Linear(4, 1)), torch.float64)
    mixed = MixturePredictor(
        layout, [torch.tensor([1.0, 0, 0, 0, 0]).double()], np.ones(1), "regression"
    )
    pixels = np.array([[[[0, 9], [9, 9]]], [[[255, 9], [9, 9]]]], dtype=np.uint8)
    assert mixed(pixels).tolist() == [[-2.0], [2.0]]
