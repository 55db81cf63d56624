"""Asking on a bus: a stand-in for the other side answers as each test wants."""

import threading
import time
from collections.abc import Callable, Iterator

import pytest
import zenoh

from federico.network.limits import Limits
from federico.network.query_server import BusyError, QueryServer
from federico.network.requests import Attempts, Line, Question, ask_all, ask_until
from federico.network.wire.messages import RefusedError

KEY = "federico/test/site/desk"
ROOM = 1 << 20
PATIENT = Limits(deadline=60, patience=60, window=3)


@pytest.fixture
def answers(bus: zenoh.Session) -> Iterator[Callable[[Callable[[int], bytes]], None]]:
    """Sets up who answers: a function of the number asked for."""
    desks = []

    def start(answer: Callable[[int], bytes]) -> None:
        desks.append(
            QueryServer(
                bus,
                KEY,
                ["me"],
                lambda _, __, query: answer(int(query.attachment.to_bytes())),
                ROOM,
            )
        )

    yield start
    for desk in desks:
        desk.close()


def question(index: int) -> Question:
    return Question(f"{KEY}/me/piece", str(index).encode())


def ask(
    line: Line, count: int, gone: Callable[[float], bool] = lambda _: False
) -> dict[int, bytes] | None:
    """What came of a window of questions; None if not all did."""
    came: dict[int, bytes] = {}
    deadline = line.deadline()
    attempts = Attempts(deadline, gone)
    return came if ask_all(line, question, came.__setitem__, count, deadline, attempts) else None


def test_every_question_gets_its_own_answer(bus: zenoh.Session, answers) -> None:
    answers(lambda index: bytes([index]))
    assert ask(Line(bus, PATIENT), 20) == {index: bytes([index]) for index in range(20)}


def test_as_many_are_under_way_as_the_window(bus: zenoh.Session, answers) -> None:
    answers(lambda index: b"")
    line, asked, most = Line(bus, PATIENT), set[int](), 0

    def asking(index: int) -> Question:
        nonlocal most
        asked.add(index)
        most = max(most, len(asked))
        return question(index)

    deadline = line.deadline()
    attempts = Attempts(deadline, lambda _: False)
    assert ask_all(line, asking, lambda index, _: asked.remove(index), 9, deadline, attempts)
    assert most == PATIENT.window + 1, "and the one that is being looked at"


def test_what_is_not_there_yet_is_asked_for_again(bus: zenoh.Session, answers) -> None:
    asked: list[int] = []

    def answer(index: int) -> bytes:
        asked.append(index)
        if asked.count(index) < 3:
            raise BusyError("not yet")
        return b"now"

    answers(answer)
    assert ask(Line(bus, PATIENT), 4) == dict.fromkeys(range(4), b"now")
    assert sorted(asked) == sorted([*range(4)] * 3)


def test_what_has_come_is_not_asked_for_again(bus: zenoh.Session, answers) -> None:
    """A transfer that was cut goes on where it was."""
    asked: list[int] = []
    cut = threading.Event()

    def answer(index: int) -> bytes:
        asked.append(index)
        if index == 5 and not cut.is_set():
            cut.set()
            raise BusyError("cut")
        return b""

    answers(answer)
    assert ask(Line(bus, PATIENT), 8) is not None
    assert sorted(asked) == [0, 1, 2, 3, 4, 5, 5, 6, 7]


def test_a_no_ends_it(bus: zenoh.Session, answers) -> None:
    def answer(index: int) -> bytes:
        raise RefusedError("this version is gone")

    answers(answer)
    with pytest.raises(RefusedError, match="this version is gone"):
        ask(Line(bus, PATIENT), 3)


def test_nobody_is_waited_for_beyond_the_deadline(bus: zenoh.Session) -> None:
    assert ask(Line(bus, Limits(deadline=0.3)), 3) is None


def test_who_is_gone_is_not_waited_for(bus: zenoh.Session) -> None:
    begun = time.monotonic()
    assert (
        ask(Line(bus, Limits(deadline=1e6)), 3, gone=lambda heard: time.monotonic() > heard + 0.3)
        is None
    )
    assert time.monotonic() - begun >= 0.3


def test_each_answer_is_a_sign_of_life(bus: zenoh.Session, answers) -> None:
    heard: list[float] = []

    def answer(index: int) -> bytes:
        if index == 2 and len(heard) < 2:
            raise BusyError("not yet")
        return b""

    answers(answer)
    begun = time.monotonic()
    assert (
        ask(Line(bus, Limits(deadline=60, window=1)), 3, gone=lambda last: bool(heard.append(last)))
        is not None
    )
    assert len(heard) == 2
    assert all(begun < last < time.monotonic() for last in heard)


def test_a_question_without_a_reply_ends_with_patience(bus: zenoh.Session) -> None:
    held: list[zenoh.Query] = []
    queryable = bus.declare_queryable(f"{KEY}/*/*", held.append)
    line = Line(bus, Limits(deadline=1e6, patience=0.3))
    assert ask(line, 2, gone=lambda _: True) is None
    assert held
    queryable.undeclare()
    for query in held:
        query.drop()


def test_hurry_ends_all_waiting_now_and_later(bus: zenoh.Session) -> None:
    held: list[zenoh.Query] = []
    asked = threading.Event()
    queryable = bus.declare_queryable(f"{KEY}/*/*", lambda query: (held.append(query), asked.set()))
    line = Line(bus, Limits(deadline=1e6, patience=1e6))
    answer: list[object] = ["still waiting"]
    thread = threading.Thread(target=lambda: answer.__setitem__(0, ask(line, 3)))
    thread.start()
    assert asked.wait(60)
    line.hurry()
    thread.join(60)
    assert answer == [None]
    assert ask(line, 1) is None
    queryable.undeclare()
    for query in held:
        query.drop()


def test_one_question_is_asked_until_it_is_answered(bus: zenoh.Session, answers) -> None:
    tries = iter([BusyError("not yet"), BusyError("not yet"), None])

    def answer(index: int) -> bytes:
        if (error := next(tries)) is not None:
            raise error
        return b"yes"

    answers(answer)
    line = Line(bus, PATIENT)
    deadline = line.deadline()
    assert ask_until(line, question(0), deadline, Attempts(deadline, lambda _: False)) == b"yes"
