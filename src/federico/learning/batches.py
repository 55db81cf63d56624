"""The clients' data, on board once: one tensor for all clients, and batches of it as index arithmetic."""

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from federico.types import Array, FloatArray, IntArray, Task


@dataclass(frozen=True)
class Batch:
    """Samples of the first `len(weights)` visits; padding has weight 0."""

    index: Tensor | tuple[None, slice]
    """Where they lie; a slice where they lie side by side, so that looking at them copies nothing."""
    weights: Tensor


class ClientTensors:
    """One part (training or test) of every client's data, end to end in one tensor."""

    def __init__(
        self,
        parts: Sequence[tuple[Array, Array]],
        task: Task,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.counts: IntArray = np.array([len(x) for x, _ in parts], dtype=np.int64)
        self.starts: IntArray = np.concatenate([[0], np.cumsum(self.counts)[:-1]])
        self.dtype = dtype
        x = torch.from_numpy(np.concatenate([x for x, _ in parts]))
        y = torch.from_numpy(np.concatenate([y for _, y in parts]))
        # Images stay bytes until they are used: a quarter of the memory.
        self._x = (x if x.dtype == torch.uint8 else x.to(dtype)).to(device)
        self.y = y.to(torch.int64 if task == "classification" else dtype).to(device)

    def __len__(self) -> int:
        return len(self.y)

    @property
    def width(self) -> int:
        """Numbers per input."""
        return max(1, self._x[:0].flatten(1).shape[1])

    def first(self) -> Tensor:
        """One input, ready for a model; zeros where there is none."""
        sample = self._x[0] if len(self) else torch.zeros(self._x.shape[1:])
        return to_input(sample, self.dtype)

    def x(self, index: Tensor | tuple[None, slice]) -> Tensor:
        """The inputs at these places, ready for a model; to be read only."""
        return to_input(_rows(self._x, index), self.dtype)

    def targets(self, index: Tensor | tuple[None, slice]) -> Tensor:
        """The labels or values at these places; to be read only."""
        return _rows(self.y, index)

    def choose(self, places: Sequence[IntArray]) -> "ClientTensors":
        """The board of these of each client's samples alone."""
        chosen = copy(self)
        index = np.concatenate(
            [start + mine for start, mine in zip(self.starts, places, strict=True)]
        )
        chosen._x, chosen.y = self._x[index], self.y[index]
        chosen.counts = np.array([len(mine) for mine in places], dtype=np.int64)
        chosen.starts = np.concatenate([[0], np.cumsum(chosen.counts)[:-1]])
        return chosen

    def add(self, total: Tensor, batch: Batch, values: Tensor) -> None:
        """Add a row of values for each sample of the batch to the rows of `total`, one for each sample of the board."""
        if isinstance(batch.index, tuple):
            total[batch.index[1]] += values[0]
        else:
            real = batch.weights > 0
            total.index_add_(0, batch.index[real], values[real])

    def whole(self, clients: IntArray, size: int) -> Iterator[Batch]:
        """All samples of these clients in batches as they are stored."""
        if len(clients) > 1:
            yield from self.batches(
                clients, [np.arange(count) for count in self.counts[clients]], size
            )
            return
        start, count = int(self.starts[clients[0]]), int(self.counts[clients[0]])
        for first in range(0, count, size):
            length = min(size, count - first)
            weights = torch.full((1, length), 1 / length, dtype=self.dtype, device=self.y.device)
            yield Batch((None, slice(start + first, start + first + length)), weights)

    def batches(
        self,
        clients: IntArray,
        orders: Sequence[IntArray],
        size: int,
        scale: FloatArray | None = None,
    ) -> Iterator[Batch]:
        """Batches of `size` for each of `clients` side by side, the clients with most samples first.

        Each client's samples come in its own order, none left out, weighted by one over the batch's length. A client
        that has run out is no longer part of the batch: `len(weights)` shrinks. `scale[k]`, by samples as stored,
        multiplies the weights of clients[k].
        """
        counts = self.counts[clients]
        index = np.zeros((len(clients), int(counts[0])), dtype=np.int64)
        for row, (client, order) in enumerate(zip(clients, orders, strict=True)):
            index[row, : counts[row]] = self.starts[client] + order
        share = _shares(counts, size)
        if scale is not None:
            share *= np.take_along_axis(
                scale, np.maximum(index - self.starts[clients, None], 0), axis=1
            )
        places = torch.from_numpy(index).to(self.y.device)
        weights = torch.from_numpy(share).to(self.y.device, self.dtype)
        for first in range(0, int(counts[0]), size):
            cut = np.s_[: int((counts > first).sum()), first : first + size]
            yield Batch(places[cut], weights[cut])


def _shares(counts: IntArray, size: int) -> FloatArray:
    """One over the length of the batch that each sample is in, for clients of so many each; 0 behind the last."""
    place = np.arange(int(counts[0]))
    lengths = np.minimum(counts[:, None] - place // size * size, size)
    shares: FloatArray = np.divide(
        1.0, lengths, where=place < counts[:, None], out=np.zeros(lengths.shape)
    )
    return shares


def _rows(x: Tensor, index: Tensor | tuple[None, slice]) -> Tensor:
    """x[index]; whole rows are gathered several times faster than by indexing."""
    if isinstance(index, tuple):
        return x[index]
    return x.index_select(0, index.flatten()).view(*index.shape, *x.shape[1:])


def to_input(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Bytes of an image become numbers around 0 with a spread near 1, by fixed constants; floats stay as they are."""
    return x.to(dtype).sub_(127.5).div_(63.75) if x.dtype == torch.uint8 else x.to(dtype)
