import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from federico.algorithm.posterior import posterior, significant
from federico.types import FloatArray

temperatures = st.floats(0.01, 100)
sane = st.floats(0, 1e3)
rows = arrays(np.float64, st.integers(1, 8), elements=sane)
mixed_rows = arrays(
    np.float64, st.integers(1, 8), elements=sane | st.sampled_from([np.inf, np.nan])
)


@given(mixed_rows, temperatures)
def test_sums_to_one_with_nothing_on_unusable_losses(
    losses: FloatArray, temperature: float
) -> None:
    weights = posterior(losses, temperature)
    assert np.all(weights[~np.isfinite(losses)] == 0)
    assert np.isclose(weights.sum(), float(np.isfinite(losses).any()))


@given(rows, temperatures)
def test_is_the_softmax_of_minus_the_losses(losses: FloatArray, temperature: float) -> None:
    by_hand = [
        1 / np.exp(np.clip((loss - losses) / temperature, None, 600)).sum() for loss in losses
    ]
    np.testing.assert_allclose(posterior(losses, temperature), by_hand, rtol=1e-6, atol=1e-12)


@given(mixed_rows, st.floats(-1e3, 1e3))
def test_a_common_shift_changes_nothing(losses: FloatArray, shift: float) -> None:
    np.testing.assert_allclose(posterior(losses + shift), posterior(losses), rtol=1e-9, atol=1e-12)


@given(mixed_rows, st.randoms(use_true_random=False))
def test_renamed_peers_keep_their_weight(losses: FloatArray, random: object) -> None:
    order = list(range(len(losses)))
    random.shuffle(order)  # type: ignore[attr-defined]
    np.testing.assert_allclose(posterior(losses[order]), posterior(losses)[order], rtol=1e-12)


@given(rows)
def test_a_lower_loss_never_weighs_less(losses: FloatArray) -> None:
    ranked = posterior(losses)[np.argsort(losses)]
    assert np.all(np.diff(ranked) <= 0)


def test_temperature_spreads() -> None:
    losses = np.array([0.0, 1.0])
    np.testing.assert_allclose(
        posterior(losses, 2.0), [1 / (1 + np.exp(-0.5)), 1 / (1 + np.exp(0.5))]
    )


def test_huge_losses_neither_overflow_nor_underflow_together() -> None:
    np.testing.assert_allclose(posterior(np.array([1e6, 1e6 + 1])), posterior(np.array([0.0, 1.0])))


def test_significant_drops_what_is_below_the_threshold_and_renormalises() -> None:
    np.testing.assert_allclose(significant(np.array([0.6, 0.1, 0.3]), 0.3), [2 / 3, 0, 1 / 3])


@given(rows, st.floats(0, 0.99))
def test_significant_sums_to_one_or_is_all_zero(losses: FloatArray, w_min: float) -> None:
    kept = significant(posterior(losses), w_min)
    assert np.isclose(kept.sum(), 1) or (kept == 0).all()
    assert np.all((kept > 0) <= (posterior(losses) >= w_min))
