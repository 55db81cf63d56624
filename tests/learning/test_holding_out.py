"""What is held out has some of every kind."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from federico.learning.holding_out import mixed_order

FRACTION = 0.2


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), st.integers(0, 9))
def test_every_beginning_has_its_part_of_every_class(labels: list[int], seed: int) -> None:
    targets = np.array(labels)
    order = mixed_order(np.random.default_rng(seed), targets, FRACTION)
    assert sorted(order) == list(range(len(labels)))
    classes = len(set(labels))
    for end in range(len(labels) + 1):
        for label in set(labels):
            expected = end * labels.count(label) / len(labels)
            assert abs(int((targets[order[:end]] == label).sum()) - expected) <= classes


def test_low_and_high_values_are_held_out_alike() -> None:
    values = np.random.default_rng(0).normal(size=(50, 1)) * 100
    order = mixed_order(np.random.default_rng(1), values, FRACTION)
    rank = np.argsort(np.argsort(values[:, 0]))
    held = sorted(rank[order[:10]] // 5)
    assert held == list(range(10))


@pytest.mark.parametrize("targets", [np.zeros((7, 2)), np.zeros(7, dtype=np.int64)])
def test_samples_of_one_kind_are_drawn_by_chance(targets: np.ndarray) -> None:
    orders = {
        tuple(mixed_order(np.random.default_rng(seed), targets, FRACTION)) for seed in range(9)
    }
    assert len(orders) == 9
