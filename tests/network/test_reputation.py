import logging

import pytest

from federico.network.limits import Limits
from federico.network.reputation import MOST_REASONS, OTHER_REASONS, Reputation
from tests.support.clock import Clock


@pytest.fixture
def reputation(clock: Clock) -> Reputation:
    return Reputation(Limits(strikes=2, pause=10, pauses=1), clock)


def test_a_peer_nobody_complained_of_is_good(reputation: Reputation) -> None:
    assert reputation.trusts("a")
    assert reputation.all_offences() == {}


def test_strikes_then_a_pause_then_quarantine(reputation: Reputation, clock: Clock) -> None:
    reputation.strike("a", "NaN")
    assert reputation.trusts("a"), "one mistake is forgiven"
    reputation.strike("a", "NaN")
    assert reputation.offences("a").state == "paused"
    clock.now = 9.9
    assert not reputation.trusts("a")
    clock.now = 10
    assert reputation.trusts("a")
    for _ in range(2):
        reputation.strike("a", "again")
    clock.now = 1e9
    assert reputation.offences("a").state == "quarantined", "no time heals that"


def test_after_a_pause_strikes_count_from_zero(reputation: Reputation, clock: Clock) -> None:
    for _ in range(2):
        reputation.strike("a", "NaN")
    clock.now = 10
    reputation.strike("a", "NaN")
    assert reputation.trusts("a")
    assert reputation.offences("a").strikes == 1


def test_a_strike_during_a_pause_makes_it_no_longer(reputation: Reputation, clock: Clock) -> None:
    for _ in range(5):
        reputation.strike("a", "NaN")
    assert reputation.offences("a").pauses == 1
    clock.now = 10
    assert reputation.trusts("a")


def test_peers_are_judged_apart_and_the_reason_is_kept(
    reputation: Reputation, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        reputation.strike("b", "chunk 3 is not the announced one")
        reputation.strike("b", "coefficient nan")
    assert reputation.trusts("a")
    assert list(reputation.all_offences()) == ["b"]
    assert reputation.offences("b").reason == "coefficient nan"
    assert "b: chunk 3 is not the announced one" in caplog.text


def test_what_a_peer_said_is_kept_in_one_short_line(
    reputation: Reputation, caplog: pytest.LogCaptureFixture
) -> None:
    reputation.strike("b", "a request about \x1b[2J\n" + 60_000 * "x")
    assert reputation.offences("b").reason.startswith("a request about [2Jxxx")
    assert len(reputation.offences("b").reason) <= 200
    assert len(caplog.text) < 400


def test_what_was_refused_is_counted_by_reason(reputation: Reputation) -> None:
    for index in range(3):
        reputation.strike("a", f"chunk {index} of 12.5 bytes, signed by 'b {index}'")
    reputation.note_refusal("a", "no room for it")
    chunks = "chunk \u2026 of \u2026 bytes, signed by \u2026"
    assert reputation.refused("a") == {chunks: 3, "no room for it": 1}
    assert reputation.offences("a").strikes == 3, "a request within the rules is no strike"


def test_a_peer_cannot_make_the_list_of_reasons_long(reputation: Reputation) -> None:
    for letter in "abcdefghijklm":
        reputation.note_refusal("a", f"about {letter}")
    found = reputation.refused("a")
    assert sum(found.values()) == 13
    assert len(found) == MOST_REASONS + 1
    assert found[OTHER_REASONS] == 13 - MOST_REASONS


def test_counts_outlast_a_pause(reputation: Reputation, clock: Clock) -> None:
    for _ in range(2):
        reputation.strike("a", "NaN")
    clock.now = 10
    assert reputation.refused("a") == {"NaN": 2}
