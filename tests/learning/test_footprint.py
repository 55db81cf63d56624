import gc
from collections.abc import Callable

import pytest
import torch
from torch import nn

from federico.learning.footprint import Footprint, footprint
from federico.learning.layout import ModelLayout


def test_a_perceptron_keeps_its_input_and_what_lies_between_its_layers() -> None:
    layout = ModelLayout(lambda: nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)))
    assert footprint(layout, torch.zeros(4)) == Footprint(saved=4 * (4 + 8), largest=4 * 8)


def test_double_precision_takes_twice_as_much() -> None:
    layout = ModelLayout(lambda: nn.Linear(4, 8), torch.float64)
    assert footprint(layout, torch.zeros(4, dtype=torch.float64)) == Footprint(
        saved=8 * 4, largest=8 * 8
    )


def test_products_in_bfloat16_leave_half_as_much_and_copies_of_weights_are_not_counted() -> None:
    layout = ModelLayout(
        lambda: nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)), mixed=True
    )
    assert footprint(layout, torch.zeros(4)) == Footprint(saved=2 * (4 + 8), largest=2 * 8)


def test_a_convolution_is_weighed_with_what_pooling_remembers() -> None:
    layout = ModelLayout(
        lambda: nn.Sequential(nn.Conv2d(3, 5, 3), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(45, 2))
    )
    found = footprint(layout, torch.zeros(3, 8, 8))
    picture, convolved, pooled = 3 * 8 * 8, 5 * 6 * 6, 5 * 3 * 3
    assert found == Footprint(
        saved=4 * (picture + convolved + pooled) + 8 * pooled, largest=4 * convolved
    )


def test_training_takes_more_than_measuring() -> None:
    assert Footprint(saved=10, largest=3).training == 16
    assert Footprint(saved=10, largest=3).measuring == 6


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Sequential(nn.Linear(4, 2), nn.ReLU()),
        lambda: nn.Sequential(nn.Linear(4, 2), nn.Dropout()),
        lambda: nn.BatchNorm1d(4),
    ],
)
def test_trying_leaves_no_trace(make: Callable[[], nn.Module]) -> None:
    layout = ModelLayout(make)
    chance, before = torch.get_rng_state(), tensors()
    footprint(layout, torch.ones(4))
    assert torch.equal(torch.get_rng_state(), chance)
    assert tensors() == before, "a model that was tried is gone"


def tensors() -> int:
    """How many there are."""
    gc.collect()
    return sum(issubclass(type(found), torch.Tensor) for found in gc.get_objects())
