"""How much memory an experiment will take at its peak, before it starts, and what to do where there is less."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from federico import compat
from federico.data.dataset import Samples
from federico.errors import ConfigError
from federico.learning.batches import to_input
from federico.learning.engines import chain
from federico.learning.footprint import footprint
from federico.learning.learner import evaluation_batch
from federico.learning.models import Factory
from federico.learning.workers import capacity
from federico.methods.method import Needs

if TYPE_CHECKING:
    from federico.experiment.build import Setup

PROCESS_BYTES = 450 << 20
"""Python, torch and the libraries, where the system does not tell."""
LATER_BYTES = 64 << 20
"""What the libraries take once they are at work."""
HEAP_LOSS = 1.4
"""How much of the heap large blocks of different sizes take for each byte that they hold."""
ROWS = ("models", "optimizers", "updates or checkpoint")
"""The parts that may lie on the disk."""
REMEDY = "use fewer clients or neighbors, a smaller model or batch, or a larger machine"


@dataclass(frozen=True)
class Plan:
    """Bytes by purpose."""

    parts: dict[str, int]

    @property
    def total(self) -> int:
        """All of it at once."""
        return sum(self.parts.values())

    @property
    def rows(self) -> int:
        """What may lie on the disk."""
        return sum(self.parts[name] for name in ROWS)

    @property
    def least(self) -> int:
        """What must be in memory."""
        return self.total - self.rows


def plan(setup: "Setup", *, seeds_held: int = 1, ranks: int = 1) -> Plan:
    """The peak of the method that needs most, in a process that holds the data of so many seeds already."""
    needs = [needs_of(setup, method) for method in setup.experiment.methods]
    copies = max(need.copies for need in needs) * row_bytes(setup)
    rows = max((_rows(setup, need, ranks) for need in needs), key=lambda parts: sum(parts.values()))
    must = in_memory(setup, seeds_held=seeds_held, ranks=ranks)
    return Plan({**must, "workspace": must["workspace"] + copies, **rows})


def in_memory(setup: "Setup", *, seeds_held: int = 1, ranks: int = 1) -> dict[str, int]:
    """What must be there whatever the method holds."""
    data = sum(part.x.nbytes + part.y.nbytes for part in _samples(setup))
    board = sum(_on_board(part, setup.layout.dtype) for part in _samples(setup))
    return {
        "libraries": max(0, resident_bytes() - seeds_held * data) + LATER_BYTES,
        # The data of all seeds is held, and that of the one at work is on board as tensors too.
        "data": data * len(setup.experiment.seeds) + board // ranks,
        "workspace": _workspace(setup),
    }


def scratch(needed: Plan, limit: int, folder: Path) -> Path | None:
    """Where the rows of models have to lie: in memory (None) if all fits, else in `folder`; or refuse."""
    if needed.total <= limit:
        return None
    if needed.least > limit:
        raise ConfigError(
            f"memory: it needs about {gib(needed.total)}, and {gib(needed.least)} even with all models on the disk; "
            f"there is {gib(limit)}; {REMEDY}"
        )
    free = shutil.disk_usage(
        next(place for place in (folder, *folder.absolute().parents) if place.exists())
    ).free
    if needed.rows > free:
        raise ConfigError(
            f"memory: it needs about {gib(needed.total)}, there is {gib(limit)}; nor has the disk of {folder} room for "
            f"{gib(needed.rows)} of models ({gib(free)} free); free some, choose another folder, or {REMEDY}"
        )
    return folder


def on_disk(needed: Plan, limit: int) -> str:
    """What it means that rows lie there."""
    return (
        f"it needs about {gib(needed.total)} of memory and has {gib(limit)}: {gib(needed.rows)} of models and "
        "optimizers lie on the disk, which takes longer"
    )


def memory_limit(setup: "Setup", processes: int = 1) -> int:
    """How much this process may take, of what is allowed or free on a machine where so many share it."""
    allowed = setup.experiment.system.memory
    return (
        available_bytes() // processes + resident_bytes()
        if allowed is None
        else int(allowed) // processes
    )


def available_bytes() -> int:
    """Memory that is free: with the caches that would make room, and within the limits of the control group."""
    table = Path("/proc/meminfo")
    if not table.exists():
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    sizes = dict(line.split(":", 1) for line in table.read_text().splitlines())
    return min([int(sizes["MemAvailable"].split()[0]) << 10, *_group_rooms()])


def resident_bytes() -> int:
    """Memory that this process takes now."""
    table = Path("/proc/self/statm")
    if not table.exists():
        return PROCESS_BYTES
    return int(table.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def refuse_too_large(make: Factory, dtype: torch.dtype) -> None:
    """Weigh a model before it is made: on the meta device it takes no memory."""
    with torch.device("meta"):
        module = make()
    size = (
        sum(tensor.numel() for tensor in (*module.parameters(), *module.buffers())) * dtype.itemsize
    )
    if size > available_bytes():
        raise ConfigError(
            f"model: one alone takes {gib(size)}, only {gib(available_bytes())} is free; make it smaller"
        )


def gib(size: int) -> str:
    """Bytes for a person."""
    return f"{size / 2**30:.2f} GiB"


def _samples(setup: "Setup") -> list[Samples]:
    return [part for client in setup.clients for part in (client.train, client.test)]


def _on_board(part: Samples, dtype: torch.dtype) -> int:
    """Images stay bytes; all else is a number of the model's precision."""
    inputs = part.x.nbytes if part.x.dtype.name == "uint8" else part.x.size * dtype.itemsize
    return int(inputs) + part.y.size * 8


def needs_of(setup: "Setup", method: str) -> Needs:
    """What this method holds for all clients together."""
    options, rounds = setup.experiment.method_options(method), setup.experiment.rounds
    return setup.experiment.method(method).memory(options, len(setup.clients), rounds)


def row_bytes(setup: "Setup") -> int:
    """Of a model."""
    return setup.layout.size * setup.layout.dtype.itemsize


def moments_bytes(setup: "Setup") -> int:
    """Of what the optimizer keeps for a model."""
    return (
        setup.experiment.training.optimizer.moments
        * setup.layout.parameters
        * setup.layout.dtype.itemsize
    )


def _rows(setup: "Setup", needs: Needs, ranks: int) -> dict[str, int]:
    """Bytes of the rows of numbers that a method holds, on the first of so many ranks."""
    row, moments = row_bytes(setup), moments_bytes(setup)
    models, optimizers = needs.models * row, needs.pairs * moments
    updates = needs.updates * row + needs.fresh * moments
    guests, checkpoint = 0, models + optimizers
    if ranks > 1:
        guests, updates = (
            min(models, updates // ranks),
            3 * updates // ranks,
        )  # made, sent, received
        checkpoint += 2 * checkpoint // ranks  # of all, at the first
    return {
        "models": models // ranks + guests,
        "optimizers": optimizers // ranks,
        # One is written while models are measured, which comes before the next updates.
        "updates or checkpoint": max(updates, checkpoint),
    }


def _workspace(setup: "Setup") -> int:
    """The models in hand with their gradients, and what batches leave between layers, for each thread."""
    layout, system = setup.layout, setup.experiment.system
    chained = chain(layout) is not None
    rows = capacity(layout, torch.device("cpu"), together=chained)
    any_samples = next(
        part for part in _samples(setup) if len(part)
    )  # some clients may be elsewhere
    sample = to_input(torch.from_numpy(any_samples.x[:1]), layout.dtype)[0]
    taken = footprint(layout, sample)
    largest = max(len(part) for part in _samples(setup))
    batch = min(setup.experiment.training.batch_size, largest)
    measured = min(evaluation_batch(sample.numel(), rows, chained=chained), largest)
    models = 2 * rows * layout.size * layout.dtype.itemsize
    # Both: what one leaves free in the heap hardly fits the other.
    samples = rows * (batch * taken.training + measured * taken.measuring)
    return (system.threads or compat.thread_count()) * (models + int(HEAP_LOSS * samples))


def _group_rooms() -> Iterator[int]:
    """What is left in every control group (version 2) this process is in, innermost first."""
    table, root = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
    lines = table.read_text().splitlines() if table.exists() else []
    mine = next((root / line[3:].lstrip("/") for line in lines if line.startswith("0::")), root)
    for group in (mine, *mine.parents):
        if (group / "memory.current").exists() and (
            limit := (group / "memory.max").read_text().strip()
        ) != "max":
            counts = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
            used = int((group / "memory.current").read_text()) - int(counts["inactive_file"])
            yield max(0, int(limit) - used)
