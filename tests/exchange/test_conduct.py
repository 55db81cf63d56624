import logging

import pytest

from federico.exchange.conduct import Conduct
from federico.exchange.limits import Limits


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def conduct(clock: Clock) -> Conduct:
    return Conduct(Limits(strikes=2, pause=10, pauses=1), clock)


def test_a_peer_nobody_complained_of_is_good(conduct: Conduct) -> None:
    assert conduct.trusts("a")
    assert conduct.standings() == {}


def test_strikes_then_a_pause_then_quarantine(conduct: Conduct, clock: Clock) -> None:
    conduct.strike("a", "NaN")
    assert conduct.trusts("a"), "one mistake is forgiven"
    conduct.strike("a", "NaN")
    assert conduct.standing("a").state == "paused"
    clock.now = 9.9
    assert not conduct.trusts("a")
    clock.now = 10
    assert conduct.trusts("a")
    for _ in range(2):
        conduct.strike("a", "again")
    clock.now = 1e9
    assert conduct.standing("a").state == "quarantined", "no time heals that"


def test_after_a_pause_strikes_count_from_zero(conduct: Conduct, clock: Clock) -> None:
    for _ in range(2):
        conduct.strike("a", "NaN")
    clock.now = 10
    conduct.strike("a", "NaN")
    assert conduct.trusts("a")
    assert conduct.standing("a").strikes == 1


def test_a_strike_during_a_pause_makes_it_no_longer(conduct: Conduct, clock: Clock) -> None:
    for _ in range(5):
        conduct.strike("a", "NaN")
    assert conduct.standing("a").pauses == 1
    clock.now = 10
    assert conduct.trusts("a")


def test_peers_are_judged_apart_and_the_reason_is_kept(conduct: Conduct, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        conduct.strike("b", "chunk 3 is not the announced one")
        conduct.strike("b", "coefficient nan")
    assert conduct.trusts("a")
    assert list(conduct.standings()) == ["b"]
    assert conduct.standing("b").reason == "coefficient nan"
    assert "b: chunk 3 is not the announced one" in caplog.text
