"""How much memory this machine has, and how much of it this process takes."""

import os
from collections.abc import Iterator
from math import ceil
from pathlib import Path

import torch

from federico.errors import ConfigError
from federico.learning.models import Factory

PROCESS_BYTES = 450 << 20
"""Python, torch and the libraries, where the system does not tell."""


def available_bytes() -> int:
    """Memory that is free.

    Caches that would make room count as free. The limits of control groups are respected.
    """
    table = Path("/proc/meminfo")
    if not table.exists():
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

    sizes: dict[str, str] = {}
    for line in table.read_text().splitlines():
        name, size = line.split(":", 1)
        sizes[name] = size

    kibibytes, *_ = sizes["MemAvailable"].split()
    free = int(kibibytes) << 10
    return min([free, *_left_in_control_groups()])


def resident_bytes() -> int:
    """Memory that this process takes now."""
    table = Path("/proc/self/statm")
    if not table.exists():
        return PROCESS_BYTES
    _, resident_pages, *_ = table.read_text().split()
    return int(resident_pages) * os.sysconf("SC_PAGE_SIZE")


def refuse_too_large(make: Factory, dtype: torch.dtype) -> None:
    """Weigh a model before it is made: on the meta device it takes no memory."""
    with torch.device("meta"):
        module = make()
    tensors = [*module.parameters(), *module.buffers()]
    numbers = sum(tensor.numel() for tensor in tensors)

    size = numbers * dtype.itemsize
    free = available_bytes()
    if size > free:
        raise ConfigError(
            f"model: one alone takes {gib(size)}, only {gib(free)} is free; make it smaller"
        )


def gib(size: int) -> str:
    """Bytes for a person, rounded up."""
    return f"{ceil(size / 2**30 * 100) / 100:.2f} GiB"


def _left_in_control_groups() -> Iterator[int]:
    """What is left in every control group (version 2) this process is in, innermost first."""
    for group in _control_groups():
        if not (group / "memory.current").exists():
            continue
        limit = (group / "memory.max").read_text().strip()
        if limit == "max":
            continue
        # Files that can be read again are given up for whoever needs the room.
        counts = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        used = int((group / "memory.current").read_text()) - int(counts["inactive_file"])
        yield max(0, int(limit) - used)


def _control_groups() -> list[Path]:
    """The folders of the control groups this process is in, innermost first."""
    root = Path("/sys/fs/cgroup")
    innermost = root
    table = Path("/proc/self/cgroup")
    if table.exists():
        for line in table.read_text().splitlines():
            if line.startswith("0::"):
                innermost = root / line.removeprefix("0::").lstrip("/")
    return [innermost, *innermost.parents]
