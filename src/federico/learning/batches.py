"""The clients' samples in one tensor, loaded once, and batches of them as index arithmetic."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from federico.types import Array, FloatArray, IntArray, Task

SampleIndex: TypeAlias = Tensor | tuple[None, slice]
"""Where samples lie: [rows, samples], or a slice of one row where they lie side by side, which is
read without a copy."""


@dataclass(frozen=True)
class Batch:
    """One batch for each of the first `len(weights)` visits, side by side."""

    index: SampleIndex
    weights: Tensor
    """What each sample's loss counts, [visits, samples]; 0 for padding."""


class ClientSamples:
    """One part (training, validation or test) of every client's samples, in one tensor."""

    def __init__(
        self, inputs: Tensor, targets: Tensor, counts: IntArray, dtype: torch.dtype
    ) -> None:
        """The first counts[0] samples belong to the first client, and so on.

        Models get them as `dtype`.
        """
        self.stored_inputs = inputs
        self.all_targets = targets
        self.counts = counts
        self.starts: IntArray = np.concatenate([[0], np.cumsum(counts)[:-1]])
        self.dtype = dtype

    @classmethod
    def load(
        cls,
        parts: Sequence[tuple[Array, Array]],
        task: Task,
        dtype: torch.dtype,
        device: torch.device,
    ) -> "ClientSamples":
        """From the inputs and targets of each client."""
        inputs = torch.from_numpy(np.concatenate([inputs for inputs, _ in parts]))
        targets = torch.from_numpy(np.concatenate([targets for _, targets in parts]))

        # Images stay bytes until they are used: a quarter of the memory.
        if inputs.dtype != torch.uint8:
            inputs = inputs.to(dtype)
        target_dtype = torch.int64 if task == "classification" else dtype

        counts = np.array([len(inputs) for inputs, _ in parts], dtype=np.int64)
        return cls(inputs.to(device), targets.to(target_dtype).to(device), counts, dtype)

    def __len__(self) -> int:
        return len(self.all_targets)

    @property
    def input_size(self) -> int:
        """How many numbers an input has."""
        return max(1, self.stored_inputs[:0].flatten(1).shape[1])

    def example(self) -> Tensor:
        """One input, ready for a model; zeros where there is none."""
        if len(self) == 0:
            return to_input(torch.zeros(self.stored_inputs.shape[1:]), self.dtype)
        return to_input(self.stored_inputs[0], self.dtype)

    def inputs(self, index: SampleIndex) -> Tensor:
        """The inputs at these places, ready for a model; to be read only."""
        return to_input(_gather(self.stored_inputs, index), self.dtype)

    def targets(self, index: SampleIndex) -> Tensor:
        """The labels or values at these places; to be read only."""
        return _gather(self.all_targets, index)

    def choose(self, positions: Sequence[IntArray]) -> "ClientSamples":
        """The samples at these positions of each client, and no others."""
        index = np.concatenate(
            [start + chosen for start, chosen in zip(self.starts, positions, strict=True)]
        )
        counts = np.array([len(chosen) for chosen in positions], dtype=np.int64)
        inputs = self.stored_inputs[index]
        return ClientSamples(inputs, self.all_targets[index], counts, self.dtype)

    def add_by_sample(self, total: Tensor, batch: Batch, values: Tensor) -> None:
        """Add the values of each sample in the batch to that sample's row of `total`."""
        if isinstance(batch.index, tuple):
            _, columns = batch.index
            total[columns] += values[0]
            return
        real = batch.weights > 0
        total.index_add_(0, batch.index[real], values[real])

    def in_stored_order(self, clients: IntArray, size: int) -> Iterator[Batch]:
        """All samples of these clients as they are stored, in batches of `size`."""
        if len(clients) > 1:
            orders = [np.arange(count) for count in self.counts[clients]]
            yield from self.in_orders(clients, orders, size)
            return

        # Those of a single client are read where they lie.
        start = int(self.starts[clients[0]])
        count = int(self.counts[clients[0]])
        for first in range(0, count, size):
            length = min(size, count - first)
            columns = slice(start + first, start + first + length)
            device = self.all_targets.device
            weights = torch.full((1, length), 1 / length, dtype=self.dtype, device=device)
            yield Batch((None, columns), weights)

    def in_orders(
        self,
        clients: IntArray,
        orders: Sequence[IntArray],
        size: int,
        sample_weights: FloatArray | None = None,
    ) -> Iterator[Batch]:
        """Batches of `size` for each of `clients` side by side, those with most samples first.

        Each client's samples come in its own order, none left out, weighted by one over the batch's
        length. A client that has run out is no longer part of the batch: `len(weights)` shrinks.
        `sample_weights[k]`, by samples as stored, multiply the weights of clients[k].
        """
        counts = self.counts[clients]
        most = int(counts[0])

        # Where the samples of each client lie, in its order, [clients, most]; behind the last one
        # anything.
        index = np.zeros((len(clients), most), dtype=np.int64)
        for row, (client, order) in enumerate(zip(clients, orders, strict=True)):
            index[row, : counts[row]] = self.starts[client] + order

        weights = _batch_shares(counts, size)
        if sample_weights is not None:
            positions = np.maximum(index - self.starts[clients, None], 0)
            weights *= np.take_along_axis(sample_weights, positions, axis=1)

        device = self.all_targets.device
        index_tensor = torch.from_numpy(index).to(device)
        weight_tensor = torch.from_numpy(weights).to(device, self.dtype)
        for first in range(0, most, size):
            not_run_out = int((counts > first).sum())
            cut = np.s_[:not_run_out, first : first + size]
            yield Batch(index_tensor[cut], weight_tensor[cut])


def _batch_shares(counts: IntArray, size: int) -> FloatArray:
    """One over the length of the batch that each sample is in, [clients, most].

    It is 0 behind a client's last sample.
    """
    positions = np.arange(int(counts[0]))
    batch_starts = positions // size * size
    lengths = np.minimum(counts[:, None] - batch_starts, size)
    shares: FloatArray = np.zeros(lengths.shape)
    np.divide(1.0, lengths, where=positions < counts[:, None], out=shares)
    return shares


def _gather(stored: Tensor, index: SampleIndex) -> Tensor:
    """The samples at `index`.

    Whole rows are gathered several times faster by `index_select` than by indexing.
    """
    if isinstance(index, tuple):
        return stored[index]
    flat = stored.index_select(0, index.flatten())
    return flat.view(*index.shape, *stored.shape[1:])


def to_input(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Bytes of an image become numbers around 0 with a spread near 1, by fixed constants.

    Floats stay as they are.
    """
    if x.dtype != torch.uint8:
        return x.to(dtype)
    return x.to(dtype).sub_(127.5).div_(63.75)
