from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from federico.algorithm.losses import LossTracker, Tracking
from federico.types import FloatArray, IntArray

PEERS = 4
Schedule = list[dict[int, float]]

losses = st.floats(0, 100)
betas = st.floats(0.01, 1)
schedules = st.lists(
    st.dictionaries(st.integers(0, PEERS - 1), losses, min_size=1), min_size=1, max_size=8
)


def play(tracker: LossTracker, schedule: Schedule) -> LossTracker:
    for visited in schedule:
        tracker.observe(
            np.array(list(visited), dtype=np.int64),
            np.array(list(visited.values()), dtype=np.float64),
        )
    return tracker


def history(schedule: Schedule, peer: int) -> list[float]:
    """The loss of this peer as known in each round since its first visit."""
    known: list[float] = []
    for visited in schedule:
        if peer in visited:
            known.append(visited[peer])
        elif known:
            known.append(known[-1])
    return known


def ema(known: list[float], beta: float) -> float:
    return sum(beta * (1 - beta) ** age * loss for age, loss in enumerate(reversed(known)))


@given(schedules, betas)
def test_ema_is_the_geometric_sum_of_all_known_losses(schedule: Schedule, beta: float) -> None:
    tracker = play(LossTracker("ema", beta), schedule)
    expected = [ema(history(schedule, peer), beta) for peer in tracker.peers.tolist()]
    np.testing.assert_allclose(tracker.tracked, expected, rtol=1e-9, atol=1e-9)


@given(schedules)
def test_accumulated_is_the_plain_sum_of_all_known_losses(schedule: Schedule) -> None:
    tracker = play(LossTracker("accumulated"), schedule)
    expected = [sum(history(schedule, peer)) for peer in tracker.peers.tolist()]
    np.testing.assert_allclose(tracker.tracked, expected, rtol=1e-9, atol=1e-9)


@given(schedules, betas)
def test_debias_is_the_weighted_mean_of_all_known_losses(schedule: Schedule, beta: float) -> None:
    tracker = play(LossTracker("ema", beta, debias=True), schedule)
    known = [history(schedule, peer) for peer in tracker.peers.tolist()]
    expected = [ema(h, beta) / ema([1.0] * len(h), beta) for h in known]
    np.testing.assert_allclose(tracker.tracked, expected, rtol=1e-9, atol=1e-9)


@given(st.integers(1, 9), losses, betas)
def test_debias_of_a_constant_loss_is_that_loss(rounds: int, loss: float, beta: float) -> None:
    tracker = play(LossTracker("ema", beta, debias=True), [{0: loss}] * rounds)
    np.testing.assert_allclose(tracker.tracked, [loss], rtol=1e-9, atol=1e-12)


def test_momentum_weighs_the_new_loss() -> None:
    assert play(LossTracker("ema", 0.9), [{0: 1.0}]).tracked == pytest.approx([0.9])


@given(schedules)
def test_holds_the_visited_peers_in_order_and_their_latest_losses(schedule: Schedule) -> None:
    tracker = play(LossTracker(), schedule)
    assert tracker.peers.tolist() == sorted({peer for visited in schedule for peer in visited})
    assert tracker.latest.tolist() == [
        history(schedule, peer)[-1] for peer in tracker.peers.tolist()
    ]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    "make", [LossTracker, lambda: LossTracker("accumulated"), lambda: LossTracker(debias=True)]
)
def test_a_loss_that_is_no_number_takes_the_weight_but_never_enters_the_average(
    bad: float, make: Callable[[], LossTracker]
) -> None:
    tracker = play(make(), [{0: 1.0, 1: 2.0}, {0: 3.0, 1: bad}])
    assert np.isfinite(tracker.tracked[0])
    assert tracker.latest[1] == tracker.tracked[1] == np.inf
    play(tracker, [{0: 1.0}])
    assert tracker.tracked[1] == np.inf, "not visited since: still unusable"
    play(tracker, [{1: 4.0}])
    assert tracker.tracked[1] == play(make(), [{1: 2.0}, {1: 4.0}]).tracked[0]


def test_a_peer_that_starts_with_nan_can_recover() -> None:
    tracker = play(LossTracker("ema", 0.5), [{0: np.nan}, {0: 4.0}])
    assert tracker.tracked.tolist() == [2.0]


@given(schedules, schedules, st.booleans())
def test_goes_on_from_a_saved_state_bit_for_bit(
    before: Schedule, after: Schedule, debias: bool
) -> None:
    def new() -> LossTracker:
        return LossTracker("ema", 0.6, debias=debias)

    tracker = play(new(), before)
    saved: dict[str, IntArray | FloatArray] = {
        name: values.copy() for name, values in tracker.state().items()
    }
    resumed = new()
    resumed.restore(saved)
    play(tracker, after)
    play(resumed, after)
    assert {name: values.tolist() for name, values in resumed.state().items()} == {
        name: values.tolist() for name, values in tracker.state().items()
    }
    assert resumed.tracked.tolist() == tracker.tracked.tolist()


@pytest.mark.parametrize("tracking", ["ema", "accumulated"])
def test_a_loss_above_the_bound_takes_the_weight_and_is_averaged_as_the_bound(
    tracking: Tracking,
) -> None:
    tracker = play(LossTracker(tracking, bound=2.0), [{0: 1.0, 1: 9e5, 2: 2.0}, {0: 1.0, 1: 3.0}])
    assert tracker.sane.tolist() == [True, False, True]
    assert tracker.tracked[1] == np.inf
    play(tracker, [{0: 1.0}])
    assert tracker.tracked[1] == np.inf, "not visited since: still unusable"
    play(tracker, [{1: 1.5}])
    plain = play(LossTracker(tracking), [{1: 2.0}, {1: 2.0}, {1: 2.0}, {1: 1.5}])
    assert tracker.tracked[1] == pytest.approx(plain.tracked[0])
    assert tracker.tracked[1] > tracker.tracked[0], "who was bad for long is not better off for it"
