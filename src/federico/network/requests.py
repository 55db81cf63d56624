"""Asking, and asking again: questions with a time limit, and many chunks of one thing with a few under way."""

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import zenoh

from federico.network.limits import Limits
from federico.network.wire.messages import refusal

FIRST_PAUSE, LONGEST_PAUSE = 0.02, 2.0
"""Seconds between attempts; each pause is twice the one before."""


class Question(NamedTuple):
    """Where something is asked, and what goes with it."""

    key: str
    attachment: bytes
    payload: bytes | None = None


class Line:
    """A session to ask through, and when to stop asking."""

    def __init__(self, session: zenoh.Session, limits: Limits) -> None:
        self.limits = limits
        self._session = session
        self._hurried = threading.Event()
        self._cancel = zenoh.CancellationToken()

    def hurry(self) -> None:
        """No question is asked or waited for from now on."""
        self._hurried.set()
        self._cancel.cancel()

    @property
    def hurried(self) -> bool:
        """Whether nobody is waited for any more."""
        return self._hurried.is_set()

    def deadline(self) -> "Deadline":
        """For what begins now."""
        return Deadline(self.limits.deadline, self._hurried)

    def ask(self, question: Question, seconds: float) -> "Reply":
        """Sends the question, and does not wait."""
        try:
            return Reply(
                self._session.get(
                    question.key,
                    payload=question.payload,
                    attachment=question.attachment,
                    timeout=max(0.001, min(seconds, self.limits.patience)),
                    consolidation=zenoh.ConsolidationMode.NONE,
                    congestion_control=zenoh.CongestionControl.BLOCK,
                    cancellation_token=self._cancel,
                )
            )
        except zenoh.ZError:  # cancelled, or the session is closed
            return Reply(None)


class Reply:
    """An answer that may come."""

    def __init__(self, replies: "zenoh.Handler[zenoh.Reply] | None") -> None:
        self._replies = replies

    def wait(self) -> bytes | None:
        """The answer; none if nobody gave one in time. Raises RefusedError where the answer is no."""
        for reply in self._replies or ():
            if reply.ok is not None:
                return reply.ok.payload.to_bytes()
            if reply.err is not None and (refused := refusal(reply.err.payload.to_bytes())):
                raise refused
        return None


class Deadline:
    """A moment after which nobody is waited for."""

    def __init__(self, seconds: float, hurried: threading.Event) -> None:
        self._end, self._hurried = time.monotonic() + seconds, hurried

    @property
    def left(self) -> float:
        """Seconds until then."""
        return 0.0 if self._hurried.is_set() else max(0.0, self._end - time.monotonic())

    @property
    def over(self) -> bool:
        """Whether it has passed."""
        return self.left == 0

    def sleep(self, seconds: float) -> None:
        """Wait that long, but not beyond."""
        self._hurried.wait(min(seconds, self.left))


class Attempts:
    """When to try again: after longer and longer pauses, until the deadline, or until the other side is gone."""

    def __init__(self, deadline: Deadline, gone: Callable[[float], bool]) -> None:
        """`gone`: whether one whose last sign came at that moment (by the monotonic clock) is not to be waited for."""
        self._deadline, self._gone = deadline, gone
        self.progress()

    def progress(self) -> None:
        """Something came: pauses are short again."""
        self._pause, self._last = FIRST_PAUSE, time.monotonic()

    def another(self) -> bool:
        """Waits, and says whether to try once more."""
        if self._deadline.over or self._gone(self._last):
            return False
        self._deadline.sleep(self._pause)
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
        return not self._deadline.over


def ask_until(
    line: Line, question: Question, deadline: Deadline, attempts: Attempts
) -> bytes | None:
    """The answer to one question, asked again and again; none if time is over first."""
    while True:
        answer = line.ask(question, deadline.left).wait()
        if answer is not None or not attempts.another():
            return answer


def ask_all(
    line: Line,
    questions: Callable[[int], Question],
    answered: Callable[[int, bytes], None],
    count: int,
    deadline: Deadline,
    attempts: Attempts,
) -> bool:
    """ModelRequest `count` questions with a window of them under way, each until it is answered; whether all were in time."""
    waiting, under_way, missed = deque(range(count)), deque[tuple[int, Reply]](), False

    def fill_window() -> None:
        while waiting and len(under_way) < line.limits.window and not missed:
            index = waiting.popleft()
            under_way.append((index, line.ask(questions(index), deadline.left)))

    while waiting or under_way:
        fill_window()
        index, reply = under_way.popleft()
        answer = reply.wait()
        if answer is None:
            waiting.append(index)
            missed = True
        else:
            fill_window()  # the line is not to be idle while the answer is looked at
            answered(index, answer)
            attempts.progress()
        if missed and not under_way:  # one pause for all that were lost together
            if not attempts.another():
                return False
            missed = False
    return True
