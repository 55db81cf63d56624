"""How much memory the work on one sample takes, found out by trying."""

from dataclasses import dataclass

import torch
from torch import Tensor, UntypedStorage, nn

from federico import compat
from federico.learning.layout import ModelLayout

SAMPLES = 2
"""How many samples a first try takes; a second one takes twice as many."""


@dataclass(frozen=True)
class Footprint:
    """Bytes that the work on one sample takes."""

    saved: int
    """What training keeps on the way forward for the way back."""
    largest: int
    """The largest thing that a layer gives to the next."""

    @property
    def training(self) -> int:
        """All that is saved, and the slopes before and behind the layer in hand."""
        return self.saved + 2 * self.largest

    @property
    def measuring(self) -> int:
        """What goes into a layer and what comes out of it."""
        return 2 * self.largest


def footprint(layout: ModelLayout, sample: Tensor) -> Footprint:
    """Send copies of one sample through a model, in training mode.

    What does not grow with them is not counted.
    """
    few = _sent_through(layout, sample, SAMPLES)
    many = _sent_through(layout, sample, 2 * SAMPLES)
    return Footprint((many.saved - few.saved) // SAMPLES, many.largest // (2 * SAMPLES))


def _sent_through(layout: ModelLayout, sample: Tensor, count: int) -> Footprint:
    """The bytes that this many copies of the sample take together."""
    row = torch.zeros(layout.size, dtype=layout.dtype)
    module = layout.bind(row, layout.initial_counters())
    layout.training_mode(module)

    # Held until all is counted, so that no place in memory is used twice.
    saved: dict[int, UntypedStorage] = {}
    largest = 0

    def save(tensor: Tensor) -> int:
        """Keep the storage, not the tensor itself.

        An output that holds what it was made of, itself included, would never go.
        """
        place = tensor.untyped_storage().data_ptr()
        saved[place] = tensor.untyped_storage()
        return place

    def look_at_output(_: nn.Module, __: object, output: object) -> None:
        nonlocal largest
        if isinstance(output, Tensor):
            largest = max(largest, output.nbytes)

    for layer in module.modules():
        layer.register_forward_hook(look_at_output)
    inputs = sample.cpu().expand(count, *sample.shape).clone()
    with (
        compat.seeded(0),
        torch.autograd.graph.saved_tensors_hooks(save, _never),
        layout.precision(inputs.device),
    ):
        module(inputs)
    return Footprint(sum(storage.nbytes() for storage in saved.values()), largest)


def _never(_: object) -> Tensor:
    raise AssertionError("nothing goes back")
