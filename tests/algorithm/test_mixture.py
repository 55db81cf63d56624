"""What one model may weigh in a mixture."""

import numpy as np
import pytest

from federico.algorithm.mixture import capped

OWN_IS_FIRST = np.array([True, False, False, False])


@pytest.mark.parametrize(
    ("weights", "most", "expected"),
    [
        ([0.9, 0.1, 0.0, 0.0], 0.5, [0.9, 0.1, 0.0, 0.0]),
        ([0.1, 0.7, 0.2, 0.0], 0.5, [1 / 6, 0.5, 1 / 3, 0.0]),
        ([0.1, 0.6, 0.3, 0.0], 0.4, [0.2, 0.4, 0.4, 0.0]),
        ([0.0, 1.0, 0.0, 0.0], 0.4, [0.6, 0.4, 0.0, 0.0]),
        ([0.0, 0.5, 0.5, 0.0], 0.3, [0.4, 0.3, 0.3, 0.0]),
        ([0.0, 0.0, 0.0, 0.0], 0.3, [1.0, 0.0, 0.0, 0.0]),
        ([0.0, 3.0, 1.0, 0.0], 1.0, [0.0, 0.75, 0.25, 0.0]),
        ([0.0, 0.5, 0.3, 0.2], 1 / 3, [0.0, 1 / 3, 1 / 3, 1 / 3]),
    ],
)
def test_what_is_above_goes_to_the_rest(
    weights: list[float], most: float, expected: list[float]
) -> None:
    shares = capped(np.array(weights), OWN_IS_FIRST, most)
    np.testing.assert_allclose(shares, expected, atol=1e-12)


def test_no_other_model_is_ever_above() -> None:
    rng = np.random.default_rng(0)
    for _ in range(500):
        weights = rng.dirichlet(np.full(6, 0.2))
        is_own = np.arange(6) == 2
        most = rng.uniform(0.05, 1)
        shares = capped(weights, is_own, most)
        assert shares.sum() == pytest.approx(1)
        assert (shares[~is_own] <= most + 1e-12).all()
