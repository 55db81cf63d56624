"""Time that a member costs is paid back."""

from federico.network.pace import Pace
from tests.support.clock import Clock


def make_pace() -> tuple[Pace, Clock]:
    clock = Clock()
    pace = Pace(clock)
    for name in ("a", "b", "c"):
        pace.note(name, 0.5, succeeded=True)
    return pace, clock


def test_who_holds_up_the_others_costs_a_tenth_of_the_time_at_most() -> None:
    pace, clock = make_pace()
    lost = 0.0
    while clock.now < 10_000:
        if pace.left_alone("mute"):
            clock.now += 1
            continue
        clock.now += 20
        lost += 20
        pace.note("mute", 20, succeeded=False)
    assert 0 < lost < 0.12 * clock.now


def test_usual_durations_cost_nothing() -> None:
    pace, _ = make_pace()
    pace.note("a", 1.9, succeeded=True)
    assert pace.left_alone("a") == 0


def test_where_all_lines_are_slow_nobody_is_left_alone() -> None:
    pace = Pace(Clock())
    for name in ("a", "b", "c", "a"):
        pace.note(name, 36, succeeded=True)
    assert [pace.left_alone(name) for name in ("a", "b", "c")] == [0, 0, 0]


def test_a_slow_one_that_comes_whole_at_last_is_left_alone_too() -> None:
    pace, clock = make_pace()
    pace.note("tar pit", 52, succeeded=True)
    assert pace.left_alone("tar pit") == 500
    clock.now += 500
    assert pace.left_alone("tar pit") == 0
