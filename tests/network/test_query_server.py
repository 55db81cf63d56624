import threading
from collections.abc import Callable, Iterator

import pytest
import zenoh

from federico.errors import ProtocolError
from federico.network.query_server import LANE, BusyError, QueryServer
from federico.network.wire.messages import RefusedError

KEY = "federico/test/site/desk"
ROOM = 10_000


Opened = Callable[[Callable[[str], bytes]], None]


@pytest.fixture
def opened(bus: zenoh.Session) -> Iterator[Opened]:
    """A desk for a and b that answers by a function of the visitor."""
    desks = []

    def start(answer: Callable[[str], bytes]) -> None:
        desks.append(
            QueryServer(bus, KEY, ["a", "b"], lambda visitor, _, __: answer(visitor), ROOM)
        )

    yield start
    for desk in desks:
        desk.close()


def ask(bus: zenoh.Session, visitor: str) -> list[bytes | None]:
    """Every answer; None for one that is an error."""
    replies = bus.get(f"{KEY}/{visitor}/ask", timeout=60.0)
    return [reply.ok and reply.ok.payload.to_bytes() for reply in replies]


def test_a_question_is_answered_under_the_name_it_was_asked(
    bus: zenoh.Session, opened: Opened
) -> None:
    opened(lambda visitor: visitor.encode())
    assert ask(bus, "a") == [b"a"]
    assert ask(bus, "b") == [b"b"]


def test_a_stranger_gets_no_answer(bus: zenoh.Session, opened: Opened) -> None:
    opened(lambda visitor: b"")
    assert ask(bus, "mallory") == []


def test_one_visitor_holds_up_no_other(bus: zenoh.Session, opened: Opened) -> None:
    free = threading.Event()
    opened(lambda visitor: visitor.encode() if visitor == "b" or free.wait(60) else b"")
    slow = bus.get(f"{KEY}/a/ask", timeout=60.0)
    assert ask(bus, "b") == [b"b"]
    free.set()
    assert len(list(slow)) == 1


def test_a_flood_is_dropped_not_kept(bus: zenoh.Session, opened: Opened) -> None:
    free, begun = threading.Event(), threading.Event()

    def answer(visitor: str) -> bytes:
        begun.set()
        free.wait(60)
        return b""

    opened(answer)
    first = bus.get(f"{KEY}/a/ask", timeout=60.0)
    assert begun.wait(60)
    flood = [bus.get(f"{KEY}/a/ask", timeout=60.0) for _ in range(2 * LANE)]
    dropped = [list(replies) for replies in flood[LANE:]]
    free.set()
    assert dropped == [[]] * LANE
    assert [len(list(replies)) for replies in (first, *flood[:LANE])] == [1] * (LANE + 1)


@pytest.mark.parametrize(("size", "kept"), [(100, LANE), (ROOM // 4, 4), (3 * ROOM, 1)])
def test_what_waits_of_one_visitor_has_a_bound_in_bytes_too(
    bus: zenoh.Session, opened: Opened, size: int, kept: int
) -> None:
    """However large its questions are, one of them always has room: else an honest one would never get through."""
    free, begun = threading.Event(), threading.Event()

    def answer(visitor: str) -> bytes:
        begun.set()
        assert visitor == "b" or free.wait(60)
        return b""

    opened(answer)
    first = bus.get(f"{KEY}/a/part", payload=bytes(size), timeout=60.0)
    assert begun.wait(60)
    flood = [bus.get(f"{KEY}/a/part", payload=bytes(size), timeout=60.0) for _ in range(2 * LANE)]
    assert [list(replies) for replies in flood[kept:]] == [[]] * (2 * LANE - kept)
    assert ask(bus, "b") == [b""], "others have lanes of their own"
    free.set()
    assert [len(list(replies)) for replies in (first, *flood[:kept])] == [1] * (kept + 1)
    assert ask(bus, "a") == [b""], "what is answered makes room"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (BusyError("not yet"), b"~not yet"),
        (RefusedError("too old"), b"-too old"),
        (ProtocolError("NaN"), b"-NaN"),
        (ZeroDivisionError("a bug"), b"-internal error"),
    ],
)
def test_no_question_is_left_without_a_reply(
    bus: zenoh.Session,
    opened: Opened,
    error: Exception,
    said: bytes,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def answer(visitor: str) -> bytes:
        raise error

    opened(answer)
    (reply,) = bus.get(f"{KEY}/a/ask", timeout=60.0)
    assert reply.err.payload.to_bytes() == said
    assert ("ZeroDivisionError: a bug" in caplog.text) is isinstance(error, ZeroDivisionError), (
        "a trace, here alone"
    )
