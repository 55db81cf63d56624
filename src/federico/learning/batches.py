"""All clients' samples in one tensor, loaded once; a batch is a set of positions in it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from federico.types import Array, FloatArray, IntArray, Task

Subset = Literal["train", "held_out", "not held out", "all", "test", "set aside", "marked"]
"""Which of a client's samples: `all` are those for training and those held out of it. `train` are
all again once models are not judged any more, `not held out` never are. Those set aside belong to
neither: the round to keep is chosen by them. Those that are marked are for testing,
with the mark of a backdoor."""

FEW_OUTPUTS = 16
"""Up to this many numbers for each sample are added up column by column."""

SampleIndex: TypeAlias = Tensor | tuple[None, slice]
"""Positions of samples: a tensor [visits, samples], or, for a single visit whose samples lie side
by side, a slice, which is read without a copy."""


@dataclass(frozen=True)
class Batch:
    """One batch for each of the first `len(weights)` visits, side by side."""

    index: SampleIndex
    weights: Tensor
    """The weight of each sample's loss, [visits, samples]; 0 for padding."""


class ClientSamples:
    """One part (training, validation or test) of every client's samples, in one tensor."""

    def __init__(
        self,
        inputs: Tensor,
        targets: Tensor,
        counts: IntArray,
        dtype: torch.dtype,
        chosen: Sequence[IntArray] | None = None,
    ) -> None:
        """The first counts[0] samples stored belong to the first client, and so on.

        Inputs are converted to `dtype` when a model needs them. `chosen`: which of each client's
        stored samples belong to this part, counted from the client's first; all if not given.
        """
        self.stored_inputs = inputs
        self.all_targets = targets
        ends = np.cumsum(counts)
        self.starts: IntArray = np.concatenate([[0], ends[:-1]])
        """The position of each client's first stored sample, [clients]."""
        self.counts = counts
        """How many samples of each client belong to this part, [clients]."""
        self.dtype = dtype
        self._stored_counts = counts
        self._chosen = chosen
        if chosen is not None:
            self.counts = np.array([len(positions) for positions in chosen], dtype=np.int64)

    @classmethod
    def load(
        cls,
        parts: Sequence[tuple[Array, Array]],
        task: Task,
        dtype: torch.dtype,
        device: torch.device,
    ) -> "ClientSamples":
        """Load the samples of all clients; `parts` holds the inputs and targets of each."""
        counts = np.array([len(inputs) for inputs, _ in parts], dtype=np.int64)
        inputs = torch.from_numpy(np.concatenate([inputs for inputs, _ in parts]))
        targets = torch.from_numpy(np.concatenate([targets for _, targets in parts]))

        # Images stay bytes until they are used, which takes a quarter of the memory.
        if inputs.dtype != torch.uint8:
            inputs = inputs.to(dtype)
        target_dtype = dtype
        if task == "classification":
            target_dtype = torch.int64
        targets = targets.to(target_dtype)
        return cls(inputs.to(device), targets.to(device), counts, dtype)

    def __len__(self) -> int:
        return len(self.all_targets)

    @property
    def input_size(self) -> int:
        """How many numbers one input has."""
        no_inputs = self.stored_inputs[:0].flatten(1)  # [0, numbers]
        return max(1, no_inputs.shape[1])

    def example(self) -> Tensor:
        """One input, ready for a model; zeros if there are no samples."""
        if len(self) > 0:
            first = self.stored_inputs[0]
        else:
            shape = self.stored_inputs.shape[1:]
            first = torch.zeros(shape)
        return to_input(first, self.dtype)

    def inputs(self, index: SampleIndex) -> Tensor:
        """The inputs at these positions, ready for a model; callers must not change them."""
        stored = _gather(self.stored_inputs, index)
        return to_input(stored, self.dtype)

    def targets(self, index: SampleIndex) -> Tensor:
        """The labels or values at these positions; callers must not change them."""
        return _gather(self.all_targets, index)

    def choose(self, positions: Sequence[IntArray]) -> "ClientSamples":
        """Only some samples of each client, which are not copied.

        `positions` counts from the client's first sample; this part must not be a choice itself.
        """
        return ClientSamples(
            self.stored_inputs, self.all_targets, self._stored_counts, self.dtype, positions
        )

    def targets_of(self, client: int) -> Tensor:
        """The labels or values of one client, in stored order."""
        positions = self._positions(client, np.arange(self.counts[client]))
        return self.all_targets[torch.from_numpy(positions).to(self.all_targets.device)]

    def targets_of_each(self, clients: IntArray) -> Tensor:
        """The same of each of these clients, which have equally many: [clients, samples, ...]."""
        distinct, which = np.unique(clients, return_inverse=True)
        if self._chosen is None:
            samples = self.counts[distinct[0]]
            order = np.arange(samples)[None]  # [1, samples]
        else:
            order = np.stack([self._chosen[client] for client in distinct.tolist()])
        first = self.starts[distinct]
        positions = first[:, None] + order  # [distinct, samples]
        index = torch.from_numpy(positions[which])  # [clients, samples]
        return self.all_targets[index.to(self.all_targets.device)]

    def add_by_sample(self, total: Tensor, batch: Batch, values: Tensor) -> None:
        """Add the values of each sample in the batch to that sample's row of `total`.

        `values` is [visits, samples, outputs], `total` [all samples, outputs].
        """
        if isinstance(batch.index, tuple):
            _, positions = batch.index
            total[positions] += values[0]
            return

        is_sample = batch.weights > 0
        rows = batch.index[is_sample]
        added = values[is_sample]  # [samples, outputs]
        outputs = added.shape[1]
        if outputs > FEW_OUTPUTS:
            total.index_add_(0, rows, added)
            return

        # Column by column it takes a fraction of the time, and every sum has the same order.
        for column in range(outputs):
            total[:, column].index_add_(0, rows, added[:, column])

    def in_stored_order(self, clients: IntArray, size: int) -> Iterator[Batch]:
        """All samples of these clients as they are stored, in batches of `size`."""
        if len(clients) > 1 or self._chosen is not None:
            orders = [np.arange(count) for count in self.counts[clients]]
            yield from self.in_orders(clients, orders, size)
            return

        # The samples of a single client lie side by side and are read without a copy.
        client = clients[0]
        start = int(self.starts[client])
        end = start + int(self.counts[client])
        device = self.all_targets.device
        for first in range(start, end, size):
            last = min(first + size, end)
            length = last - first
            positions = slice(first, last)
            weights = torch.full((1, length), 1 / length, dtype=self.dtype, device=device)
            yield Batch((None, positions), weights)

    def in_orders(
        self,
        clients: IntArray,
        orders: Sequence[IntArray],
        size: int,
        sample_weights: FloatArray | None = None,
    ) -> Iterator[Batch]:
        """Batches of `size` samples for each of `clients`, which are sorted, most samples first.

        Every sample of a client comes once, in the client's own order, weighted by one over the
        length of its batch. A client whose samples are used up leaves the batch: `len(weights)`
        shrinks. `sample_weights[k]`, in stored order, multiplies the weights of clients[k].
        """
        counts = self.counts[clients]
        most = int(counts[0])

        # The position of each sample, in the client's order. Any position will do as padding,
        # because its weight is 0.
        index = np.zeros((len(clients), most), dtype=np.int64)  # [clients, most]
        own_index = np.zeros_like(index)
        for row, (client, order) in enumerate(zip(clients, orders, strict=True)):
            count = counts[row]
            own_index[row, :count] = order
            index[row, :count] = self._positions(client, order)

        weights = _batch_shares(counts, size)  # [clients, most]
        if sample_weights is not None:
            weights *= np.take_along_axis(sample_weights, own_index, axis=1)

        device = self.all_targets.device
        index_tensor = torch.from_numpy(index).to(device)
        weight_tensor = torch.from_numpy(weights).to(device, self.dtype)
        for first in range(0, most, size):
            active = int((counts > first).sum())
            columns = slice(first, first + size)
            yield Batch(index_tensor[:active, columns], weight_tensor[:active, columns])

    def drawn(self, clients: IntArray, chosen: Sequence[IntArray]) -> Batch:
        """One batch: the chosen samples of each client, however many, all of weight 1."""
        lengths = [len(positions) for positions in chosen]
        longest = max(1, *lengths)

        # A client that has fewer has sample 0 in the rest, with weight 0.
        index = np.zeros((len(clients), longest), dtype=np.int64)
        weights = np.zeros((len(clients), longest))
        for row, (client, positions) in enumerate(zip(clients, chosen, strict=True)):
            index[row, : len(positions)] = self._positions(client, positions)
            weights[row, : len(positions)] = 1

        device = self.all_targets.device
        index_tensor = torch.from_numpy(index).to(device)
        weight_tensor = torch.from_numpy(weights).to(device, self.dtype)
        return Batch(index_tensor, weight_tensor)

    def _positions(self, client: int, order: IntArray) -> IntArray:
        """Where these samples of a client are stored; `order` counts within this part."""
        if self._chosen is not None:
            order = self._chosen[client][order]
        positions: IntArray = self.starts[client] + order
        return positions


def _batch_shares(counts: IntArray, size: int) -> FloatArray:
    """One over the length of the batch that contains each sample, 0 for padding: [clients, most].

    `counts` is sorted, largest first.
    """
    most = int(counts[0])
    positions = np.arange(most)  # [most]
    counts = counts[:, None]  # [clients, 1]

    # A client's last batch is as long as what is left.
    batch_starts = positions // size * size
    left = counts - batch_starts
    lengths = np.minimum(left, size)  # [clients, most]

    is_sample = positions < counts
    shares: FloatArray = np.zeros(lengths.shape)
    np.divide(1.0, lengths, where=is_sample, out=shares)
    return shares


def _gather(stored: Tensor, index: SampleIndex) -> Tensor:
    """The samples at `index`, [visits, samples, ...]."""
    if isinstance(index, tuple):
        return stored[index]

    # `index_select` gathers whole rows several times faster than indexing does.
    positions = index.flatten()
    samples = stored.index_select(0, positions)
    sample_shape = stored.shape[1:]
    return samples.view(*index.shape, *sample_shape)


def to_input(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Inputs as a model needs them.

    Bytes of an image are scaled by fixed constants to numbers around 0 with a spread near 1. Floats
    keep their values.
    """
    if x.dtype != torch.uint8:
        return x.to(dtype)
    return x.to(dtype).sub_(127.5).div_(63.75)
