import threading
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
import zenoh

from federico.network.presence import Presence, members_seen
from federico.network.roster import Roster
from tests.support.neighborhood import eventually

ROSTER = Roster("test", bytes(32), ("a", "b", "c"))


@pytest.fixture
def join(bus: zenoh.Session) -> Callable[[str], Presence]:
    return lambda name: Presence(bus, ROSTER, name)


def wait_until_away(presence: Presence, name: str) -> None:
    eventually(lambda: not presence.here(name))


def test_who_joins_is_seen_by_who_came_before_and_after(join) -> None:
    a, b = join("a"), join("b")
    assert a.wait(["b"], 60)
    assert b.wait(["a", "b"], 60)
    assert a.here("b")
    assert a.here("a")
    assert not a.here("c")


def test_who_leaves_is_away_since_then(join) -> None:
    a, b = join("a"), join("b")
    assert a.wait(["b"], 60)
    assert a.away() == {"c": None}
    b.close()
    wait_until_away(a, "b")
    assert set(a.away()) == {"b", "c"}
    assert a.away()["b"] is not None


@pytest.mark.parametrize(
    ("silent", "away", "over"),
    [(0.0, 2.9, False), (0.0, 3.1, True), (5.0, 7.9, False), (5.0, 8.1, True), (-9.0, 3.1, True)],
    ids=["just ended", "ended", "just cut off", "cut off", "gone before it was asked"],
)
def test_who_vanished_in_mid_sentence_is_waited_for_less_than_who_fell_silent(
    join, bus: zenoh.Session, silent: float, away: float, over: bool
) -> None:
    vanished = 1000.0
    now = vanished
    a, b = Presence(bus, ROSTER, "a", clock=lambda: now), join("b")
    assert a.wait(["b"], 60)
    assert not a.gone("b", -1e9, 3.0), "who is here is not gone, however silent"
    b.close()
    wait_until_away(a, "b")
    now = vanished + away
    assert a.gone("b", vanished - silent, 3.0) is over


def test_who_never_came_is_gone(join) -> None:
    assert join("a").gone("c", time.monotonic(), 3.0)


def test_waiting_for_somebody_who_never_comes_ends(join) -> None:
    assert not join("a").wait(["c"], 0.1)


def test_a_round_is_over_when_all_who_are_here_have_finished_it(join) -> None:
    a, b = join("a"), join("b")
    assert a.wait(["b"], 60)
    b.finish(1)
    assert a.wait_finished(ROSTER.members, 1, 60), "c is away"
    assert not a.wait_finished(ROSTER.members, 2, 0.1)
    b.finish(2)
    assert a.wait_finished(ROSTER.members, 2, 60)
    assert a.furthest_round("b") == 2


def test_nobody_waits_for_one_who_left(join) -> None:
    a, b = join("a"), join("b")
    assert a.wait(["b"], 60)
    over: list[bool] = []
    thread = threading.Thread(target=lambda: over.append(a.wait_finished(ROSTER.members, 1, 60)))
    thread.start()
    b.close()
    thread.join(60)
    assert over == [True]


def test_a_stranger_is_nobody(join, bus: zenoh.Session) -> None:
    a = join("a")
    token = bus.liveliness().declare_token(ROSTER.alive_key("mallory"))
    odd = bus.liveliness().declare_token(ROSTER.finished_key("b", "x9"))
    join("b")
    assert a.wait(["b"], 60)
    assert not a.here("mallory")
    assert a.furthest_round("b") == 0
    token.undeclare()
    odd.undeclare()


def test_a_stop_ends_waiting(join) -> None:
    a = join("a")
    over: list[bool] = []
    thread = threading.Thread(target=lambda: over.append(a.wait(["b"], 1e6)))
    thread.start()
    a.stop_waiting()
    thread.join(60)
    assert over == [False]


def test_one_with_another_federation_file_is_not_here(join, bus: zenoh.Session) -> None:
    a = join("a")
    b = Presence(bus, replace(ROSTER, digest=b"x" * 32), "b")
    eventually(lambda: a.with_another_file() == {"b"})
    assert not a.here("b")
    assert members_seen(bus, ROSTER, 60) == {"a": ROSTER.version, "b": (b"x" * 8).hex()}
    b.close()
    eventually(lambda: a.with_another_file() == set())


def test_who_has_finished_and_gone_has_finished(join) -> None:
    a, b = join("a"), join("b")
    b.finish(3)
    eventually(lambda: a.furthest_round("b") == 3)
    b.close()
    wait_until_away(a, "b")
    assert a.furthest_round("b") == 3
    assert a.furthest_round("c") == 0


@pytest.mark.parametrize("key", ["", "/alive", "/finished", "/finished/x", "/else/1/2"])
def test_odd_tokens_of_a_member_are_nothing(join, bus: zenoh.Session, key: str) -> None:
    a = join("a")
    odd = bus.liveliness().declare_token(f"{ROSTER.member_key('b')}{key}")
    join("c")
    assert a.wait(["c"], 60)
    assert not a.here("b")
    assert a.furthest_round("b") == 0
    odd.undeclare()


def test_versions_of_federico_that_speak_another_protocol_are_named_on_both_sides(
    bus: zenoh.Session, caplog: pytest.LogCaptureFixture
) -> None:
    older = Presence(bus, ROSTER, "a")
    newer = Presence(bus, replace(ROSTER, protocol=ROSTER.protocol + 1), "b")
    eventually(lambda: older.with_another_protocol() == {"b"})
    eventually(lambda: newer.with_another_protocol() == {"a"})
    assert not older.here("b")
    assert not newer.here("a")
    old, new = ROSTER.protocol, ROSTER.protocol + 1
    assert f"b speaks protocol {new}, this site {old}: upgrade the federico of" in caplog.text
    assert f"a speaks protocol {old}, this site {new}: upgrade the federico of" in caplog.text
    newer.close()
    eventually(lambda: older.with_another_protocol() == set())


def test_a_second_process_of_a_member_is_noticed_by_both_unless_it_is_leaving(
    bus: zenoh.Session,
) -> None:
    now = [100.0]
    first, second = (Presence(bus, ROSTER, "a", clock=lambda: now[0]) for _ in range(2))
    other = Presence(bus, ROSTER, "b", clock=lambda: now[0])
    assert other.wait(["a"], 60)
    assert not first.has_double, "it may be what an earlier start has left"
    now[0] += 20
    eventually(lambda: first.has_double and second.has_double)
    assert not other.has_double
    second.close()
    eventually(lambda: not first.has_double)
