"""A model's architecture and its one flat layout: a model *is* a row of numbers, everything else is a view of it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor, nn

from federico import compat, rng
from federico.errors import ConfigError


@dataclass(frozen=True)
class Slot:
    """Where one named tensor lies in the row."""

    name: str
    shape: tuple[int, ...]
    start: int

    def view(self, row: Tensor) -> Tensor:
        """The tensor as a view of `row`. Convolution kernels are stored channels-last, as they compute fastest."""
        flat = row[self.start : self.start + prod(self.shape)]
        if len(self.shape) == 4:
            out, channels, height, width = self.shape
            return flat.view(out, height, width, channels).permute(0, 3, 1, 2)
        return flat.view(self.shape)

    def in_order(self, row: Tensor, room: Tensor) -> Tensor:
        """The same as others store it: where it lies, or else at the same place of another row."""
        view, place = (
            self.view(row),
            room[self.start : self.start + prod(self.shape)].view(self.shape),
        )
        return view if view.is_contiguous() else place.copy_(view)


class ModelLayout:
    """How to make a model: new ones from named streams, and modules around rows.

    A row holds the parameters, then the float buffers (batch-norm statistics travel and average like parameters).
    Counters (single whole numbers, such as batch norm's) are not part of the row: they stay with the owner.
    """

    def __init__(
        self,
        make: Callable[[], nn.Module],
        dtype: torch.dtype = torch.float32,
        *,
        mixed: bool = False,
    ) -> None:
        """`mixed`: products of layers in bfloat16, all else in `dtype`."""
        self._make = make
        self.dtype, self.mixed = dtype, mixed
        module = self.new()
        parameters = dict(module.named_parameters())
        buffers = dict(module.named_buffers())
        self.slots = _lay_out(
            parameters | {name: b for name, b in buffers.items() if b.is_floating_point()}
        )
        self.counters = tuple(
            name for name, b in buffers.items() if not b.is_floating_point() and b.dim() == 0
        )
        self._counts = torch.tensor(
            [int(buffers[name]) for name in self.counters], dtype=torch.int64
        )
        self.parameters = sum(p.numel() for p in parameters.values())
        self.size = sum(prod(slot.shape) for slot in self.slots)
        self.parameter_slots = self.slots[: len(parameters)]
        if not parameters:
            raise ConfigError("model: it has no parameters, so there is nothing to learn")
        again = self.new()
        shared = {*map(id, module.parameters()), *map(id, module.buffers())}
        if shared & {*map(id, again.parameters()), *map(id, again.buffers())}:
            raise ConfigError(
                "model: the function returns the same module every time, or one with the same parts; let it make all "
                "of it anew"
            )
        self.template = module.to("meta")
        """What it is made of, without numbers: a whole one would take as much memory as one at work."""

    def initial(self, seed: int, name: str, out: Tensor | None = None) -> Tensor:
        """The starting row of the model of that name: the same wherever and whenever it is made."""
        return self.flatten(self.new(rng.key(seed, "model", name) % 2**63), out)

    def flatten(self, module: nn.Module, out: Tensor | None = None) -> Tensor:
        """The row of this module, written to `out` or to a new one."""
        row = torch.empty(self.size, dtype=self.dtype) if out is None else out
        tensors = dict(module.named_parameters()) | dict(module.named_buffers())
        for slot in self.slots:
            slot.view(row).copy_(tensors[slot.name].detach())
        return row

    def initial_counters(self) -> Tensor:
        """The counters of a new model."""
        return self._counts.clone()

    def bind(self, row: Tensor, counters: Tensor) -> nn.Module:
        """A module whose tensors *are* views of `row` and `counters`: write those and the module changes."""
        module = self.new().to(row.device)
        for path, counter in zip(self.counters, counters, strict=True):
            owner, name = _owner_of(module, path)
            setattr(owner, name, counter)
        places = dict(module.named_parameters(remove_duplicate=False)) | dict(
            module.named_buffers(remove_duplicate=False)
        )
        bound = {
            id(places[slot.name]): _like(places[slot.name], slot.view(row)) for slot in self.slots
        }
        for path, tensor in places.items():  # tied tensors have several paths and stay tied
            if id(tensor) in bound:
                owner, name = _owner_of(module, path)
                setattr(owner, name, bound[id(tensor)])
        return module

    @contextmanager
    def precision(self, device: torch.device) -> Iterator[None]:
        """Modules of this model run within it; what they give may be of a lower precision than `dtype`."""
        with torch.autocast(device.type, torch.bfloat16, enabled=self.mixed):
            yield

    def named(self, row: Tensor, room: Tensor) -> dict[str, Tensor]:
        """The row as named tensors, as a state dict would show them; what must be copied for that goes to `room`."""
        return {slot.name: slot.in_order(row, room) for slot in self.slots}

    def from_named(self, tensors: dict[str, Tensor]) -> Tensor:
        """The row of such named tensors; names and shapes must be this model's."""
        row = torch.empty(self.size, dtype=self.dtype)
        wanted = {slot.name: slot.shape for slot in self.slots}
        found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
        if wanted != found:
            raise ConfigError(
                f"model: the stored tensors {found} are not those of this model {wanted}"
            )
        for slot in self.slots:
            slot.view(row).copy_(tensors[slot.name])
        return row

    def new(self, seed: int = 0) -> nn.Module:
        """A module with numbers of its own.

        Always seeded: what a module draws outside the row, such as an index buffer, is the same in all of them.
        """
        with compat.seeded(seed):
            module = self._make()
        if not isinstance(module, nn.Module):
            raise ConfigError(
                f"model: expected a function that returns a torch.nn.Module, got {type(module).__name__}"
            )
        return module.to(self.dtype)


def _owner_of(module: nn.Module, path: str) -> tuple[nn.Module, str]:
    owner, _, name = path.rpartition(".")
    return module.get_submodule(owner), name


def _like(tensor: Tensor, view: Tensor) -> Tensor:
    return (
        nn.Parameter(view, requires_grad=tensor.requires_grad)
        if isinstance(tensor, nn.Parameter)
        else view
    )


def _lay_out(tensors: dict[str, Tensor]) -> tuple[Slot, ...]:
    slots, start = [], 0
    for name, tensor in tensors.items():
        slots.append(Slot(name, tuple(tensor.shape), start))
        start += tensor.numel()
    return tuple(slots)
