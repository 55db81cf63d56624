"""Threads that execute stacks of visits, each with a workspace of its own.

A stack runs on one thread from its first batch to its last: small matrix products and convolutions
use a core far better alone than shared. The number of threads changes no number beyond rounding.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from math import ceil
from queue import SimpleQueue
from typing import TypeVar

import torch
from torch import Tensor

from federico import compat
from federico.learning.engines import Engine, Looped, Stacked, Vmapped, chain, vmappable
from federico.learning.footprint import footprint
from federico.learning.layout import ModelLayout
from federico.learning.objectives import Objective

S = TypeVar("S")
T = TypeVar("T")

STACK_NUMBERS = 1 << 19
"""How many numbers the models of a stack may have together: more would not fit into the cache, and
stacking would no longer pay."""
STACK_ROWS = 1024
"""How many models a stack may contain, however small they are."""
VMAP_NUMBERS = 1 << 26
"""`STACK_NUMBERS` on an accelerator, which is fastest with as much work as it can hold."""
WORTH_SHARING = 1 << 17
"""Visits whose models have fewer numbers than this together are not divided among threads: they are
done before a second thread has woken up."""
LARGE_SAMPLE = 4 << 20
"""Several threads may work on one model only if one sample leaves at least this many bytes between
layers. With less, they wait for each other longer than they work, and on a busy machine ten times
as long."""


class Workspace:
    """An engine and its two buffers: `work`, one row per model, and `grad`, their gradients."""

    def __init__(
        self,
        layout: ModelLayout,
        objective: Objective,
        rows: int,
        device: torch.device,
        *,
        vmapped: bool,
    ) -> None:
        self.work = torch.zeros(rows, layout.size, dtype=layout.dtype, device=device)
        self.grad = torch.zeros_like(self.work)
        self.engine = self._engine(layout, objective, vmapped=vmapped)

    def _engine(self, layout: ModelLayout, objective: Objective, *, vmapped: bool) -> Engine:
        """The fastest engine that can run this model."""
        layers = chain(layout)
        if layers is not None:
            return Stacked(layers, objective, self.work, self.grad)
        if vmapped:
            return Vmapped(layout, objective, self.work, self.grad)
        return Looped(layout, objective, self.work, self.grad)


class WorkerPool:
    """Threads and workspaces, as many as are safe and fast for a model on this machine."""

    def __init__(
        self, layout: ModelLayout, objective: Objective, sample: Tensor, device: torch.device
    ) -> None:
        """`sample`, one input, is used to find out how the model behaves and how large it is."""
        self.chained = chain(layout) is not None
        """Whether the model is a chain of linear layers."""
        self.drawing = not self.chained and draws(layout, sample)
        """Whether training the model draws random numbers."""
        vmapped = accelerated(device) and not self.drawing and vmappable(layout)
        self.capacity = capacity(layout, device, together=self.chained or vmapped)
        """How many models a stack may contain."""
        self._size = layout.size

        # All threads draw random numbers from one generator, so a model that draws must run alone.
        self.threads = compat.thread_count()
        if accelerated(device) or self.drawing:
            self.threads = 1

        self._workspaces: SimpleQueue[Workspace] = SimpleQueue()
        for _ in range(self.threads):
            workspace = Workspace(layout, objective, self.capacity, device, vmapped=vmapped)
            self._workspaces.put(workspace)

        # Without a pool, the calling thread does the work, and torch may use threads inside of it.
        self._pool: ThreadPoolExecutor | None = None
        alone_and_small = self.drawing and not accelerated(device) and not _large(layout, sample)
        if self.threads > 1 or alone_and_small:
            self._pool = ThreadPoolExecutor(self.threads, initializer=compat.use_one_thread)

    def rows_per_stack(self, visits: int) -> int:
        """How many visits go into a stack, so that all threads have work if there is enough."""
        numbers = visits * self._size
        if numbers < WORTH_SHARING:
            return self.capacity
        share = ceil(visits / self.threads)
        return min(self.capacity, share)

    @contextmanager
    def workspace(self) -> Iterator[Workspace]:
        """A workspace that no other thread uses meanwhile."""
        workspace = self._workspaces.get()
        try:
            yield workspace
        finally:
            self._workspaces.put(workspace)

    def map(self, work: Callable[[S], T], stacks: Iterable[S]) -> Iterator[T]:
        """Like `map`, but the calls may go on side by side; results come in their order."""
        if self._pool is None:
            return map(work, stacks)
        return self._pool.map(work, stacks)


def accelerated(device: torch.device) -> bool:
    """Whether the device runs many models at once faster than one by one, whatever the model."""
    return device.type != "cpu"


def capacity(layout: ModelLayout, device: torch.device, *, together: bool) -> int:
    """How many models a stack may contain: one, unless models can run `together`."""
    if not together:
        return 1

    numbers = STACK_NUMBERS
    if accelerated(device):
        numbers = VMAP_NUMBERS
    fitting = max(1, numbers // layout.size)
    return min(STACK_ROWS, fitting)


def draws(layout: ModelLayout, sample: Tensor) -> bool:
    """Whether training this model draws random numbers (dropout), found out by trying.

    The answer is True, the safe one, if the trial fails.
    """
    row = torch.zeros(layout.size, dtype=layout.dtype)
    module = layout.bind(row, layout.initial_counters())
    layout.training_mode(module)
    two_samples = sample.cpu().expand(2, *sample.shape)  # batch norm refuses to train on one
    with compat.seeded(0), torch.no_grad():
        before = torch.get_rng_state()
        try:
            module(two_samples)
        except Exception:  # a user's module may do anything with two equal samples
            return True
        after = torch.get_rng_state()
    return not torch.equal(before, after)


def _large(layout: ModelLayout, sample: Tensor) -> bool:
    """Whether one sample is enough work for several threads; False if the trial fails."""
    try:
        return footprint(layout, sample).saved >= LARGE_SAMPLE
    except Exception:  # a user's module may do anything with equal samples
        return False
