"""Who holds up this peer, and for how long it is left alone after that.

A peer that does not answer, or answers as slowly as it can get away with, costs its visitors the
time of a whole deadline, and breaks no rule. So time is paid back: a peer that held up a round by
some seconds is not asked for ten times as long. It can cost a tenth of a run, then, and a slow
honest peer is still asked now and then.
"""

import threading
import time
from collections.abc import Callable
from statistics import median

SLACK = 1.0
"""Seconds that a transfer may take longer than usual without holding anybody up."""
USUAL_TIMES = 2.0
"""How many times the usual duration a transfer may take besides."""
PAID_BACK = 10.0
"""For each second that a member held up this peer, it is left alone for so many."""


class Pace:
    """How long the transfers with each member take, and who is left alone now."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` gives seconds; tests set it."""
        self._clock = clock
        self._durations: dict[str, float] = {}
        """Seconds of the last transfer with each member that succeeded."""
        self._alone_until: dict[str, float] = {}
        self._lock = threading.Lock()

    def note(self, member: str, seconds: float, *, succeeded: bool) -> None:
        """Note how long a transfer took, and how it ended."""
        with self._lock:
            # One slow member among several does not change what is usual.
            usual = median(self._durations.values()) if self._durations else 0.0
            if succeeded:
                self._durations[member] = seconds
            if succeeded and len(self._durations) < 2:
                return  # there is nobody yet to compare with
            held_up = seconds - USUAL_TIMES * usual - SLACK
            if held_up > 0:
                self._alone_until[member] = self._clock() + PAID_BACK * held_up

    def left_alone(self, member: str) -> float:
        """Seconds for which this member is not asked for anything; 0 if it may be asked."""
        with self._lock:
            return max(0.0, self._alone_until.get(member, 0.0) - self._clock())
