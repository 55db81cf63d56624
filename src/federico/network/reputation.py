"""How peers behave: strikes, then a pause, then quarantine. Strikes of long ago are served with the pause."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from federico.network.limits import Limits

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Standing:
    """What one peer has on its record."""

    strikes: int = 0
    """Since its last pause."""
    pauses: int = 0
    paused_until: float = 0.0
    state: Literal["good", "paused", "quarantined"] = "good"
    reason: str = ""
    """Of the last strike."""


class Reputation:
    """The standing of every peer that has ever sent what it may not send."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits, self._clock = limits, clock
        self._standings: dict[str, Standing] = {}
        self._lock = threading.Lock()

    def strike(self, peer: str, reason: str) -> None:
        """Note a message against the rules."""
        with self._lock:
            before = self._now(peer)
            noted = replace(before, strikes=before.strikes + 1, reason=reason)
            self._standings[peer] = self._judge(noted)
        log.warning("%s: %s (%s)", peer, reason, self._standings[peer].state)

    def trusts(self, peer: str) -> bool:
        """Whether this peer is to be asked and heard now."""
        return self.standing(peer).state == "good"

    def standing(self, peer: str) -> Standing:
        """What is on record of this peer; a pause that is over leaves its count."""
        with self._lock:
            return self._now(peer)

    def standings(self) -> dict[str, Standing]:
        """Of everybody who has a record."""
        with self._lock:
            return {peer: self._now(peer) for peer in sorted(self._standings)}

    def _now(self, peer: str) -> Standing:
        noted = self._standings.get(peer, Standing())
        if noted.state == "paused" and self._clock() >= noted.paused_until:
            return replace(noted, state="good", strikes=0)
        return noted

    def _judge(self, noted: Standing) -> Standing:
        if noted.state != "good" or noted.strikes < self._limits.strikes:
            return noted
        if noted.pauses >= self._limits.pauses:
            return replace(noted, state="quarantined")
        until = self._clock() + self._limits.pause
        return replace(noted, state="paused", pauses=noted.pauses + 1, paused_until=until)
