"""Where stacks of visits are worked on: one workspace per thread, one stack at a time on each.

A stack runs on one thread from its first batch to its last: small matrix products and convolutions use a core far
better alone than shared. How many threads there are changes no number beyond rounding.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import TypeVar

import torch
from torch import Tensor

from federico import compat
from federico.learning.engines import Engine, Looped, Stacked, Vmapped, chain, vmappable
from federico.learning.layout import ModelLayout
from federico.learning.objectives import Objective

S = TypeVar("S")
T = TypeVar("T")
STACK_NUMBERS = 1 << 19
"""How many numbers a stack of models may hold: beyond that they leave the cache and stacking stops paying."""
STACK_ROWS = 1024
VMAP_NUMBERS = 1 << 26
"""The same on an accelerator, which wants all it can hold."""
WORTH_SHARING = 1 << 17
"""Fewer numbers than this are done before a second thread has woken up."""


class Workspace:
    """An engine and the two buffers it is bound to: `work`, the models in hand, a row each, and their `grad`."""

    def __init__(
        self,
        layout: ModelLayout,
        objective: Objective,
        rows: int,
        device: torch.device,
        *,
        vmapped: bool,
    ) -> None:
        layers = chain(layout)
        self.work = torch.zeros(rows, layout.size, dtype=layout.dtype, device=device)
        self.grad = torch.zeros_like(self.work)
        if layers is not None:
            self.engine: Engine = Stacked(layers, objective, self.work, self.grad)
        else:
            self.engine = (Vmapped if vmapped else Looped)(layout, objective, self.work, self.grad)


class WorkerPool:
    """Runs a function over stacks of models, side by side where that is safe."""

    def __init__(
        self, layout: ModelLayout, objective: Objective, sample: Tensor, device: torch.device
    ) -> None:
        """`sample` is one input, to find out whether the model draws random numbers."""
        self.chained = chain(layout) is not None
        drawing = not self.chained and draws(layout, sample)
        vmapped = accelerated(device) and not drawing and vmappable(layout)
        self.capacity = capacity(layout, device, together=self.chained or vmapped)
        # Random numbers come from one generator for all threads: a model that draws them must run alone.
        self.threads = 1 if accelerated(device) or drawing else compat.thread_count()
        self._size = layout.size
        self._workspaces: SimpleQueue[Workspace] = SimpleQueue()
        for _ in range(self.threads):
            self._workspaces.put(
                Workspace(layout, objective, self.capacity, device, vmapped=vmapped)
            )
        self._pool = (
            ThreadPoolExecutor(self.threads, initializer=compat.use_one_thread)
            if self.threads > 1
            else None
        )

    def rows_per_stack(self, visits: int) -> int:
        """How many visits to put into a stack, so that all threads have one if there is enough to do."""
        share = -(-visits // self.threads)
        return min(self.capacity, share) if visits * self._size >= WORTH_SHARING else self.capacity

    def map(self, work: Callable[[Workspace, S], T], stacks: Sequence[S]) -> list[T]:
        """work(workspace, stack) for every stack; the results in the order of the stacks."""

        def at_a_bench(stack: S) -> T:
            workspace = self._workspaces.get()
            try:
                return work(workspace, stack)
            finally:
                self._workspaces.put(workspace)

        if self._pool is None:
            return [at_a_bench(stack) for stack in stacks]
        return list(self._pool.map(at_a_bench, stacks))


def accelerated(device: torch.device) -> bool:
    """Whether many models at once are faster than one after the other, whatever the model."""
    return device.type != "cpu"


def capacity(layout: ModelLayout, device: torch.device, *, together: bool) -> int:
    """How many models a stack may hold, where they can run together at all."""
    numbers = VMAP_NUMBERS if accelerated(device) else STACK_NUMBERS
    return min(STACK_ROWS, max(1, numbers // layout.size)) if together else 1


def draws(layout: ModelLayout, sample: Tensor) -> bool:
    """Whether training this model uses random numbers (dropout), found out by trying; True if that fails."""
    module = layout.bind(
        torch.zeros(layout.size, dtype=layout.dtype), layout.initial_counters()
    ).train()
    with compat.seeded(0), torch.no_grad():
        before = torch.get_rng_state()
        try:
            module(sample.cpu().expand(2, *sample.shape))
        except Exception:  # whatever a user's forward does with two equal samples
            return True
        return not torch.equal(before, torch.get_rng_state())
