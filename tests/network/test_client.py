"""Sending requests on a bus: a stand-in for the other side answers as each test wants."""

import threading
import time
from collections.abc import Callable, Iterator

import pytest
import zenoh

from federico.network.client import Repetition, Request, RequestSender
from federico.network.limits import Limits
from federico.network.wire.messages import RefusedError, encode_busy, encode_refusal

KEY = "federico/test/site/requests/me/request-chunk"
PATIENT = Limits(deadline=60, patience=60, window=3)
BUSY = encode_busy("not yet")


@pytest.fixture
def answer_with(bus: zenoh.Session) -> Iterator[Callable[[Callable[[int], bytes]], None]]:
    """Sets who answers: a function of the number that is requested."""
    queryables = []

    def start(answer: Callable[[int], bytes]) -> None:
        def reply(query: zenoh.Query) -> None:
            with query:
                content = answer(int(query.attachment.to_bytes()))
                if content[:1] in (b"~", b"-"):
                    query.reply_err(content)
                else:
                    query.reply(query.key_expr, content)

        queryables.append(bus.declare_queryable(KEY, reply))

    yield start
    for queryable in queryables:
        queryable.undeclare()


@pytest.fixture
def unanswered(bus: zenoh.Session) -> Iterator[threading.Event]:
    """Requests come in, and get no answer; set with the first one."""
    held: list[zenoh.Query] = []
    came = threading.Event()

    def hold(query: zenoh.Query) -> None:
        held.append(query)
        came.set()

    queryable = bus.declare_queryable(KEY, hold)
    yield came
    queryable.undeclare()
    for query in held:
        query.drop()


def request(index: int) -> Request:
    return Request(KEY, str(index).encode())


def send_all(
    sender: RequestSender, count: int, gone: Callable[[float], bool] = lambda _: False
) -> dict[int, bytes] | None:
    """What came of a window of requests; None if not all did."""
    came: dict[int, bytes] = {}
    deadline = sender.deadline()
    repetition = Repetition(deadline, gone)
    succeeded = sender.send_all(count, request, came.__setitem__, deadline, repetition)
    return came if succeeded else None


def test_every_request_gets_its_own_answer(bus: zenoh.Session, answer_with) -> None:
    answer_with(lambda index: bytes([index + 200]))
    expected = {index: bytes([index + 200]) for index in range(20)}
    assert send_all(RequestSender(bus, PATIENT), 20) == expected


def test_as_many_are_under_way_as_the_window(bus: zenoh.Session, answer_with) -> None:
    answer_with(lambda index: b"")
    sender = RequestSender(bus, PATIENT)
    sent: set[int] = set()
    most = 0

    def counted(index: int) -> Request:
        nonlocal most
        sent.add(index)
        most = max(most, len(sent))
        return request(index)

    deadline = sender.deadline()
    repetition = Repetition(deadline, lambda _: False)
    assert sender.send_all(9, counted, lambda index, _: sent.remove(index), deadline, repetition)
    assert most == PATIENT.window + 1, "and the one that is being looked at"


def test_what_is_not_there_yet_is_requested_again(bus: zenoh.Session, answer_with) -> None:
    requested: list[int] = []

    def answer(index: int) -> bytes:
        requested.append(index)
        return BUSY if requested.count(index) < 3 else b"now"

    answer_with(answer)
    assert send_all(RequestSender(bus, PATIENT), 4) == dict.fromkeys(range(4), b"now")
    assert sorted(requested) == sorted([*range(4)] * 3)


def test_only_the_first_answer_counts(bus: zenoh.Session) -> None:
    """Whoever sends thousands of answers to one request keeps nobody busy with them."""
    asked: list[str] = []

    def answer_often(query: zenoh.Query) -> None:
        with query:
            asked.append(str(query.key_expr))
            if len(asked) == 1:
                for _ in range(100):
                    query.reply_err(BUSY)
            query.reply(query.key_expr, b"now")

    with bus.declare_queryable(KEY, answer_often):
        assert send_all(RequestSender(bus, PATIENT), 1) == {0: b"now"}
    assert len(asked) == 2, "the answer behind a hundred others is not looked for"


def test_what_has_come_is_not_requested_again(bus: zenoh.Session, answer_with) -> None:
    """A transfer that was cut resumes where it was."""
    requested: list[int] = []

    def answer(index: int) -> bytes:
        requested.append(index)
        return BUSY if index == 5 and requested.count(5) == 1 else b""

    answer_with(answer)
    assert send_all(RequestSender(bus, PATIENT), 8) is not None
    assert sorted(requested) == [0, 1, 2, 3, 4, 5, 5, 6, 7]


def test_a_refusal_ends_it(bus: zenoh.Session, answer_with) -> None:
    answer_with(lambda index: encode_refusal("this version is gone"))
    with pytest.raises(RefusedError, match="this version is gone"):
        send_all(RequestSender(bus, PATIENT), 3)


def test_nobody_is_waited_for_beyond_the_deadline(bus: zenoh.Session) -> None:
    assert send_all(RequestSender(bus, Limits(deadline=0.3)), 3) is None


def test_who_is_gone_is_not_waited_for(bus: zenoh.Session) -> None:
    begun = time.monotonic()
    sender = RequestSender(bus, Limits(deadline=1e6))
    assert send_all(sender, 3, gone=lambda heard: time.monotonic() > heard + 0.3) is None
    assert time.monotonic() - begun >= 0.3


def test_each_answer_is_a_sign_of_life(bus: zenoh.Session, answer_with) -> None:
    heard: list[float] = []

    def note(last: float) -> bool:
        heard.append(last)
        return False

    answer_with(lambda index: BUSY if index == 2 and len(heard) < 2 else b"")
    begun = time.monotonic()
    assert send_all(RequestSender(bus, Limits(deadline=60, window=1)), 3, gone=note) is not None
    assert len(heard) == 2
    assert all(begun < last < time.monotonic() for last in heard)


def test_a_request_without_an_answer_ends_with_patience(bus: zenoh.Session, unanswered) -> None:
    sender = RequestSender(bus, Limits(deadline=1e6, patience=0.3))
    assert send_all(sender, 2, gone=lambda _: True) is None
    assert unanswered.is_set()


def test_a_stop_ends_all_waiting_now_and_later(bus: zenoh.Session, unanswered) -> None:
    sender = RequestSender(bus, Limits(deadline=1e6, patience=1e6))
    came: list[object] = []
    thread = threading.Thread(target=lambda: came.append(send_all(sender, 3)))
    thread.start()
    assert unanswered.wait(60)
    sender.stop_waiting()
    thread.join(60)
    assert came == [None]
    assert send_all(sender, 1) is None


def test_one_request_is_sent_until_it_is_answered(bus: zenoh.Session, answer_with) -> None:
    answers = iter([BUSY, BUSY, b"yes"])
    answer_with(lambda index: next(answers))
    sender = RequestSender(bus, PATIENT)
    deadline = sender.deadline()
    assert sender.send(request(0), deadline, Repetition(deadline, lambda _: False)) == b"yes"
