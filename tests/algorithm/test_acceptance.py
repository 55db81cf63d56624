"""What an owner makes of updates: how far they may lead, by their direction, and in the middle."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from federico.algorithm.acceptance import (
    REACH,
    along_own,
    rest_to_own,
    trimmed_mean,
    within_reach,
)
from federico.algorithm.aggregation import shares
from federico.types import FloatArray

# How far an update may lead.


def moved(deltas: FloatArray, coefficients: FloatArray) -> FloatArray:
    """Where the updates of the contributors 0, 1, ... bring the model of owner 0, [size]."""
    contributors = np.arange(len(deltas))
    owners = np.zeros_like(contributors)
    own = deltas[0]
    distances = np.linalg.norm(deltas - own, axis=1)
    lengths = np.full(len(deltas), np.linalg.norm(own))
    kept = within_reach(distances, lengths)
    within = rest_to_own(owners, contributors, coefficients, kept)
    assert within.sum() == pytest.approx(coefficients.sum())
    share: FloatArray = shares(owners, contributors, within) @ deltas
    return share


some_deltas = st.lists(
    st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)), min_size=1, max_size=5
).map(lambda deltas: np.array([(3.0, 4.0), *deltas]))


@given(some_deltas, st.data())
def test_nobody_leads_a_model_far_from_where_its_owner_does(
    deltas: FloatArray, data: st.DataObject
) -> None:
    weight = st.floats(1e-3, 1e6)
    size = len(deltas)
    coefficients = np.array(data.draw(st.lists(weight, min_size=size, max_size=size)))
    distance = np.linalg.norm(moved(deltas, coefficients) - deltas[0])
    assert distance <= REACH * 5.0 * (1 + 1e-9)


@given(st.floats(1e-3, 1e9), st.floats(1e-3, 1))
def test_the_opposite_of_whatever_length_leads_backwards_by_half_an_update_at_most(
    length: float, weight: float
) -> None:
    """And nowhere if the sender counts for no more than two thirds of all."""
    own = np.array([3.0, 4.0])
    opposite = -length * own
    against_two = moved(np.array([own, opposite]), np.array([1.0, 2 * weight])) @ own
    assert against_two >= -1e-9
    against_many = moved(np.array([own, opposite]), np.array([1.0, 1e9])) @ own
    assert against_many >= -(REACH - 1) * own @ own - 1e-9


def test_updates_within_reach_count_as_before() -> None:
    lengths = np.array([2.0, 2.0, 0.5, 0.5])
    near = REACH * lengths * np.array([0.0, 1.0, 0.9, 0.0])
    assert within_reach(near, lengths).tolist() == [1, 1, 1, 1]


def test_the_further_beyond_reach_the_less_an_update_keeps() -> None:
    lengths = np.array([2.0, 2.0, 0.5])
    far = np.array([8.0 * REACH, 2.0, np.inf])
    assert within_reach(far, lengths).tolist() == [0.25, 1.0, 0.0]
    assert within_reach(far, lengths, reach=0.5).tolist() == [0.5 * 2 / (8 * REACH), 0.5, 0.0]


def test_an_owner_that_has_never_moved_is_not_moved_by_others() -> None:
    assert within_reach(np.array([0.0, 1.0]), np.zeros(2)).tolist() == [1.0, 0.0]


def test_what_is_not_kept_counts_for_the_owners_own_delta() -> None:
    owners = np.array([0, 0, 2, 2])
    contributors = np.array([0, 1, 0, 2])
    values = np.array([1.0, 2.0, 4.0, 3.0])
    left = rest_to_own(owners, contributors, values, np.array([1.0, 0.25, 0.0, 1.0]))
    assert left.tolist() == [2.5, 0.5, 0.0, 7.0]


def test_what_leads_backwards_keeps_nothing_and_the_same_direction_everything() -> None:
    assert along_own(np.array([1.0, 0.5, 0.0, -0.1, -1.0])).tolist() == [1, 0.5, 0, 0, 0]


# In the middle of all updates.

DELTAS = np.array([[1.0, 9.0], [2.0, 7.0], [4.0, 8.0], [1e9, -1e9], [3.0, 6.0]])
"""Five updates, of which one is far away."""


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_with_equal_weights_the_median_is_the_usual_one(count: int) -> None:
    deltas = DELTAS[:count]
    middle = trimmed_mean(deltas, np.full(count, 0.3), 0.5)
    assert middle.tolist() == pytest.approx(np.median(deltas, axis=0).tolist())


@pytest.mark.parametrize("left_out", [1, 2])
def test_with_equal_weights_the_trimmed_mean_is_the_usual_one(left_out: int) -> None:
    trimmed = np.sort(DELTAS, axis=0)[left_out:-left_out].mean(axis=0)
    found = trimmed_mean(DELTAS, np.ones(5), left_out / 5)
    assert found.tolist() == pytest.approx(trimmed.tolist())


@pytest.mark.parametrize("trim", [0.2, 0.4, 0.5])
@given(st.data())
def test_less_than_the_trimmed_weight_cannot_lead_beyond_the_others(
    trim: float, data: st.DataObject
) -> None:
    honest = np.array([[1.0], [2.0], [3.0]])
    hostile = np.array([[data.draw(st.floats(-1e9, 1e9))]])
    weights = np.array([*data.draw(st.permutations([1.0, 2.0, 3.0])), 0.0])
    weights[3] = 0.99 * trim / (1 - trim) * 6.0
    found = trimmed_mean(np.concatenate([honest, hostile]), weights, trim)
    assert 1.0 - 1e-9 <= found[0] <= 3.0 + 1e-9


def test_who_has_more_than_half_of_the_weight_is_the_median() -> None:
    assert trimmed_mean(DELTAS, np.array([1.0, 1.0, 6.0, 1.0, 1.0]), 0.5).tolist() == [4.0, 8.0]


def test_an_update_without_weight_is_not_in_the_middle() -> None:
    deltas = np.array([[1.0], [2.0], [3.0]])
    assert trimmed_mean(deltas, np.array([1.0, 0.0, 1.0]), 0.5).tolist() == [2.0]
    assert trimmed_mean(deltas, np.array([1.0, 0.0, 0.0]), 0.5).tolist() == [1.0]
