import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from federico.data.standardizer import Standardizer, TargetScale
from federico.types import FloatArray


def test_missing_values_take_the_median_of_the_others() -> None:
    standardizer = Standardizer.fit(np.array([[1.0], [2.0], [9.0], [np.nan]]))
    np.testing.assert_array_equal(standardizer.median, [2.0])
    np.testing.assert_array_equal(standardizer.mean, [3.5])
    np.testing.assert_array_equal(
        standardizer(np.array([[np.nan]])), standardizer(np.array([[2.0]]))
    )


def test_an_input_that_is_always_missing_counts_as_zero() -> None:
    standardizer = Standardizer.fit(np.full((4, 1), np.nan))
    np.testing.assert_array_equal(standardizer(np.array([[np.nan], [3.0]])), [[0.0], [3.0]])


def test_a_constant_input_is_not_blown_up_by_rounding() -> None:
    constant = np.full((7, 1), 0.1)
    assert constant.std() > 0, "without rounding this test shows nothing"
    np.testing.assert_allclose(Standardizer.fit(constant)(np.array([[1.1]])), [[1.0]])


@given(arrays(np.float64, (6, 2), elements=st.floats(-1e3, 1e3)))
def test_standardised_targets_are_in_units_of_their_spread(y: FloatArray) -> None:
    scale = TargetScale.fit(y)
    standardised = scale(y)
    in_own_units = standardised * scale.spread + scale.mean
    np.testing.assert_allclose(in_own_units, y, atol=1e-9)
    varies = np.ptp(y, axis=0) > 1e-3
    np.testing.assert_allclose(standardised.mean(axis=0)[varies], 0, atol=1e-6)
    np.testing.assert_allclose(standardised.std(axis=0)[varies], 1)


def test_a_constant_target_keeps_spread_one() -> None:
    scale = TargetScale.fit(np.array([[0.1, 1.0]] * 7 + [[0.1, 3.0]]))
    assert scale.spread[0] == 1.0
    np.testing.assert_allclose(scale(np.array([[1.1, 1.25]])), [[1.0, 0.0]], atol=1e-12)
