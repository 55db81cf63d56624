import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from federico.algorithm.evidence import Evidence
from federico.algorithm.gains import GainTracker
from federico.algorithm.trust_rules import TrustRule
from federico.types import Array, IntArray

OWN = 0
Schedule = list[dict[int, float]]
"""The gain of each model that is visited, round by round."""

schedules = st.lists(
    st.dictionaries(st.integers(0, 4), st.floats(-50, 500) | st.just(-np.inf), min_size=1),
    min_size=1,
    max_size=6,
)


def peers_of(*peers: int) -> IntArray:
    return np.array(peers, dtype=np.int64)


def evidence_of(gains: list[float]) -> Evidence:
    gain = np.array(gains)
    count = len(gain)
    # The worth of a model spread over three samples, of which the last says the most.
    log_likelihood = np.where(np.isfinite(gain), gain, 0.0)[:, None] * [0.01, 0.02, 0.04] - 20
    by_sample = np.where(np.isfinite(gain), gain, -np.inf)[:, None] * [0.1, 0.2, 0.7]
    return Evidence(gain, np.full(count, 2.0), np.full(count, 0.5), log_likelihood, by_sample)


def play(tracker: GainTracker, schedule: Schedule) -> GainTracker:
    for visited in schedule:
        tracker.observe(peers_of(*visited), evidence_of(list(visited.values())))
    return tracker


def weight_of(tracker: GainTracker, peer: int) -> float:
    return float(tracker.weights[tracker.peers == peer][0])


def test_gains_are_averaged_over_visits() -> None:
    tracker = play(GainTracker(OWN, 0.6), [{0: 2.0, 1: 2.0}, {0: 4.0}, {0: 4.0}])
    np.testing.assert_allclose(tracker.gain, [2 + 0.6 * 2 + 0.6 * 0.8, 2.0])


def test_harm_is_remembered_as_no_trust_at_all_and_no_more() -> None:
    tracker = play(GainTracker(OWN, 0.5), [{0: 0.0, 1: -900.0}])
    assert tracker.gain.tolist() == [0, -1]
    assert weight_of(tracker, 1) == 0
    play(tracker, [{1: 3.0}])
    assert weight_of(tracker, 1) == pytest.approx(4 / 5)


def test_final_evidence_replaces_what_was_averaged() -> None:
    tracker = play(GainTracker(OWN), [{0: 1.0, 1: 9.0, 2: 5.0}])
    tracker.observe(peers_of(0, 1), evidence_of([3.0, 2.0]), becomes_final=True)
    assert tracker.gain.tolist() == [3, 2, 5]


@pytest.mark.parametrize("bad", [np.nan, -np.inf, np.inf])
def test_a_broken_model_has_no_trust_until_it_is_seen_whole(bad: float) -> None:
    tracker = play(GainTracker(OWN), [{0: 0.0, 1: 5.0}, {0: 0.0, 1: bad}])
    assert tracker.broken.tolist() == [0, 1]
    assert weight_of(tracker, 1) == 0
    assert np.isfinite(tracker.gain).all()

    play(tracker, [{0: 0.0}])
    assert weight_of(tracker, 1) == 0, "not visited since"
    play(tracker, [{1: 5.0}])
    assert weight_of(tracker, 1) > 0


def test_a_broken_own_model_has_no_weight_while_there_is_another() -> None:
    tracker = play(GainTracker(OWN), [{0: -np.inf, 1: 1.0}])
    assert tracker.weights.tolist() == [0, 1]
    alone = play(GainTracker(OWN), [{0: -np.inf}])
    assert alone.weights.tolist() == [1]


def test_once_trust_is_final_a_gain_falls_and_recovers_but_never_rises() -> None:
    tracker = play(GainTracker(OWN, momentum=0.5), [{0: 0.0, 1: 5.0}])
    assert not tracker.is_final
    tracker.settle()
    assert tracker.is_final

    play(tracker, [{1: 100.0}])
    assert tracker.gain.tolist() == [0, 5]
    play(tracker, [{1: 1.0}])
    assert tracker.gain.tolist() == [0, 3]
    play(tracker, [{1: 100.0}])
    assert tracker.gain.tolist() == [0, 5]


def test_who_is_met_after_trust_is_final_is_judged_once() -> None:
    tracker = play(GainTracker(OWN), [{0: 0.0}])
    tracker.settle()
    play(tracker, [{1: 2.0}, {1: 9.0}])
    assert tracker.gain.tolist() == [0, 2]


def test_models_are_weighed_as_they_are_now_but_not_above_their_final_gain() -> None:
    tracker = play(GainTracker(OWN), [{0: 1.0, 1: 2.0}])
    tracker.settle()
    seen = np.array([9.0, -np.inf])
    no_samples = np.zeros((2, 1))
    evidence = Evidence(seen, np.ones(2), np.zeros(2), no_samples, no_samples)
    assert tracker.weights_now(peers_of(0, 1), evidence).tolist() == [1, 0]
    better = Evidence(np.array([9.0, 9.0]), np.ones(2), np.zeros(2), no_samples, no_samples)
    np.testing.assert_allclose(tracker.weights_now(peers_of(0, 1), better), [4 / 13, 9 / 13])


def test_without_a_sample_a_model_is_worth_what_the_others_say() -> None:
    tracker = play(GainTracker(OWN), [{0: 2.0, 1: 4.0}])
    evidence = evidence_of([2.0, 4.0])
    without = tracker.weights_without_sample(peers_of(0, 1), tracker.weights, evidence)
    left = np.array([[1.8, 1.6, 0.6], [3.6, 3.2, 1.2]])  # of the gains, without each of the samples
    np.testing.assert_allclose(without, (1 + left) ** 2)


def test_a_model_that_one_lucky_sample_speaks_for_has_no_say_about_it() -> None:
    tracker = play(GainTracker(OWN), [{0: 1.0, 1: 3.0}])
    evidence = evidence_of([1.0, 3.0])
    evidence.by_sample[:] = [[0.2, 0.2, 0.6], [-1.0, -1.0, 5.0]]
    without = tracker.weights_without_sample(peers_of(0, 1), tracker.weights, evidence)
    assert without[1].tolist() == [25.0, 25.0, 0.0]
    assert without[0, 2] > 0


def test_a_model_without_weight_or_broken_has_none_without_a_sample() -> None:
    tracker = play(GainTracker(OWN), [{0: 1.0, 1: 2.0, 2: -np.inf}])
    weights = np.array([1.0, 0.0, 0.0])
    evidence = evidence_of([1.0, 2.0, -np.inf])
    without = tracker.weights_without_sample(peers_of(0, 1, 2), weights, evidence)
    assert (without[0] > 0).all()
    assert (without[1:] == 0).all()


def test_if_no_model_is_trusted_without_a_sample_it_changes_nothing() -> None:
    tracker = play(GainTracker(OWN), [{0: 1.0, 1: 1.0}])
    evidence = evidence_of([1.0, 1.0])
    evidence.by_sample[:] = [[9.0, 0.0, 0.0], [9.0, 0.0, 0.0]]
    without = tracker.weights_without_sample(peers_of(0, 1), np.array([0.3, 0.7]), evidence)
    assert without[:, 0].tolist() == [0.3, 0.7]


@pytest.mark.parametrize("rule", ["softmax", "bootstrap", "stacking"])
def test_other_rules_leave_no_sample_out(rule: TrustRule) -> None:
    tracker = play(GainTracker(OWN, rule=rule, samples=3), [{0: 2.0, 1: 4.0}])
    weights = np.array([0.25, 0.75])
    without = tracker.weights_without_sample(peers_of(0, 1), weights, evidence_of([2.0, 4.0]))
    np.testing.assert_array_equal(without, np.repeat(weights[:, None], 3, axis=1))


def test_who_has_sent_an_update_waits_to_be_evaluated_before_all_others() -> None:
    tracker = play(GainTracker(OWN), [{0: 0.0, 2: 5.0}])
    tracker.wants(peers_of(1, 2))
    assert tracker.peers.tolist() == [0, 1, 2]
    assert tracker.evaluated.tolist() == [True, False, True]
    assert weight_of(tracker, 1) == 0
    losses = tracker.losses(np.ones(3))
    assert np.argmin(losses) == 1
    assert losses[1] < 0, "strangers count as 0"

    play(tracker, [{1: 2.0}])
    assert tracker.evaluated.all()
    assert (tracker.losses(np.ones(3)) >= 0).all()


def test_who_has_sent_refused_updates_is_asked_less_readily() -> None:
    tracker = play(GainTracker(OWN), [{0: 0.0, 1: 5.0, 2: 5.0}])
    losses = tracker.losses(np.array([1.0, 0.5, 1.0]))
    assert losses[1] > losses[2]


def test_calibration_is_that_of_the_last_visit() -> None:
    tracker = play(GainTracker(OWN), [{0: 1.0, 1: 1.0}])
    no_samples = np.zeros((1, 3))
    sharper = Evidence(np.ones(1), np.array([0.7]), np.zeros(1), no_samples, no_samples)
    tracker.observe(peers_of(1), sharper)
    assert tracker.temperature.tolist() == [2.0, 0.7]
    assert tracker.prior_power.tolist() == [0.5, 0]


def test_nobody_has_weight_before_a_peer_has_evaluated_its_own_model() -> None:
    tracker = GainTracker(OWN)
    assert tracker.weights.tolist() == []
    tracker.wants(peers_of(3))
    assert tracker.weights.tolist() == [0]


@given(schedules, st.floats(0.01, 1))
def test_weights_sum_to_one_and_the_better_is_trusted_more(
    schedule: Schedule, momentum: float
) -> None:
    tracker = play(GainTracker(OWN, momentum), [{OWN: 0.0}, *schedule])
    assert tracker.weights.sum() == pytest.approx(1)
    assert tracker.peers.tolist() == sorted(set(tracker.peers.tolist()))

    others = (tracker.peers != OWN) & (tracker.broken == 0)
    by_gain = np.argsort(tracker.gain[others])
    assert (np.diff(tracker.weights[others][by_gain]) >= 0).all()
    assert (tracker.gain >= -1).all()


@pytest.mark.parametrize("rule", ["gain", "softmax", "bootstrap", "stacking"])
@given(before=schedules, after=schedules)
def test_goes_on_from_a_saved_state_bit_for_bit(
    rule: TrustRule, before: Schedule, after: Schedule
) -> None:
    tracker = play(GainTracker(OWN, rule=rule, samples=3), [{OWN: 0.0}, *before])
    tracker.wants(peers_of(7))
    saved: dict[str, Array] = {name: values.copy() for name, values in tracker.state().items()}
    resumed = GainTracker(OWN, rule=rule, samples=3)
    resumed.restore(saved)
    play(tracker, after)
    play(resumed, after)
    for name, values in tracker.state().items():
        np.testing.assert_array_equal(resumed.state()[name], values)
    assert resumed.weights.tolist() == tracker.weights.tolist()
