"""Optimizers that train many models at once, and the state they keep of each.

A step is one fused call over a list of rows, even if some rows have taken more steps than others.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import torch
from torch import Tensor

from federico.learning.rows import RowStorage

Pair: TypeAlias = tuple[int, int]
"""A client, and the owner of a model that it trains."""


@dataclass(frozen=True)
class PairStates:
    """The optimizer's state of some (client, owner) pairs; a step changes these views in place."""

    moments: list[list[Tensor]]
    """For each moment (Adam has two), one row per pair."""
    steps: list[Tensor]
    """How many steps each pair has taken."""

    def first(self, count: int) -> "PairStates":
        """The states of the first `count` pairs."""
        moments = [rows[:count] for rows in self.moments]
        return PairStates(moments, self.steps[:count])


class Optimizer(Protocol):
    """What the learner asks of an optimizer."""

    @property
    def learning_rate(self) -> float:
        """Step size."""

    @property
    def moments(self) -> int:
        """How many rows of state the optimizer keeps per pair."""

    def step(
        self,
        parameters: list[Tensor],
        gradients: list[Tensor],
        states: PairStates,
        factor: float = 1.0,
    ) -> None:
        """Take one step with every row of parameters, in place.

        `factor` multiplies the learning rate.
        """


@dataclass(frozen=True)
class StateBlock:
    """Memory for the states of several pairs; it stays where it is, so views of it stay valid."""

    moments: Tensor
    """[pairs, moments, size]"""
    steps: Tensor
    """[pairs]"""


class OptimizerStates:
    """The optimizer's state of every (client, owner) pair, updated in place by each visit.

    States lie in blocks of rows. A block is never moved, so views of it stay valid.
    """

    BLOCK_BYTES = 64 << 20
    """The largest size of a block, unless a single pair needs more."""

    def __init__(
        self,
        moments: int,
        size: int,
        dtype: torch.dtype,
        device: torch.device,
        storage: RowStorage | None = None,
    ) -> None:
        """Each pair gets `moments` rows of `size` numbers."""
        self._moments = moments
        self._size = size
        self._dtype = dtype
        self._device = device
        self._storage = storage or RowStorage()
        self._pairs_per_block = 0  # set by the first request
        self._blocks: list[StateBlock] = []

        # Slots are numbered across blocks: slot / pairs per block is the block's number.
        self._slot_of: dict[Pair, int] = {}
        self._free_slots: list[int] = []

    def __len__(self) -> int:
        return len(self._slot_of)

    @property
    def pairs(self) -> list[Pair]:
        """The pairs that have a state, sorted."""
        return sorted(self._slot_of)

    @property
    def room(self) -> int:
        """How many pairs fit into the memory allocated so far."""
        return len(self._blocks) * self._pairs_per_block

    def of(self, pairs: list[Pair]) -> PairStates:
        """The states of these pairs, as views; a new pair starts from zeros."""
        if self._pairs_per_block == 0:
            self._pairs_per_block = self._fitting(len(pairs))

        moments: list[list[Tensor]] = [[] for _ in range(self._moments)]
        steps: list[Tensor] = []
        for pair in pairs:
            block, row = self._find(pair)
            steps.append(block.steps[row])
            for which, rows in enumerate(moments):
                rows.append(block.moments[row, which])
        return PairStates(moments, steps)

    def keep_only(self, kept: set[Pair]) -> None:
        """Forget every pair that is not in `kept`."""
        dropped = self._slot_of.keys() - kept
        for pair in dropped:
            self.drop(pair)

    def drop(self, pair: Pair) -> None:
        """Forget the state of one pair, if it has one."""
        slot = self._slot_of.pop(pair, None)
        if slot is not None:
            self._free_slots.append(slot)

    def state(self) -> dict[str, Tensor]:
        """A copy of the states of all pairs, as tensors with one entry per pair."""
        pairs = self.pairs
        count = len(pairs)
        moments = self._empty(count, every_round=True)  # [pairs, moments, size]
        steps = torch.empty(count, device=self._device)  # [pairs]
        for k, pair in enumerate(pairs):
            block, row = self._find(pair)
            moments[k].copy_(block.moments[row])
            steps[k] = block.steps[row]

        # Reshaped, because a table of no pairs would lack its second dimension.
        table = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2)
        return {"pairs": table, "moments": moments, "steps": steps}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Replace all states by those that `state` returned."""
        self.keep_only(set())
        saved_moments = state["moments"]  # [pairs, moments, size]
        saved_steps = state["steps"]  # [pairs]
        pairs = [(client, owner) for client, owner in state["pairs"].tolist()]

        restored = self.of(pairs)
        for k, steps in enumerate(restored.steps):
            steps.copy_(saved_steps[k])
            for which, rows in enumerate(restored.moments):
                rows[k].copy_(saved_moments[k, which])

    def _fitting(self, pairs: int) -> int:
        """How many pairs a block holds, when the first request is for `pairs` of them."""
        pair_bytes = self._moments * self._size * self._dtype.itemsize
        fitting = self.BLOCK_BYTES // max(1, pair_bytes)
        return max(1, min(pairs, fitting))

    def _find(self, pair: Pair) -> tuple[StateBlock, int]:
        """The block that holds the state of this pair, and the row in the block."""
        slot = self._slot_of.get(pair)
        if slot is None:
            slot = self._claim()
            self._slot_of[pair] = slot
        number, row = divmod(slot, self._pairs_per_block)
        return self._blocks[number], row

    def _claim(self) -> int:
        """A free slot, filled with zeros."""
        if not self._free_slots:
            self._add_block()
        slot = self._free_slots.pop()
        number, row = divmod(slot, self._pairs_per_block)
        block = self._blocks[number]
        block.moments[row].zero_()
        block.steps[row].zero_()
        return slot

    def _add_block(self) -> None:
        """Allocate one more block; all its slots are free."""
        count = self._pairs_per_block
        first = len(self._blocks) * count
        moments = self._empty(count)
        steps = torch.empty(count, device=self._device)
        self._blocks.append(StateBlock(moments, steps))

        # Slots are taken from the end of the list, so the first slot stands last.
        new_slots = range(first, first + count)
        self._free_slots = list(reversed(new_slots))

    def _empty(self, pairs: int, *, every_round: bool = False) -> Tensor:
        """Uninitialised memory for the moments of `pairs` pairs, [pairs, moments, size]."""
        return self._storage.empty(
            pairs,
            self._moments,
            self._size,
            dtype=self._dtype,
            device=self._device,
            every_round=every_round,
        )
