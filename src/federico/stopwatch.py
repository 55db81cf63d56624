"""Measures what the phases of a round take, by the clock on the wall and in processor time."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

Seconds: TypeAlias = Annotated[float, Field(ge=0, le=1e15, allow_inf_nan=False)]
"""A file that holds more, or no number, is damaged."""
Count: TypeAlias = Annotated[int, Field(ge=0, le=1 << 53)]
"""The same of samples: sums of such numbers are exact."""


@dataclass(frozen=True)
class Spent:
    """What a round took, by phase."""

    seconds: dict[str, Seconds]
    """Seconds by the clock on the wall."""
    processor_seconds: dict[str, Seconds]
    """Seconds of all threads of this process together: the same whatever else the machine does."""
    samples: dict[str, list[Count]] = field(default_factory=dict)
    """How many samples models went through for each client, by phase: where one process works for
    many clients at once, their seconds cannot be told apart, and are shared out by this. Empty
    where it is not counted; without the phases in which no model meets samples."""


class Stopwatch:
    """Measures the phases of a round."""

    def __init__(self, samples: Callable[[], NDArray[np.int64]] | None = None) -> None:
        """`samples`: tells how many went through models for each client so far, [clients]."""
        self._samples_so_far = samples
        self._samples: dict[str, NDArray[np.int64]] = {}
        self._seconds: dict[str, float] = defaultdict(float)
        self._processor_seconds: dict[str, float] = defaultdict(float)

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        """Time what happens inside as `phase`."""
        start = time.perf_counter()
        processor_start = time.process_time()
        before = None if self._samples_so_far is None else self._samples_so_far()
        yield
        self._seconds[phase] += time.perf_counter() - start
        self._processor_seconds[phase] += time.process_time() - processor_start
        if self._samples_so_far is not None and before is not None:
            added = self._samples_so_far() - before
            self._samples[phase] = self._samples.get(phase, 0 * added) + added

    def take(self) -> Spent:
        """Return what was spent so far, and start again at zero."""
        samples = {phase: each.tolist() for phase, each in self._samples.items() if each.any()}
        taken = Spent(dict(self._seconds), dict(self._processor_seconds), samples)
        self._seconds.clear()
        self._processor_seconds.clear()
        self._samples.clear()
        return taken
