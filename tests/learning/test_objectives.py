import pytest
import torch
from torch.nn import functional

from federico.learning.objectives import (
    CrossEntropy,
    Objective,
    SquaredError,
    mixable,
    objective_for,
)

OUTPUTS = torch.tensor([[[1.0, -2.0, 0.5], [0.0, 3.0, 1.0]]], dtype=torch.float64)


def test_cross_entropy_is_minus_the_log_probability_of_each_sample() -> None:
    y = torch.tensor([[2, 1]])
    expected = -torch.log_softmax(OUTPUTS[0], 1)[[0, 1], [2, 1]]
    torch.testing.assert_close(CrossEntropy()(OUTPUTS, y), expected[None])


def test_squared_error_sums_over_outputs_and_not_over_samples() -> None:
    y = torch.zeros_like(OUTPUTS)
    torch.testing.assert_close(
        SquaredError()(OUTPUTS, y), torch.tensor([[5.25, 10.0]], dtype=torch.float64)
    )


def test_the_task_chooses_the_loss() -> None:
    assert isinstance(objective_for("classification"), CrossEntropy)
    assert isinstance(objective_for("regression"), SquaredError)


@pytest.mark.parametrize(
    ("objective", "y"),
    [
        (CrossEntropy(), torch.tensor([[2, 1]])),
        (SquaredError(), torch.linspace(0, 1, 6).double().view(1, 2, 3)),
    ],
)
def test_the_slope_is_what_autograd_gives(objective: Objective, y: torch.Tensor) -> None:
    leaf, weights = (
        OUTPUTS.clone().requires_grad_(),
        torch.tensor([[0.3, 0.7]], dtype=torch.float64),
    )
    (expected,) = torch.autograd.grad((objective(leaf, y) * weights).sum(), leaf)
    torch.testing.assert_close(objective.slope(OUTPUTS, y, weights), expected)


def test_classes_mix_as_probabilities_and_values_as_they_are() -> None:
    torch.testing.assert_close(mixable(OUTPUTS, "classification"), functional.softmax(OUTPUTS, -1))
    assert mixable(OUTPUTS, "regression") is OUTPUTS


def test_a_guess_gives_every_class_the_same_probability() -> None:
    y = torch.tensor([0, 3, 6])
    torch.testing.assert_close(
        CrossEntropy()(torch.zeros(3, 7), y), torch.full((3,), CrossEntropy().guess(7))
    )
    assert SquaredError().guess(7) == torch.inf
