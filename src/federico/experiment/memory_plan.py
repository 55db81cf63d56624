"""How much memory an experiment or a peer will take at its peak, before it starts.

Where there is less, rows of models lie on the disk, or the experiment is refused.

A plan is an upper bound: it counts what may be there at the same time, and asks a method for one
line (`Method.memory`).
"""

import logging
import shutil
from dataclasses import dataclass
from pathlib import Path

import torch

from federico import compat
from federico.data.dataset import Samples
from federico.errors import ConfigError
from federico.experiment import machine_memory
from federico.experiment.build import Setup
from federico.experiment.machine_memory import gib
from federico.learning.batches import to_input
from federico.learning.engines import chain
from federico.learning.footprint import footprint
from federico.learning.learner import evaluation_batch
from federico.learning.rows import RowStorage
from federico.learning.workers import capacity
from federico.methods.method import Needs
from federico.network.limits import Limits

log = logging.getLogger(__name__)

LATER_BYTES = 64 << 20
"""What the libraries take once they are at work."""
SESSION_BYTES = 8 << 20
"""What a peer's session takes with nothing under way."""
PAIR_BYTES = 512
"""What Python keeps of a client and a model that it has met, however small the model is: its
losses, its weight, its place among the optimizers."""
COPIES_OF_PARTS = 3
"""What stays with a client is there, in a checkpoint that is written, and tuned by FedAvg+."""
HEAP_LOSS = 1.4
"""How much of the heap large blocks of different sizes take for each byte that they hold."""
ROWS = ("models", "optimizers", "updates", "checkpoint")
"""The parts that may lie on the disk."""
REMEDY = "use fewer clients or neighbors, a smaller model or batch, or a larger machine"


@dataclass(frozen=True)
class MemoryPlan:
    """Bytes at the peak, by purpose."""

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


# Plans.


def plan_simulation(setup: Setup, *, seeds_held: int = 1, ranks: int = 1) -> MemoryPlan:
    """The peak of the method that needs most, with the data of this many seeds in memory already.

    It is that of the first of this many ranks, which gathers what is saved.
    """
    methods = setup.experiment.methods
    all_needs = [_needs(setup, method) for method in methods]
    all_rows = [
        _simulated_rows(setup, needs, ranks, _row_bytes(setup, method))
        for method, needs in zip(methods, all_needs, strict=True)
    ]
    most_rows = max(all_rows, key=lambda parts: sum(parts.values()))
    most_copies = max(needs.copies for needs in all_needs)

    in_memory = _in_memory(setup, seeds_held=seeds_held, ranks=ranks)
    in_memory["workspace"] += most_copies * _model_bytes(setup)
    in_memory["bookkeeping"] = max(_pairs_met(needs) for needs in all_needs) * PAIR_BYTES
    in_memory["personal parts"] = max(
        _personal_parts(setup, method, needs)
        for method, needs in zip(methods, all_needs, strict=True)
    )
    return MemoryPlan(in_memory | most_rows)


def plan_peer(setup: Setup, limits: Limits) -> MemoryPlan:
    """The peak of one peer whose like are elsewhere, with the only method of its experiment.

    It holds its own models and those that it visits or predicts with.

    Updates, its own and those of others, wait in files.
    """
    (method,) = setup.experiment.methods
    needs = _needs(setup, method)
    members = len(setup.clients)
    own = _divided(needs.models, members)
    visits = _divided(needs.updates, members)
    pairs = _divided(needs.pairs, members)
    others = max(visits - 1, pairs - own, _divided(needs.met, members))
    fresh = _divided(needs.fresh, members)

    optimizers = pairs * _moments_bytes(setup)
    in_memory = _in_memory(setup)
    in_memory["bookkeeping"] = _divided(_pairs_met(needs), members) * PAIR_BYTES
    in_memory["personal parts"] = _divided(_personal_parts(setup, method, needs), members)
    row_bytes = _row_bytes(setup, method)
    in_memory["network"] = _network(setup, limits, visits - 1, row_bytes)
    rows = {
        "models": (own + others) * row_bytes,
        "optimizers": optimizers,
        "updates": fresh * _moments_bytes(setup),
        "checkpoint": own * row_bytes + optimizers,
    }
    return MemoryPlan(in_memory | rows)


def memory_limit(setup: Setup, processes: int = 1) -> int:
    """How much this process may take of what is allowed or free, if this many share a machine."""
    allowed = setup.experiment.system.memory
    if allowed is not None:
        return int(allowed) // processes
    return machine_memory.available_bytes() // processes + machine_memory.resident_bytes()


# What follows from a plan.


def scratch_folder(plan: MemoryPlan, limit: int, folder: Path) -> Path | None:
    """Where the rows of models have to lie: in memory (None) if all fits, else in `folder`.

    What fits neither memory nor disk is refused.
    """
    if plan.total <= limit:
        return None

    if plan.least > limit:
        raise ConfigError(
            f"memory: it needs about {gib(plan.total)}, and {gib(plan.least)} even with all models "
            f"on the disk; there is {gib(limit)}; {REMEDY}"
        )
    free = _free_on_disk(folder)
    if plan.rows > free:
        raise ConfigError(
            f"memory: it needs about {gib(plan.total)}, there is {gib(limit)}; nor has the disk of "
            f"{folder} room for {gib(plan.rows)} of models ({gib(free)} free); free some, choose "
            f"another folder, or {REMEDY}"
        )
    return folder


def disk_warning(plan: MemoryPlan, limit: int) -> str:
    """What it means that rows lie on the disk."""
    return (
        f"it needs about {gib(plan.total)} of memory and has {gib(limit)}: {gib(plan.rows)} of "
        "models and optimizers are kept on disk, which takes longer"
    )


def peer_storage(setup: Setup, limits: Limits, folder: Path) -> RowStorage:
    """Where a peer's models lie, with its state in `folder`.

    What cannot fit anywhere is refused.
    """
    plan = plan_peer(setup, limits)
    limit = memory_limit(setup)
    scratch = scratch_folder(plan, limit, folder)
    if scratch is not None:
        log.warning(disk_warning(plan, limit))
    return RowStorage(scratch, outbox=folder)


def peer_outlook(setup: Setup, limits: Limits, folder: Path) -> str:
    """What the peer will need, in a sentence; what cannot fit anywhere is refused."""
    plan = plan_peer(setup, limits)
    limit = memory_limit(setup)
    where = "in memory"
    if scratch_folder(plan, limit, folder) is not None:
        where = "on disk, which takes longer"
    peak = f"about {gib(plan.total)} at the peak, of {gib(limit)}"
    return f"{peak}; models and optimizers are kept {where}"


def _free_on_disk(folder: Path) -> int:
    """What is free on the disk of a folder that need not be there yet."""
    existing = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    return shutil.disk_usage(existing).free


# The parts of a plan.


def _needs(setup: Setup, method: str) -> Needs:
    """How many rows this method holds for all clients together."""
    experiment = setup.experiment
    options = experiment.method_options(method)
    return experiment.method(method).memory(options, len(setup.clients), experiment.rounds)


def _pairs_met(needs: Needs) -> int:
    """Pairs of a client and a model that the method knows something about, at most."""
    return max(needs.pairs, needs.updates)


def _model_bytes(setup: Setup) -> int:
    """Bytes of one model."""
    return setup.layout.size * setup.layout.dtype.itemsize


def _row_bytes(setup: Setup, method: str) -> int:
    """Bytes of one model's row, which holds what clients exchange of it."""
    return setup.shared_part(method).size * setup.layout.dtype.itemsize


def _personal_parts(setup: Setup, method: str, needs: Needs) -> int:
    """Bytes of what stays with the clients, in a checkpoint and for a moment while it is tried."""
    experiment = setup.experiment
    options = experiment.method_options(method)
    clients = [client.id for client in setup.clients]
    models = experiment.method(method).models(options, clients)

    own = 0
    private = 0
    for model in models:
        own += model.owner < len(clients)
        private += model.private_to is not None
    shared = len(models) - own - private

    # Each client has a part for its own models, and for every shared one that it trains.
    of_shared = min(len(clients) * shared, needs.pairs)
    parts = own + private + of_shared
    bytes_of_part = _model_bytes(setup) - _row_bytes(setup, method)
    return COPIES_OF_PARTS * parts * bytes_of_part


def _moments_bytes(setup: Setup) -> int:
    """Bytes of what the optimizer keeps for one model."""
    moments = setup.experiment.training.optimizer.moments
    return moments * setup.layout.parameters * setup.layout.dtype.itemsize


def _simulated_rows(setup: Setup, needs: Needs, ranks: int, row_bytes: int) -> dict[str, int]:
    """Bytes of the rows of numbers that a method holds, on the first of this many ranks."""
    models = needs.models * row_bytes
    optimizers = needs.pairs * _moments_bytes(setup)
    updates = (needs.updates + needs.private_updates) * row_bytes
    updates += needs.fresh * _moments_bytes(setup)
    # A copy of all that is saved, written to the disk while the next round goes on.
    checkpoint = models + optimizers
    if ranks == 1:
        return {
            "models": models,
            "optimizers": optimizers,
            "updates": updates,
            "checkpoint": checkpoint,
        }

    own_updates = _divided(updates, ranks)
    visiting = min(models, own_updates)
    return {
        "models": _divided(models, ranks) + visiting,
        "optimizers": _divided(optimizers, ranks),
        "updates": 3 * own_updates,  # made, sent, received
        "checkpoint": checkpoint
        + _divided(2 * checkpoint, ranks),  # its own, sent, and those of all
    }


def _in_memory(setup: Setup, *, seeds_held: int = 1, ranks: int = 1) -> dict[str, int]:
    """What must be in memory whatever the method holds."""
    samples = _samples(setup)
    data = sum(part.x.nbytes + part.y.nbytes for part in samples)
    tensors = sum(_tensor_bytes(part, setup.layout.dtype) for part in samples)
    libraries = max(0, machine_memory.resident_bytes() - seeds_held * data)
    return {
        "libraries": libraries + LATER_BYTES,
        # The data of all seeds is held, and that of the one at work is there as tensors too.
        "data": data * len(setup.experiment.seeds) + _divided(tensors, ranks),
        "workspace": _workspace(setup) + setup.layout.base.nbytes,
    }


def _samples(setup: Setup) -> list[Samples]:
    """Every client's training and test samples."""
    samples: list[Samples] = []
    for client in setup.clients:
        samples += [client.train, client.test]
    return samples


def _tensor_bytes(part: Samples, dtype: torch.dtype) -> int:
    """Bytes of these samples as tensors.

    Images stay bytes, all else is a number of the model's precision.
    """
    inputs = part.x.nbytes
    if part.x.dtype.name != "uint8":
        inputs = part.x.size * dtype.itemsize
    return int(inputs) + part.y.size * 8


def _workspace(setup: Setup) -> int:
    """For each thread, models with their gradients, and what batches leave between layers."""
    layout = setup.layout
    samples = _samples(setup)
    chained = chain(layout) is not None
    rows = capacity(layout, torch.device("cpu"), together=chained)

    any_samples = next(part for part in samples if len(part))  # some clients may be elsewhere
    sample = to_input(torch.from_numpy(any_samples.x[:1]), layout.dtype)[0]
    per_sample = footprint(layout, sample)

    most = max(len(part) for part in samples)
    trained = min(setup.experiment.training.batch_size, most)
    measured = min(evaluation_batch(sample.numel(), rows, chained=chained), most)
    # Both: what one leaves free in the heap hardly fits the other.
    activations = rows * (trained * per_sample.training + measured * per_sample.measuring)

    models_and_gradients = 2 * rows * _model_bytes(setup)
    threads = setup.experiment.system.threads or compat.thread_count()
    return threads * (models_and_gradients + int(HEAP_LOSS * activations))


def _network(setup: Setup, limits: Limits, neighbors: int, row_bytes: int) -> int:
    """Chunks on their way out and in, and the own model in other numbers where those are sent."""
    chunks = 2 * neighbors * limits.window * limits.chunk_bytes
    packed = 0
    if limits.precision is not None:
        sent: torch.dtype = getattr(torch, limits.precision)
        if sent != setup.layout.dtype:
            numbers = row_bytes // setup.layout.dtype.itemsize
            packed = numbers * sent.itemsize
    return SESSION_BYTES + chunks + packed


def _divided(count: int, by: int) -> int:
    """The share of one of several, rounded up."""
    return -(-count // by)
