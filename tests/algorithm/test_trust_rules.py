"""How evidence becomes trust: FedeRiCo's rule, and those it is compared with."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize
from scipy.special import softmax

from federico.algorithm.trust_rules import LEAST_OWN_TRUST, TrustRule, scores, trust
from federico.types import FloatArray

gains = arrays(np.float64, st.integers(1, 8), elements=st.floats(-100, 1e4))
log_likelihoods = arrays(
    np.float64, st.tuples(st.integers(2, 4), st.integers(1, 12)), elements=st.floats(-8, -0.01)
)
COMPARED: tuple[TrustRule, ...] = ("softmax", "bootstrap", "stacking")

# Trust.


def test_trust_is_the_square_of_one_plus_the_gain() -> None:
    weights = trust(np.array([0.0, 1.0, -0.5, -1.0, -7.0]), own=0)
    np.testing.assert_allclose(weights, np.array([1, 4, 0.25, 0, 0]) / 5.25)


@given(gains, st.data())
def test_trust_sums_to_one_and_harm_has_none(gains: FloatArray, data: st.DataObject) -> None:
    own = data.draw(st.integers(0, len(gains) - 1))
    weights = trust(gains, own)
    assert weights.sum() == pytest.approx(1)
    assert weights[own] > 0
    harmful = (gains <= -1) & (np.arange(len(gains)) != own)
    assert (weights[harmful] == 0).all()


@given(gains, st.floats(0.01, 100), st.data())
def test_trust_grows_with_the_gain(gains: FloatArray, more: float, data: st.DataObject) -> None:
    own = data.draw(st.integers(0, len(gains) - 1))
    lifted = data.draw(st.integers(0, len(gains) - 1))
    better = gains.copy()
    better[lifted] += more
    assert trust(better, own)[lifted] >= trust(gains, own)[lifted] - 1e-12


def test_a_peer_that_trusts_nobody_has_its_own_model() -> None:
    assert trust(np.array([-3.0, -1.0]), own=1).tolist() == [0, 1]
    weights = trust(np.array([0.0, -1.0]), own=1)
    assert weights[1] == pytest.approx(LEAST_OWN_TRUST, rel=1e-3)


def test_few_samples_give_soft_trust_and_many_give_firm_trust() -> None:
    few = trust(np.array([0.3, 0.1]), own=0)
    many = trust(1000 * np.array([0.3, 0.1]), own=0)
    assert few[0] < 0.6
    assert many[0] == pytest.approx(0.9, abs=0.01), "the square of three to one"


# The rules that it is compared with.


@pytest.mark.parametrize("rule", COMPARED)
@given(log_likelihood=log_likelihoods)
def test_weights_of_every_rule_sum_to_one_over_models_that_do_no_harm(
    rule: TrustRule, log_likelihood: FloatArray
) -> None:
    gain = np.ones(len(log_likelihood))
    gain[0] = -1.0
    score = scores(rule, gain, log_likelihood)
    assert score[0] == 0
    assert score.sum() == pytest.approx(1)
    assert (score >= 0).all()


def test_the_softmax_is_the_posterior_of_the_true_model() -> None:
    gain = np.array([2.0, 0.5, -0.5, -1.0])
    expected = [*softmax(gain[:3]), 0.0]
    np.testing.assert_allclose(scores("softmax", gain), expected)


def test_many_samples_make_the_softmax_sharp_and_the_bootstrap_less_so() -> None:
    rng = np.random.default_rng(0)
    log_likelihood = rng.normal([[-1.0], [-1.1]], 1.0, size=(2, 60))
    gain = log_likelihood.sum(axis=1) + 100
    by_softmax = scores("softmax", gain).max()
    by_bootstrap = scores("bootstrap", gain, log_likelihood).max()
    assert 0.5 < by_bootstrap < by_softmax - 0.05


def test_the_bootstrap_says_the_same_every_time() -> None:
    log_likelihood = np.random.default_rng(0).normal(-1, 1, (3, 20))
    first = scores("bootstrap", np.ones(3), log_likelihood)
    again = scores("bootstrap", np.ones(3), log_likelihood)
    np.testing.assert_array_equal(first, again)


def test_stacking_finds_the_mixture_that_explains_the_samples_best() -> None:
    # The first model knows half of the samples, the second the others, the third nothing.
    knows = np.log(0.9)
    guesses = np.log(0.1)
    log_likelihood = np.full((3, 40), guesses)
    log_likelihood[0, :30] = knows
    log_likelihood[1, 30:] = knows

    def unexplained(free: FloatArray) -> float:
        mixture = softmax(free) @ np.exp(log_likelihood)
        return float(-np.log(mixture).sum())

    best = softmax(minimize(unexplained, np.zeros(3), method="BFGS").x)
    np.testing.assert_allclose(scores("stacking", np.ones(3), log_likelihood), best, atol=2e-3)


@pytest.mark.parametrize("rule", ["bootstrap", "stacking"])
def test_without_samples_all_that_do_no_harm_count_the_same(rule: TrustRule) -> None:
    score = scores(rule, np.array([0.0, 0.0, -1.0]), np.empty((3, 0)))
    assert score.tolist() == [1, 1, 0]
