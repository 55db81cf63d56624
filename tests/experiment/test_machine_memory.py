import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from federico.errors import ConfigError
from federico.experiment import machine_memory
from federico.experiment.machine_memory import (
    available_bytes,
    gib,
    refuse_too_large,
    resident_bytes,
)


def test_free_memory_is_read_from_the_system() -> None:
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 0 < available_bytes() <= physical
    assert 10 << 20 < resident_bytes() < physical


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """A made-up file system in place of /proc and /sys, and a way to write into it."""
    monkeypatch.setattr(machine_memory, "Path", lambda name: tmp_path / name.lstrip("/"))

    def write(name: str, text: str) -> None:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    return write


@pytest.mark.usefixtures("system")
def test_system_that_does_not_tell_is_taken_as_empty() -> None:
    assert available_bytes() == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert resident_bytes() == machine_memory.PROCESS_BYTES


def test_control_groups_around_the_process_limit_it(system: Callable[[str, str], None]) -> None:
    system("proc/meminfo", "MemTotal: 9000 kB\nMemAvailable: 8000 kB\n")
    assert available_bytes() == 8000 << 10
    system("proc/self/cgroup", "1:name=systemd:/\n0::/batch/job\n")
    for group, limit in (("batch", "5000000"), ("batch/job", "max")):
        system(f"sys/fs/cgroup/{group}/memory.max", f"{limit}\n")
        system(f"sys/fs/cgroup/{group}/memory.current", "3000000\n")
        system(f"sys/fs/cgroup/{group}/memory.stat", "anon 2000000\ninactive_file 1000000\n")
    assert available_bytes() == 3000000, "files that can be read again do not count"


def test_model_is_weighed_with_its_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    size = 4001 * 4  # 2000 parameters, 2000 statistics and a counter
    monkeypatch.setattr(machine_memory, "available_bytes", lambda: size)
    refuse_too_large(lambda: nn.BatchNorm1d(1000), torch.float32)
    monkeypatch.setattr(machine_memory, "available_bytes", lambda: size - 1)
    with pytest.raises(ConfigError, match=r"model: one alone takes 0\.01 GiB"):
        refuse_too_large(lambda: nn.BatchNorm1d(1000), torch.float32)


def test_sizes_are_shown_in_gib() -> None:
    assert gib(3 << 29) == "1.50 GiB"
    assert gib((3 << 29) + 1) == "1.51 GiB", "rounded up: there must not be less"
