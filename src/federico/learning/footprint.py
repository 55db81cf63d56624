"""How much memory the work on one sample takes, found out by trying."""

from dataclasses import dataclass

import torch
from torch import Tensor, UntypedStorage

from federico import compat
from federico.learning.layout import ModelLayout

SAMPLES = 2


@dataclass(frozen=True)
class Footprint:
    """Bytes per sample."""

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
    """Send copies of one sample through a model, in training mode; what does not grow with them is not counted."""
    few, many = (_sent_through(layout, sample, count) for count in (SAMPLES, 2 * SAMPLES))
    return Footprint((many.saved - few.saved) // SAMPLES, many.largest // (2 * SAMPLES))


def _sent_through(layout: ModelLayout, sample: Tensor, count: int) -> Footprint:
    """The same for so many copies together."""
    module = layout.bind(
        torch.zeros(layout.size, dtype=layout.dtype), layout.initial_counters()
    ).train()
    saved: dict[
        int, UntypedStorage
    ] = {}  # held until all is counted, so that no place is used twice
    given: list[int] = [0]

    def keep(tensor: Tensor) -> int:
        """Not the tensor itself: an output that holds what it was made of, itself included, would never go."""
        place = tensor.untyped_storage().data_ptr()
        saved[place] = tensor.untyped_storage()
        return place

    for layer in module.modules():
        layer.register_forward_hook(
            lambda _, __, out: given.append(out.nbytes if isinstance(out, Tensor) else 0)
        )
    x = sample.cpu().expand(count, *sample.shape).clone()
    with (
        compat.seeded(0),
        torch.autograd.graph.saved_tensors_hooks(keep, _never),
        layout.precision(x.device),
    ):
        module(x)
    return Footprint(sum(storage.nbytes() for storage in saved.values()), max(given))


def _never(_: object) -> Tensor:
    raise AssertionError("nothing goes back")
