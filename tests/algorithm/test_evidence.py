"""What held-out samples say about models: calibration, gain and the gate."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import log_softmax
from scipy.stats import t, ttest_1samp

from federico.algorithm.evidence import (
    DOUBT,
    GATE_SAMPLES,
    TEMPERATURES,
    Evidence,
    chances,
    gates,
    judge_classes,
    judge_values,
    log_label_prior,
    mixed_log_likelihood,
)
from federico.algorithm.reference_evidence import (
    chance_that_together_is_better,
    evidence_from_classes,
    evidence_from_values,
    share_together,
    student_t,
)
from federico.types import FloatArray, IntArray

CLASSES = 3
UNIFORM = np.full(CLASSES, -np.log(CLASSES))
PRIOR = 0.8

logits = st.floats(-20, 20)
log_likelihoods = st.floats(-50, 0)


def judge(said: FloatArray, labels: IntArray, log_prior: FloatArray) -> Evidence:
    """The evidence on a single model; `said` are its log-probabilities, [samples, classes]."""
    return judge_classes(said[None], labels[None], log_prior[None])


@st.composite
def judged(draw: st.DrawFn) -> tuple[FloatArray, IntArray, FloatArray]:
    """What one model says about some samples, their labels, and label frequencies."""
    samples = draw(st.integers(1, 6))
    said = draw(arrays(np.float64, (samples, CLASSES), elements=logits))
    labels = draw(arrays(np.int64, samples, elements=st.integers(0, CLASSES - 1)))
    seen = draw(arrays(np.int64, st.integers(0, 9), elements=st.integers(0, CLASSES - 1)))
    return log_softmax(said, axis=1), labels, log_label_prior(seen, CLASSES)


# Label frequencies.


def test_label_frequencies_count_one_more_of_each_class() -> None:
    frequencies = np.exp(log_label_prior(np.array([0, 0, 1]), 3))
    np.testing.assert_allclose(frequencies, [3 / 6, 2 / 6, 1 / 6])


def test_without_labels_all_classes_are_as_frequent() -> None:
    nothing = np.empty(0, np.int64)
    np.testing.assert_allclose(log_label_prior(nothing, 3), UNIFORM)


# Calibration and gain of classes.


def test_a_right_model_is_read_as_a_little_surer_and_is_worth_what_it_says() -> None:
    said = np.log([[0.8, 0.2]])
    evidence = judge(said, np.array([0]), np.log([0.5, 0.5]))

    # The odds of 4 become 4^(1/0.7). At T = 1 the score would be log 0.8 = -0.22 against -0.19.
    odds = 4 ** (1 / 0.7)
    assert evidence.temperature.tolist() == [0.7]
    assert evidence.prior_power.tolist() == [0]
    np.testing.assert_allclose(evidence.log_likelihood, [[np.log(odds / (1 + odds))]])
    np.testing.assert_allclose(evidence.gain, [np.log(2 * odds / (1 + odds))])


def test_a_model_that_is_sure_and_often_wrong_is_read_as_less_sure() -> None:
    said = np.log([[0.999, 0.001]] * 10)
    labels = np.array([0] * 6 + [1] * 4)
    evidence = judge(said, labels, np.log([0.5, 0.5]))
    assert evidence.temperature[0] > 5
    assert evidence.gain[0] > -1, "it was worth -21 nats as it spoke"


def test_a_model_that_is_used_to_other_labels_is_read_with_this_peers_frequencies() -> None:
    # It tells class 2 from the others, but takes 0 and 1 for each other; here there is no 0.
    said = np.log([[0.49, 0.49, 0.02], [0.49, 0.49, 0.02], [0.02, 0.02, 0.96]] * 5)
    labels = np.array([1, 1, 2] * 5)
    log_prior = log_label_prior(np.array([1, 1, 2] * 10), CLASSES)
    evidence = judge(said, labels, log_prior)
    assert evidence.prior_power[0] > 0

    as_it_speaks = judge_classes(said[None], labels[None], log_prior[None], prior_powers=(0.0,))
    assert as_it_speaks.prior_power.tolist() == [0]
    assert evidence.gain[0] > as_it_speaks.gain[0] + 1


@given(judged())
def test_the_plain_loops_say_the_same_of_classes(
    case: tuple[FloatArray, IntArray, FloatArray],
) -> None:
    said, labels, log_prior = case
    fast = judge(said, labels, log_prior)
    plain = evidence_from_classes(
        said.tolist(), labels.tolist(), log_prior.tolist(), (0.0, 0.5, 1.0)
    )
    assert fast.temperature[0] == plain.temperature
    assert fast.prior_power[0] == plain.prior_power
    np.testing.assert_allclose(fast.gain[0], plain.gain, atol=1e-10)
    np.testing.assert_allclose(fast.log_likelihood[0], plain.log_likelihood, atol=1e-10)


@given(judged())
def test_calibration_is_never_less_probable_than_none(
    case: tuple[FloatArray, IntArray, FloatArray],
) -> None:
    said, labels, log_prior = case
    evidence = judge(said, labels, log_prior)
    uncalibrated = said[np.arange(len(labels)), labels].sum()
    penalised = evidence.log_likelihood.sum() - doubt(evidence)
    assert penalised >= uncalibrated - 1e-9


def doubt(evidence: Evidence) -> float:
    """What the calibration has cost under its prior."""
    return float(0.5 * np.log(evidence.temperature[0]) ** 2 + (evidence.prior_power[0] > 0))


@given(judged())
def test_twice_the_samples_are_twice_the_evidence(
    case: tuple[FloatArray, IntArray, FloatArray],
) -> None:
    said, labels, log_prior = case
    once = judge(said, labels, log_prior)
    twice = judge(np.tile(said, (2, 1)), np.tile(labels, 2), log_prior)
    # The same calibration gives twice the gain; one that fits better may only add to it.
    assert twice.gain[0] >= 2 * once.gain[0] - doubt(once) - 1e-9


@given(arrays(np.int64, st.integers(1, 40), elements=st.integers(0, CLASSES - 1)))
def test_saying_the_label_frequencies_is_worth_about_nothing(labels: IntArray) -> None:
    samples = len(labels)
    log_prior = log_label_prior(np.tile(labels, 4), CLASSES)  # the training part has the same
    said = np.tile(log_prior, (samples, 1))
    evidence = judge(said, labels, log_prior)

    # Nothing that ignores x explains labels better than their own frequencies do.
    own = np.bincount(labels, minlength=CLASSES) / samples
    is_there = own > 0
    divergence = (own[is_there] * (np.log(own[is_there]) - log_prior[is_there])).sum()
    assert -1e-9 <= evidence.gain[0] <= samples * divergence + 1e-9
    assert evidence.gain[0] < 1


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_model_with_an_output_that_is_not_finite_is_worth_minus_infinity(bad: float) -> None:
    said = np.stack([np.log([[0.7, 0.2, 0.1]] * 2)] * 3)  # [visits, samples, classes]
    said[1, 0, 2] = bad
    labels = np.zeros((3, 2), dtype=np.int64)
    evidence = judge_classes(said, labels, np.stack([UNIFORM] * 3))
    assert evidence.gain[1] == -np.inf
    assert (evidence.log_likelihood[1] == -np.inf).all(), "it explains no sample"
    assert evidence.temperature[1] == 1
    assert evidence.prior_power[1] == 0
    assert evidence.gain[0] == evidence.gain[2] > 0, "others are not touched"


def test_no_samples_are_no_evidence() -> None:
    said = np.zeros((1, 0, CLASSES))
    evidence = judge_classes(said, np.empty((1, 0), np.int64), UNIFORM[None])
    assert evidence.gain.tolist() == [0]
    assert evidence.temperature.tolist() == [1]
    assert evidence.prior_power.tolist() == [0]


def test_with_a_single_class_there_is_nothing_to_gain() -> None:
    evidence = judge(np.zeros((4, 1)), np.zeros(4, np.int64), np.zeros(1))
    assert evidence.gain.tolist() == [0]
    assert evidence.temperature.tolist() == [1]


def test_a_client_of_one_label_gains_little_from_a_model_that_always_says_it() -> None:
    labels = np.zeros(20, np.int64)
    log_prior = log_label_prior(np.zeros(80, np.int64), CLASSES)
    always = log_softmax(np.tile([30.0, 0, 0], (20, 1)), axis=1)
    never = log_softmax(np.tile([0, 30.0, 0], (20, 1)), axis=1)
    evidence = judge_classes(
        np.stack([always, never]), np.stack([labels] * 2), np.stack([log_prior] * 2)
    )
    assert 0 < evidence.gain[0] < 1, "knowing the frequencies is nearly as good"
    assert evidence.gain[1] < -1


def test_outputs_of_any_size_give_a_number() -> None:
    said = np.array([[0.0, -1e38, -1e38]])
    assert np.isfinite(judge(said, np.array([1]), UNIFORM).gain).all()
    assert judge(said, np.array([0]), UNIFORM).gain[0] == pytest.approx(np.log(CLASSES))


# Gain of values.


def test_a_value_that_is_right_is_worth_what_the_fitted_variances_say() -> None:
    evidence = judge_values(np.array([[[2.0]]]), np.array([[[2.0]]]))

    # Two samples of variance 1 come first: 2/3 for the model, (4 + 2) / 3 = 2 for the guess of 0.
    model = -0.5 * np.log(2 * np.pi * 2 / 3)
    guess = -0.5 * (4 / 2 + np.log(2 * np.pi * 2))
    np.testing.assert_allclose(evidence.log_likelihood, [[model]])
    np.testing.assert_allclose(evidence.gain, [model - guess])


values = arrays(np.float64, (5, 2), elements=st.floats(-5, 5))


@given(values)
def test_predicting_the_mean_is_worth_nothing(targets: FloatArray) -> None:
    assert judge_values(np.zeros((1, 5, 2)), targets[None]).gain.tolist() == [0]


@given(values, values, st.floats(1, 100))
def test_larger_errors_are_never_worth_more(
    targets: FloatArray, errors: FloatArray, factor: float
) -> None:
    near = judge_values((targets + errors)[None], targets[None]).gain[0]
    far = judge_values((targets + factor * errors)[None], targets[None]).gain[0]
    assert far <= near + 1e-6


@given(values, values)
def test_the_plain_loops_say_the_same_of_values(
    predictions: FloatArray, targets: FloatArray
) -> None:
    fast = judge_values(predictions[None], targets[None])
    plain = evidence_from_values(predictions.tolist(), targets.tolist())
    np.testing.assert_allclose(fast.gain[0], plain.gain, atol=1e-10)
    np.testing.assert_allclose(fast.log_likelihood[0], plain.log_likelihood, atol=1e-10)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e200, -1e308])
def test_a_value_without_a_finite_square_is_worth_minus_infinity(bad: float) -> None:
    predictions = np.zeros((2, 3, 1))
    predictions[1, 2] = bad
    evidence = judge_values(predictions, np.ones((2, 3, 1)))
    assert evidence.gain.tolist() == [0, -np.inf]
    assert (evidence.log_likelihood[1] == -np.inf).all()


# The gate.

pairs = st.lists(st.tuples(log_likelihoods, log_likelihoods), max_size=12)
priors = st.floats(0.01, 0.99)


def columns(pairs: list[tuple[float, float]]) -> tuple[FloatArray, FloatArray]:
    table = np.array(pairs).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def gate(together: FloatArray, alone: FloatArray, prior: float) -> float:
    """The gate of a single client."""
    return float(gates([together], [alone], np.array([prior]))[0])


def test_gates_are_the_same_however_many_clients_are_worked_on_together() -> None:
    rng = np.random.default_rng(0)
    counts = [3, 0, 12, 3, 7, 12, 12]
    together = [rng.normal(-3, 2, count) for count in counts]
    alone = [rng.normal(-3, 2, count) for count in counts]
    priors = np.linspace(0.2, 0.8, len(counts))

    found = gates(together, alone, priors)

    one_by_one = [gate(*client) for client in zip(together, alone, priors.tolist(), strict=True)]
    assert found.tolist() == one_by_one


@given(priors)
def test_without_samples_the_gate_is_its_prior(prior: float) -> None:
    nothing = np.empty(0)
    assert gate(nothing, nothing, prior) == pytest.approx(prior, abs=1e-12)


@given(st.lists(log_likelihoods, max_size=30), priors)
def test_where_both_say_the_same_the_gate_is_its_prior(both: list[float], prior: float) -> None:
    assert gate(np.array(both), np.array(both), prior) == pytest.approx(prior, abs=1e-9)


def test_one_sample_that_only_one_side_explains_counts_as_one_of_three() -> None:
    explained = np.array([-0.1])
    not_explained = np.array([-800.0])
    assert gate(explained, not_explained, PRIOR) == pytest.approx((1 + 2 * PRIOR) / 3)
    assert gate(not_explained, explained, PRIOR) == pytest.approx(2 * PRIOR / 3)


def test_the_gate_opens_or_shuts_where_one_side_is_far_better() -> None:
    good = np.full(1000, -0.1)
    bad = np.full(1000, -5.0)
    assert gate(good, bad, PRIOR) > 0.99
    assert gate(bad, good, PRIOR) < 0.01


def test_many_samples_settle_a_small_difference() -> None:
    alone = np.full(10_000, -0.5)
    assert gate(alone + 0.01, alone, PRIOR) > 0.99
    assert gate(alone - 0.01, alone, PRIOR) < 0.05


@given(pairs, priors, st.floats(0.001, 0.999))
def test_no_other_weight_explains_the_samples_better(
    pairs: list[tuple[float, float]], prior: float, other: float
) -> None:
    together, alone = columns(pairs)

    def explained(weight: float) -> float:
        mixed = np.logaddexp(np.log(weight) + together, np.log1p(-weight) + alone).sum()
        doubt = prior * np.log(weight) + (1 - prior) * np.log1p(-weight)
        return float(mixed + GATE_SAMPLES * doubt)

    assert explained(gate(together, alone, prior)) >= explained(other) - 1e-9


@given(pairs.filter(len), priors, st.floats(0, 20), st.data())
def test_the_gate_opens_with_what_is_better_together(
    pairs: list[tuple[float, float]], prior: float, more: float, data: st.DataObject
) -> None:
    together, alone = columns(pairs)
    before = gate(together, alone, prior)
    lifted = data.draw(st.integers(0, len(together) - 1))
    together[lifted] += more
    assert gate(together, alone, prior) >= before - 1e-12


@given(pairs, priors)
def test_the_two_sides_of_the_gate_are_alike(
    pairs: list[tuple[float, float]], prior: float
) -> None:
    together, alone = columns(pairs)
    one = gate(together, alone, prior)
    other = gate(alone, together, 1 - prior)
    assert one + other == pytest.approx(1, abs=1e-9)


@given(pairs, priors)
def test_the_plain_loops_set_the_same_gate(pairs: list[tuple[float, float]], prior: float) -> None:
    together, alone = columns(pairs)
    plain = share_together(together.tolist(), alone.tolist(), prior)
    assert gate(together, alone, prior) == pytest.approx(plain, abs=1e-12)


def test_a_side_that_is_broken_explains_nothing() -> None:
    fine = np.full(4, -1.0)
    broken = np.full(4, -np.inf)
    assert gate(fine, broken, PRIOR) == pytest.approx((4 + 2 * PRIOR) / 6)
    assert gate(broken, fine, PRIOR) == pytest.approx(2 * PRIOR / 6)
    assert gate(broken, broken, PRIOR) == pytest.approx(PRIOR)


# How sure it is which of the two is better.


def chance_together(together: FloatArray, alone: FloatArray) -> float:
    """Of one client."""
    return float(chances([together], [alone])[0])


def test_clients_with_other_numbers_of_samples_are_judged_together() -> None:
    samples = [np.array([1.0, 2.0, 0.5]), np.empty(0), np.array([-1.0]), np.array([0.1, 0.2, 3.0])]
    guess = [np.zeros(len(each)) for each in samples]
    both = chances(samples, guess)
    for place, each in enumerate(samples):
        expected = chance_together(each, guess[place])
        assert both[place] == pytest.approx(expected, abs=0, nan_ok=True)
    assert len(chances([], [])) == 0


def test_without_samples_nothing_can_be_said_of_which_is_better() -> None:
    nothing = np.empty(0)
    assert np.isnan(chance_together(nothing, nothing))
    impossible_for_both = np.full(3, -np.inf)
    assert np.isnan(chance_together(impossible_for_both, impossible_for_both))


def test_the_chance_is_that_of_a_t_test_with_two_imagined_samples() -> None:
    advantage = np.array([0.3, 1.2, -0.4, 2.0, 0.9, 0.7, 1.1, -0.1])
    alone = np.full(8, -2.0)
    imagined = [*advantage, DOUBT, -DOUBT]
    expected = ttest_1samp(imagined, 0.0, alternative="less").pvalue
    assert chance_together(alone + advantage, alone) == pytest.approx(expected)


@given(st.lists(log_likelihoods, min_size=1, max_size=30))
def test_where_both_say_the_same_either_may_be_better(both: list[float]) -> None:
    assert chance_together(np.array(both), np.array(both)) == pytest.approx(0.5)


def test_a_small_lead_on_every_one_of_few_samples_makes_nobody_sure() -> None:
    """A sample to come may be one of the few on which a model is wrong."""
    alone = np.full(12, -0.2)
    assert 0.5 < chance_together(alone + 0.1, alone) < 0.8
    many = np.full(2000, -0.2)
    assert chance_together(many + 0.1, many) > 0.99


def test_who_cannot_explain_a_sample_at_all_is_surely_worse() -> None:
    fine = np.full(4, -1.0)
    broken = np.array([-1.0, -1.0, -np.inf, -1.0])
    assert chance_together(fine, broken) == 1
    assert chance_together(broken, fine) == 0


@given(pairs.filter(len))
def test_what_one_side_is_sure_of_the_other_doubts(pairs: list[tuple[float, float]]) -> None:
    together, alone = columns(pairs)
    both = chance_together(together, alone) + chance_together(alone, together)
    assert both == pytest.approx(1, abs=1e-9)


@given(pairs)
def test_the_plain_loops_are_as_sure(pairs: list[tuple[float, float]]) -> None:
    together, alone = columns(pairs)
    plain = chance_that_together_is_better(together.tolist(), alone.tolist())
    assert chance_together(together, alone) == pytest.approx(plain, abs=1e-9, nan_ok=True)


@given(st.floats(-50, 50), st.integers(1, 300))
def test_the_plain_loops_know_the_t_distribution(value: float, freedom: int) -> None:
    assert student_t(value, freedom) == pytest.approx(t.cdf(value, freedom), abs=1e-9)


# The likelihood of a mixture.


def test_a_mixture_is_as_likely_as_the_weighted_mean() -> None:
    rows = np.log([[0.2, 0.5], [0.4, 0.1]])
    same = np.array([[3.0, 3.0], [1.0, 1.0]])
    np.testing.assert_allclose(np.exp(mixed_log_likelihood(rows, same)), [0.25, 0.4])

    by_sample = np.array([[3.0, 1.0], [1.0, 3.0]])
    np.testing.assert_allclose(np.exp(mixed_log_likelihood(rows, by_sample)), [0.25, 0.2])


def test_without_any_weight_all_count_the_same() -> None:
    rows = np.log([[0.2], [0.4]])
    np.testing.assert_allclose(np.exp(mixed_log_likelihood(rows, np.zeros((2, 1)))), [0.3])


def test_what_has_no_weight_is_not_looked_at() -> None:
    rows = np.array([[-np.inf], [-1.0]])
    np.testing.assert_allclose(mixed_log_likelihood(rows, np.array([[0.0], [0.3]])), [-1])


def test_a_mixture_of_broken_models_explains_nothing() -> None:
    rows = np.full((2, 3), -np.inf)
    assert (mixed_log_likelihood(rows, np.ones((2, 3))) == -np.inf).all()


@given(
    arrays(np.float64, (3, 4), elements=st.floats(-2000, 0)),
    arrays(np.float64, (3, 4), elements=st.floats(0.001, 1)),
)
def test_a_mixture_is_between_its_best_and_its_worst(rows: FloatArray, weights: FloatArray) -> None:
    mixed = mixed_log_likelihood(rows, weights)
    assert (mixed <= rows.max(axis=0) + 1e-9).all()
    assert (mixed >= rows.min(axis=0) - 1e-9).all()


def test_no_calibration_is_among_those_tried() -> None:
    assert 1.0 in TEMPERATURES
