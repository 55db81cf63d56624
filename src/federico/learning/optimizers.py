"""Optimizers over rows, with state that a visitor keeps per visit.

A step is one fused call over a list of rows, whatever their number of past steps.
"""

from collections.abc import Mapping
from typing import Annotated, Literal, Protocol

import torch
from pydantic import Field, PositiveFloat
from torch import Tensor
from torch.optim.sgd import sgd

from federico import compat
from federico.learning.rows import RowStorage
from federico.options import Options

Tensors = list[Tensor]


class Adam(Options):
    """Adam, the paper's optimizer."""

    kind: Literal["adam"] = "adam"
    learning_rate: PositiveFloat = 0.01
    """Step size."""
    beta1: float = Field(default=0.9, ge=0, lt=1)
    """Decay of the mean of gradients."""
    beta2: float = Field(default=0.999, ge=0, lt=1)
    """Decay of the mean of squared gradients."""
    eps: PositiveFloat = 1e-8
    """Added to the root of the second moment."""

    @property
    def moments(self) -> int:
        """Tensors of state per model."""
        return 2

    def step(self, params: Tensors, grads: Tensors, moments: list[Tensors], steps: Tensors) -> None:
        """One step of every row, in place."""
        means, squares = moments
        compat.adam_step(
            params,
            grads,
            means,
            squares,
            steps,
            learning_rate=self.learning_rate,
            beta1=self.beta1,
            beta2=self.beta2,
            eps=self.eps,
        )


class SGD(Options):
    """Stochastic gradient descent, with momentum if wanted."""

    kind: Literal["sgd"] = "sgd"
    learning_rate: PositiveFloat = 0.1
    """Step size."""
    momentum: float = Field(default=0.0, ge=0, lt=1)
    """Weight of past gradients."""

    @property
    def moments(self) -> int:
        """Tensors of state per model."""
        return 1 if self.momentum else 0

    def step(self, params: Tensors, grads: Tensors, moments: list[Tensors], steps: Tensors) -> None:
        """One step of every row, in place."""
        compat.add_one(steps)
        velocity: list[Tensor | None] = [*moments[0]] if moments else [None] * len(params)
        sgd(
            params, grads, velocity, foreach=True, weight_decay=0.0, momentum=self.momentum,
            lr=self.learning_rate, dampening=0.0, nesterov=False, maximize=False,
        )  # fmt: skip


OptimizerOptions = Annotated[Adam | SGD, Field(discriminator="kind")]


class Optimizer(Protocol):
    """What the learner asks of an optimizer."""

    @property
    def moments(self) -> int:
        """Tensors of state per model."""

    def step(self, params: Tensors, grads: Tensors, moments: list[Tensors], steps: Tensors) -> None:
        """One step of every row, in place."""


class OptimizerStates:
    """Moments per (client, owner), in blocks of rows that never move, so that a visit updates them in place."""

    BLOCK_BYTES = 64 << 20

    def __init__(
        self,
        moments: int,
        size: int,
        dtype: torch.dtype,
        device: torch.device,
        storage: RowStorage | None = None,
    ) -> None:
        self._moments, self._size, self._dtype, self._device = moments, size, dtype, device
        self._storage = storage or RowStorage()
        self._per_block = 0  # set by the first request
        self._blocks: list[tuple[Tensor, Tensor]] = []
        self._slots: dict[tuple[int, int], int] = {}
        self._free: list[int] = []

    def rows(self, pairs: list[tuple[int, int]]) -> tuple[list[Tensors], Tensors]:
        """(moments, steps) of these pairs, as views; a pair never seen starts from zeros."""
        self._per_block = self._per_block or self._block_rows(len(pairs))
        places = [self._place(pair) for pair in pairs]
        moments = [[block[0][row, m] for block, row in places] for m in range(self._moments)]
        return moments, [block[1][row] for block, row in places]

    def keep_only(self, kept: set[tuple[int, int]]) -> None:
        """Forget every pair that is not in `kept`."""
        for pair in self._slots.keys() - kept:
            self.drop(pair)

    def drop(self, pair: tuple[int, int]) -> None:
        """Forget one pair, if it was there."""
        slot = self._slots.pop(pair, None)
        if slot is not None:
            self._free.append(slot)

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The pairs held, in a stable order."""
        return sorted(self._slots)

    def state(self) -> dict[str, Tensor]:
        """A copy of all of it as tensors with one entry per pair."""
        places = [self._place(pair) for pair in self.pairs]
        moments = self._empty(len(places), every_round=True)
        for copy, (block, row) in zip(moments, places, strict=True):
            copy.copy_(block[0][row])
        return {
            "pairs": torch.tensor(self.pairs, dtype=torch.int64).reshape(-1, 2),
            "moments": moments,
            "steps": torch.stack([b[1][r] for b, r in places]) if places else torch.empty(0),
        }

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from what `state` gave."""
        self.keep_only(set())
        pairs = [(int(i), int(b)) for i, b in state["pairs"]]
        moments, steps = self.rows(pairs)
        for k in range(len(pairs)):
            steps[k].copy_(state["steps"][k])
            for m in range(self._moments):
                moments[m][k].copy_(state["moments"][k, m])

    def _block_rows(self, pairs: int) -> int:
        fitting = self.BLOCK_BYTES // max(1, self._moments * self._size * self._dtype.itemsize)
        return max(1, min(pairs, fitting))

    def _place(self, pair: tuple[int, int]) -> tuple[tuple[Tensor, Tensor], int]:
        slot = self._slots.get(pair)
        if slot is None:
            slot = self._slots[pair] = self._claim()
        block, row = divmod(slot, self._per_block)
        return self._blocks[block], row

    def _claim(self) -> int:
        if not self._free:
            first = len(self._blocks) * self._per_block
            steps = torch.empty(self._per_block, device=self._device)
            self._blocks.append((self._empty(self._per_block), steps))
            self._free = list(range(first + self._per_block - 1, first - 1, -1))
        slot = self._free.pop()
        moments, steps = self._blocks[slot // self._per_block]
        moments[slot % self._per_block].zero_()
        steps[slot % self._per_block].zero_()
        return slot

    def _empty(self, pairs: int, *, every_round: bool = False) -> Tensor:
        shape = pairs, self._moments, self._size
        return self._storage.empty(
            *shape, dtype=self._dtype, device=self._device, every_round=every_round
        )
