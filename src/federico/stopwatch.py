"""Measures what the phases of a round take, by the clock on the wall and in processor time."""

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Spent:
    """What a round took, by phase."""

    seconds: dict[str, float]
    """Seconds by the clock on the wall."""
    processor_seconds: dict[str, float]
    """Seconds of all threads of this process together: the same whatever else the machine does."""


class Stopwatch:
    """Measures the phases of a round."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = defaultdict(float)
        self._processor_seconds: dict[str, float] = defaultdict(float)

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        """Time what happens inside as `phase`."""
        start = time.perf_counter()
        processor_start = time.process_time()
        yield
        self._seconds[phase] += time.perf_counter() - start
        self._processor_seconds[phase] += time.process_time() - processor_start

    def take(self) -> Spent:
        """Return what was spent so far, and start again at zero."""
        taken = Spent(dict(self._seconds), dict(self._processor_seconds))
        self._seconds.clear()
        self._processor_seconds.clear()
        return taken
