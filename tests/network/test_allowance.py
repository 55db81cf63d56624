"""A flood uses up its allowance; an honest member never does."""

import pytest

from federico.network.allowance import Allowance


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def taken(allowance: Allowance, requests: int) -> int:
    return sum(allowance.take() for _ in range(requests))


def test_a_flood_gets_twenty_answers_a_second_after_its_first_burst(clock: Clock) -> None:
    allowance = Allowance(10, clock)
    assert taken(allowance, 100_000) == 64 + 80
    answered = 0
    for _ in range(600):
        clock.now += 0.1
        answered += taken(allowance, 100)
    assert answered == pytest.approx(20 * 60, rel=0.05)


def test_a_new_version_may_be_fetched_however_much_was_asked_before(clock: Clock) -> None:
    allowance = Allowance(1000, clock)
    taken(allowance, 100_000)
    allowance.renew()
    assert taken(allowance, 4000) == 4000


def test_it_does_not_grow_beyond_its_most(clock: Clock) -> None:
    allowance = Allowance(1, clock)
    clock.now += 1e6
    assert taken(allowance, 1000) == 72
