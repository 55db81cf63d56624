"""What this machine can do: the limit that everything else is compared with."""

import os
import platform
import resource
import time
from pathlib import Path
from statistics import median

import torch

from federico import compat

SIZE = 1536
BURST_SECONDS = 0.25
BURSTS = 3


class Limit:
    """The rate of plain float32 matrix products, in bursts before, between and after the work that
    is measured.

    A shared machine has good and bad minutes: the median of many bursts is what it sustained
    meanwhile, and a best one would be what nobody got.
    """

    def __init__(self) -> None:
        self.threads = compat.thread_count()
        self.rates: list[float] = []
        self._a, self._b = torch.randn(SIZE, SIZE), torch.randn(SIZE, SIZE)

    def measure(self) -> None:
        """Some more bursts, on all threads that the work has."""
        compat.use_threads(self.threads)
        self._a @ self._b  # threads that slept wake up
        self.rates += [self._burst() for _ in range(BURSTS)]

    @property
    def rate(self) -> float:
        """Floating-point operations per second."""
        return median(self.rates)

    def _burst(self) -> float:
        start, done = time.perf_counter(), 0
        while (taken := time.perf_counter() - start) < BURST_SECONDS:
            self._a @ self._b
            done += 1
        return done * 2 * SIZE**3 / taken


def facts() -> dict[str, str]:
    """What a reader must know of the machine to compare."""
    return {
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "threads": str(compat.thread_count()),
        "python": platform.python_version(),
        "torch": str(torch.__version__),
    }


def _processor() -> str:
    file = Path("/proc/cpuinfo")
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def peak_memory() -> int:
    """Bytes this process has held at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
