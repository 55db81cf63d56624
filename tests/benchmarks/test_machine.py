from statistics import median

import pytest
import torch

from benchmarks import machine
from benchmarks.machine import Limit, facts, peak_memory


def test_limit_is_the_median_of_all_bursts_on_the_threads_it_began_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machine, "BURST_SECONDS", 0.001)
    monkeypatch.setattr(machine, "SIZE", 64)
    threads, limit = torch.get_num_threads(), Limit()
    try:
        limit.measure()
        torch.set_num_threads(threads + 1)
        limit.measure()
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(threads)
    assert len(limit.rates) == 2 * machine.BURSTS
    assert limit.rate == median(limit.rates) > 0


def test_peak_memory_is_in_bytes() -> None:
    assert 50e6 < peak_memory() < 1e12, "a process with torch is neither kilobytes nor terabytes"


def test_facts_name_the_processor() -> None:
    assert facts()["processor"]
    assert facts()["torch"] == torch.__version__
