"""For whom this peer waits now, and for how long at most: what people ask of a peer that is slow.

A status is shown with this file, and must be quick: nothing here needs the network.
"""

import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Wait:
    """One member that is waited for."""

    member: str
    wanted: str
    """What is waited for, such as "its model"."""
    since: float
    """When the waiting began, in seconds since 1970."""
    until: float
    """When it ends at the latest, in seconds since 1970."""


class Waits:
    """All that is waited for at the moment; any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._current: list[Wait] = []

    @contextmanager
    def waiting(self, member: str, wanted: str, seconds: float) -> Iterator[None]:
        """Note that a member is waited for as long as the block lasts, for at most `seconds`."""
        now = time.time()
        wait = Wait(member, wanted, since=now, until=now + seconds)
        with self._lock:
            self._current.append(wait)
        try:
            yield
        finally:
            with self._lock:
                self._current.remove(wait)

    def wait_only_for(self, members: Collection[str], wanted: str, seconds: float) -> None:
        """Note that of all members exactly these are waited for with this wish.

        Whoever is waited for already stays noted since then.
        """
        now = time.time()
        with self._lock:
            known = {wait.member: wait for wait in self._current if wait.wanted == wanted}
            others = [wait for wait in self._current if wait.wanted != wanted]
            wished = []
            for member in members:
                since = known[member].since if member in known else now
                wished.append(Wait(member, wanted, since, until=now + seconds))
            self._current = others + wished

    @property
    def current(self) -> list[Wait]:
        """Who is waited for now, the longest first."""
        with self._lock:
            return sorted(self._current, key=lambda wait: wait.since)
