"""How other peers have behaved: violations, then a pause, then quarantine."""

import logging
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from federico.network.limits import Limits
from federico.network.wire.messages import in_one_line

log = logging.getLogger(__name__)
MOST_REASONS = 8
"""Reasons that are counted each by itself for a peer: it has a hand in them, and might send new
ones without end."""
OTHER_REASONS = "other reasons"
PARTICULARS = re.compile(r"'[^']*'|\d+(?:\.\d+)?(?:e[+-]?\d+)?")
"""Names and numbers in a reason, which differ from message to message."""


@dataclass(frozen=True)
class Offences:
    """What is on record about one peer."""

    strikes: int = 0
    """Violations since its last pause."""
    pauses: int = 0
    """How often it has been paused."""
    paused_until: float = 0.0
    """When its pause ends, by the clock of the reputation."""
    state: Literal["good", "paused", "quarantined"] = "good"
    reason: str = ""
    """What its last violation was."""


class Reputation:
    """The offences of every peer that has ever sent what it may not send."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` gives seconds; tests set it."""
        self._limits = limits
        self._clock = clock
        self._offences: dict[str, Offences] = {}
        self._refused: dict[str, dict[str, int]] = {}
        self._lock = threading.Lock()

    def strike(self, peer: str, reason: str) -> None:
        """Note a violation. The reason may quote the peer."""
        reason = in_one_line(reason)
        with self._lock:
            before = self._current(peer)
            after = replace(before, strikes=before.strikes + 1, reason=reason)
            after = self._judge(after)
            self._offences[peer] = after
            self._count(peer, reason)
        log.warning("%s: %s (%s)", peer, reason, after.state)

    def note_refusal(self, peer: str, reason: str) -> None:
        """Count a request within the rules that could not be granted, such as one that is late."""
        with self._lock:
            self._count(peer, in_one_line(reason))

    def refused(self, peer: str) -> dict[str, int]:
        """How many messages of this peer were refused for each reason, strikes among them.

        Names and numbers are left out of the reasons.
        """
        with self._lock:
            return dict(self._refused.get(peer, {}))

    def trusts(self, peer: str) -> bool:
        """Whether requests go to this peer, and are taken from it."""
        return self.offences(peer).state == "good"

    def offences(self, peer: str) -> Offences:
        """What is on record about this peer now."""
        with self._lock:
            return self._current(peer)

    def all_offences(self) -> dict[str, Offences]:
        """What is on record about every peer that has a record."""
        with self._lock:
            return {peer: self._current(peer) for peer in sorted(self._offences)}

    def _count(self, peer: str, reason: str) -> None:
        counts = self._refused.setdefault(peer, {})
        kind = PARTICULARS.sub("\u2026", reason)
        if kind not in counts and len(counts) >= MOST_REASONS:
            kind = OTHER_REASONS
        counts[kind] = counts.get(kind, 0) + 1

    def _current(self, peer: str) -> Offences:
        """A pause that is over clears the strikes, but is not forgotten."""
        noted = self._offences.get(peer, Offences())
        if noted.state == "paused" and self._clock() >= noted.paused_until:
            return replace(noted, state="good", strikes=0)
        return noted

    def _judge(self, noted: Offences) -> Offences:
        if noted.state != "good" or noted.strikes < self._limits.strikes:
            return noted
        if noted.pauses >= self._limits.pauses:
            return replace(noted, state="quarantined")
        until = self._clock() + self._limits.pause
        return replace(noted, state="paused", pauses=noted.pauses + 1, paused_until=until)
