"""How much memory an experiment will take at its peak, before it starts."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from federico.errors import ConfigError
from federico.learning.models import Factory
from federico.methods.federico import FedericoOptions

if TYPE_CHECKING:
    from federico.experiment.config import Experiment
    from federico.experiment.setup import Setup

PROCESS_BYTES = 450 << 20
"""Python, torch and the libraries, before any data."""


@dataclass(frozen=True)
class Plan:
    """Bytes by purpose."""

    parts: dict[str, int]

    @property
    def total(self) -> int:
        """All of it at once."""
        return sum(self.parts.values())


def plan(setup: "Setup") -> Plan:
    """The peak of the method that needs most."""
    experiment, clients = setup.experiment, len(setup.clients)
    row = setup.blueprint.size * setup.blueprint.dtype.itemsize
    samples = sum(part.x.nbytes + part.y.nbytes for client in setup.clients for part in (client.train, client.test))
    held, visits, pairs = np.max(
        [_needs(experiment, method, clients) for method in experiment.methods], axis=0
    ).tolist()
    models, optimizers = held * row, experiment.training.optimizer.moments * pairs * row
    return Plan(
        {
            "libraries": PROCESS_BYTES,
            # Setups of all seeds are held, and the one at work is on board as tensors too.
            "data": samples * (len(experiment.seeds) + 1),
            "models": models,
            "updates": visits * row,
            "optimizers": optimizers,
            # One is being written while the next is taken.
            "checkpoints": 2 * (models + optimizers),
        }
    )


def available_bytes() -> int:
    """Memory that a new process can have: on Linux with the caches that would make room for it."""
    table = Path("/proc/meminfo")
    if table.exists():
        sizes = dict(line.split(":", 1) for line in table.read_text().splitlines())
        return int(sizes["MemAvailable"].split()[0]) << 10
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def refuse_too_large(make: Factory, dtype: torch.dtype) -> None:
    """Weigh a model before it is made: on the meta device it takes no memory."""
    with torch.device("meta"):
        module = make()
    size = sum(tensor.numel() for tensor in (*module.parameters(), *module.buffers())) * dtype.itemsize
    if size > available_bytes():
        raise ConfigError(f"model: one alone takes {gib(size)}, only {gib(available_bytes())} is free; make it smaller")


def gib(size: int) -> str:
    """Bytes for a person."""
    return f"{size / 2**30:.2f} GiB"


def _needs(experiment: "Experiment", method: str, clients: int) -> tuple[int, int, int]:
    """(models, visits in a round, pairs whose optimizer is kept) at most."""
    if method == "federico":
        return clients, *_visits(experiment.federico, clients, experiment.rounds)
    if method == "fedem":
        pairs = clients * experiment.fedem.components
        return experiment.fedem.components, pairs, pairs
    return clients * (2 if method == "fedfomo" else 1), clients, clients


def _visits(options: FedericoOptions, clients: int, rounds: int) -> tuple[int, int]:
    """(visits in a round, pairs whose optimizer is kept) of FedeRiCo."""
    neighbors = clients - 1 if options.sampler == "everyone" else options.neighbors
    met = min(clients, 1 + neighbors * max(0, rounds - options.solo_rounds))
    return clients * (1 + neighbors), clients * met
