import numpy as np

from federico.data.standardizer import Standardizer


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
