"""How many requests of one member are answered: enough for any honest one, and not a flood."""

import threading
import time
from collections.abc import Callable

A_SECOND = 20.0
"""Requests of one member that are answered each second, however long it goes on."""
AT_ONCE = 64
"""Requests beyond the chunks of models and updates that are answered at once."""
COPIES = 8
"""How many times the chunks of a whole model may pass at once: up and down, with repetitions."""


class Allowance:
    """A stock of requests: it fills up slowly with time, and wholly with each new version.

    An honest member asks for a version a few times and moves a model up and down. What is over the
    allowance is dropped before anything is looked at; an honest member would ask again.
    """

    def __init__(self, chunks: int, clock: Callable[[], float] = time.monotonic) -> None:
        """`chunks` are those of a model; `clock` gives seconds, tests set it."""
        self._most = AT_ONCE + COPIES * chunks
        self._left = float(self._most)
        self._clock = clock
        self._looked_at = clock()
        self._lock = threading.Lock()

    def take(self) -> bool:
        """Use up one request; returns whether there was one left."""
        with self._lock:
            now = self._clock()
            self._left = min(self._most, self._left + A_SECOND * (now - self._looked_at))
            self._looked_at = now
            if self._left < 1:
                return False
            self._left -= 1
            return True

    def renew(self) -> None:
        """There is something new to ask for."""
        with self._lock:
            self._left = float(self._most)
