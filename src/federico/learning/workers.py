"""Where stacks of visits are worked on: one workspace per thread, one stack at a time on each.

A stack runs on one thread from its first batch to its last: small matrix products and convolutions
use a core far better alone than shared. How many threads there are changes no number beyond
rounding.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
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
"""How many numbers a stack of models may hold: beyond that they leave the cache and stacking stops
paying."""
STACK_ROWS = 1024
"""How many models a stack may hold, however small they are."""
VMAP_NUMBERS = 1 << 26
"""How many numbers a stack may hold on an accelerator, which wants all it can hold."""
WORTH_SHARING = 1 << 17
"""Fewer numbers than this are done before a second thread has woken up."""
LARGE_SAMPLE = 4 << 20
"""Bytes that one sample leaves between layers from which on several threads may work on one model.
With less, they wait for each other longer than they work, and on a busy machine ten times as
long."""


class Workspace:
    """An engine and the two buffers it is bound to.

    `work`, the models in hand, a row each, and their `grad`.
    """

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
        layers = chain(layout)
        if layers is not None:
            return Stacked(layers, objective, self.work, self.grad)
        if vmapped:
            return Vmapped(layout, objective, self.work, self.grad)
        return Looped(layout, objective, self.work, self.grad)


class WorkerPool:
    """Runs a function over stacks of models, side by side where that is safe."""

    def __init__(
        self, layout: ModelLayout, objective: Objective, sample: Tensor, device: torch.device
    ) -> None:
        """`sample` is one input, to find out whether the model draws, and how large its work is."""
        self.chained = chain(layout) is not None
        self.drawing = not self.chained and draws(layout, sample)
        vmapped = accelerated(device) and not self.drawing and vmappable(layout)
        self.capacity = capacity(layout, device, together=self.chained or vmapped)
        self._size = layout.size

        # Random numbers come from one generator for all threads: a model that draws them must run
        # alone.
        self.threads = compat.thread_count()
        if accelerated(device) or self.drawing:
            self.threads = 1

        self._workspaces: SimpleQueue[Workspace] = SimpleQueue()
        for _ in range(self.threads):
            workspace = Workspace(layout, objective, self.capacity, device, vmapped=vmapped)
            self._workspaces.put(workspace)

        # Without a pool, the calling thread does the work, with as many threads inside as torch
        # likes.
        self._pool: ThreadPoolExecutor | None = None
        alone_and_small = self.drawing and not accelerated(device) and not _large(layout, sample)
        if self.threads > 1 or alone_and_small:
            self._pool = ThreadPoolExecutor(self.threads, initializer=compat.use_one_thread)

    def rows_per_stack(self, visits: int) -> int:
        """How many visits a stack gets, so that all threads have one if there is enough to do."""
        if visits * self._size < WORTH_SHARING:
            return self.capacity
        share = -(-visits // self.threads)
        return min(self.capacity, share)

    def map(self, work: Callable[[Workspace, S], T], stacks: Sequence[S]) -> list[T]:
        """work(workspace, stack) for every stack; the results in the order of the stacks."""

        def run(stack: S) -> T:
            workspace = self._workspaces.get()
            try:
                return work(workspace, stack)
            finally:
                self._workspaces.put(workspace)

        if self._pool is None:
            return [run(stack) for stack in stacks]
        return list(self._pool.map(run, stacks))


def accelerated(device: torch.device) -> bool:
    """Whether many models at once are faster than one after the other, whatever the model."""
    return device.type != "cpu"


def capacity(layout: ModelLayout, device: torch.device, *, together: bool) -> int:
    """How many models a stack may hold, where they can run together at all."""
    if not together:
        return 1
    numbers = VMAP_NUMBERS if accelerated(device) else STACK_NUMBERS
    fitting = max(1, numbers // layout.size)
    return min(STACK_ROWS, fitting)


def draws(layout: ModelLayout, sample: Tensor) -> bool:
    """Whether training this model uses random numbers (dropout), found out by trying.

    True if that fails.
    """
    row = torch.zeros(layout.size, dtype=layout.dtype)
    module = layout.bind(row, layout.initial_counters()).train()
    with compat.seeded(0), torch.no_grad():
        before = torch.get_rng_state()
        try:
            module(sample.cpu().expand(2, *sample.shape))
        except Exception:  # whatever a user's forward does with two equal samples
            return True
        return not torch.equal(before, torch.get_rng_state())


def _large(layout: ModelLayout, sample: Tensor) -> bool:
    """Whether one sample is work enough for several threads; False if it cannot be tried."""
    try:
        return footprint(layout, sample).saved >= LARGE_SAMPLE
    except Exception:  # whatever a user's forward does with equal samples
        return False
