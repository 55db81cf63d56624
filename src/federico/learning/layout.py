"""A model's architecture and its one flat layout.

A model *is* a row of numbers, everything else is a view of it.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor, nn

from federico import compat, rng
from federico.errors import ConfigError
from federico.learning.model_options import Shared
from federico.learning.pretrained import refuse_strange_start


@dataclass(frozen=True)
class Slot:
    """Where one named tensor lies in the row."""

    name: str
    shape: tuple[int, ...]
    start: int

    @property
    def size(self) -> int:
        """How many numbers the tensor has."""
        return prod(self.shape)

    def view(self, row: Tensor) -> Tensor:
        """The tensor as a view of `row`.

        Convolution kernels are stored channels-last, which is fastest to compute with.
        """
        end = self.start + self.size
        flat = row[self.start : end]
        if len(self.shape) != 4:
            return flat.view(self.shape)

        out, channels, height, width = self.shape
        channels_last = flat.view(out, height, width, channels)
        return channels_last.permute(0, 3, 1, 2)

    def in_order(self, row: Tensor, room: Tensor) -> Tensor:
        """The tensor with its numbers in PyTorch's default order.

        It is a view of `row` if stored so, else a copy at the same place of the row `room`.
        """
        view = self.view(row)
        if view.is_contiguous():
            return view

        end = self.start + self.size
        place = room[self.start : end].view(self.shape)
        return place.copy_(view)


class RowLayout:
    """Which tensors a row holds, in which order: parameters first, then float buffers."""

    def __init__(self, slots: tuple[Slot, ...], parameters: int) -> None:
        """`parameters`: how many of the slots are those of parameters."""
        self.slots = slots
        self.parameter_slots = slots[:parameters]
        self.parameters = sum(slot.size for slot in self.parameter_slots)
        """How many numbers of a row are parameters; they come first."""
        self.size = sum(slot.size for slot in slots)
        """How many numbers a row has."""


class ModelLayout(RowLayout):
    """How to make a model: new ones from named streams, and modules around rows.

    A row holds the parameters, then the float buffers (batch-norm statistics travel and average
    like parameters). Counters (single whole numbers, such as batch norm's) are not part of the row:
    they stay with the owner.

    Tensors that are frozen are not part of the row either. They are the base: one for all models,
    held once.
    """

    def __init__(
        self,
        make: Callable[[], nn.Module],
        dtype: torch.dtype = torch.float32,
        *,
        mixed: bool = False,
        start: Mapping[str, Tensor] | None = None,
        freeze: bool = False,
        seed: int = 0,
        base: Mapping[str, Tensor] | None = None,
        shared: Shared = "all",
    ) -> None:
        """`mixed`: products of layers in bfloat16, all else in `dtype`.

        Every new model has the tensors of `start`; what is not there is drawn. With `freeze`, all
        that gradients cannot move is in the base: as in a new model of this seed, or as in `base`
        where that is given. `shared` says which part of a model clients exchange, unless their
        method knows better.
        """
        self._make = make
        self.shared = shared
        self._start = start or {}
        self.dtype = dtype
        self.mixed = mixed

        module = self.new()
        parameters = dict(module.named_parameters())
        if not parameters:
            raise ConfigError("model: it has no parameters, so there is nothing to learn")
        self._refuse_shared_tensors(module)

        float_buffers: dict[str, Tensor] = {}
        counters: dict[str, int] = {}
        for name, buffer in module.named_buffers():
            if buffer.is_floating_point():
                float_buffers[name] = buffer
            elif buffer.dim() == 0:
                counters[name] = int(buffer)

        frozen = _frozen_tensors(module) if freeze else {}
        learned = {name: tensor for name, tensor in parameters.items() if name not in frozen}
        if not learned:
            raise ConfigError("model: all its parameters are frozen, so there is nothing to learn")
        moving = {name: tensor for name, tensor in float_buffers.items() if name not in frozen}

        super().__init__(_lay_out(learned | moving), len(learned))

        self.base_slots = _lay_out(frozen)
        self.base = self._make_base(base, seed)
        """The tensors that no row holds, end to end: the same for all models."""
        self._frozen_statistics = _modules_with_frozen_buffers(module, frozen)

        self.counters = tuple(counters)
        self._initial_counters = torch.tensor([*counters.values()], dtype=torch.int64)

        self.template = module.to("meta")
        """What it is made of, without numbers: a whole one would take as much memory as one at
        work."""

    def new(self, seed: int = 0) -> nn.Module:
        """A module with numbers of its own.

        Always seeded: what a module draws outside the row, such as an index buffer, is the same in
        all of them.
        """
        return self._made(seed).to(self.dtype)

    def initial(self, seed: int, name: str, out: Tensor | None = None) -> Tensor:
        """The starting row of the model of that name: the same wherever and whenever it is made."""
        # In whatever precision it was made: it is converted on its way into the row.
        module = self._made(rng.key(seed, "model", name) % 2**63)
        return self.flatten(module, out)

    def initial_counters(self) -> Tensor:
        """The counters of a new model."""
        return self._initial_counters.clone()

    def flatten(self, module: nn.Module, out: Tensor | None = None) -> Tensor:
        """The row of this module, written to `out` or to a new one."""
        row = out
        if row is None:
            row = torch.empty(self.size, dtype=self.dtype)

        tensors: dict[str, Tensor] = dict(module.named_parameters())
        if self.size > self.parameters:
            tensors |= dict(module.named_buffers())
        _fill(self.slots, row, tensors)
        return row

    def bind(self, row: Tensor, counters: Tensor) -> nn.Module:
        """A module whose tensors *are* views of `row`, `counters` and the base.

        Write those and the module changes.
        """
        module = self.new().to(row.device)
        base = self.base.to(row.device)  # not a copy where it is there already
        for path, counter in zip(self.counters, counters, strict=True):
            _set_tensor(module, path, counter)

        # Tied tensors have several paths and stay tied.
        tensors: dict[str, Tensor] = {
            **dict(module.named_parameters(remove_duplicate=False)),
            **dict(module.named_buffers(remove_duplicate=False)),
        }
        view_of = {id(tensors[slot.name]): slot.view(row) for slot in self.slots}
        for slot in self.base_slots:
            view_of[id(tensors[slot.name])] = slot.view(base)
        bound: dict[int, Tensor] = {}
        for path, tensor in tensors.items():
            if id(tensor) not in view_of:
                continue
            if id(tensor) not in bound:
                bound[id(tensor)] = _like(tensor, view_of[id(tensor)])
            _set_tensor(module, path, bound[id(tensor)])
        return module

    @property
    def holds_frozen_parameters(self) -> bool:
        """Whether a row has parameters that no gradient moves."""
        parameters = dict(self.template.named_parameters())
        return not all(parameters[slot.name].requires_grad for slot in self.parameter_slots)

    def training_mode(self, module: nn.Module) -> None:
        """Put a module of this model into training mode, but for what is frozen.

        A batch norm that is frozen keeps its statistics and uses them.
        """
        module.train()
        for path in self._frozen_statistics:
            module.get_submodule(path).eval()

    @contextmanager
    def precision(self, device: torch.device) -> Iterator[None]:
        """Modules of this model run within it.

        What they give may be of a lower precision than `dtype`.
        """
        with torch.autocast(device.type, torch.bfloat16, enabled=self.mixed):
            yield

    def named(self, row: Tensor, room: Tensor) -> dict[str, Tensor]:
        """The row as named tensors, as a state dict would show them.

        What must be copied for that goes to `room`.
        """
        return {slot.name: slot.in_order(row, room) for slot in self.slots}

    def named_base(self) -> dict[str, Tensor]:
        """The base as named tensors, as a state dict would show them."""
        room = torch.empty_like(self.base)
        return {slot.name: slot.in_order(self.base, room) for slot in self.base_slots}

    def from_named(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """The row of such named tensors; names and shapes must be this model's."""
        _refuse_others(self.slots, tensors)
        row = torch.empty(self.size, dtype=self.dtype)
        _fill(self.slots, row, tensors)
        return row

    def _make_base(self, given: Mapping[str, Tensor] | None, seed: int) -> Tensor:
        """The row of what is frozen: as it was stored, or as a new model has it."""
        base = torch.empty(sum(slot.size for slot in self.base_slots), dtype=self.dtype)
        if given is not None:
            _refuse_others(self.base_slots, given)
            _fill(self.base_slots, base, given)
        elif self.base_slots:
            torch_seed = rng.key(seed, "model", "base") % 2**63
            module = self._made(torch_seed)
            tensors: dict[str, Tensor] = dict(module.named_parameters())
            tensors |= dict(module.named_buffers())
            _fill(self.base_slots, base, tensors)
        return base

    def _made(self, seed: int) -> nn.Module:
        """What the user's function makes, with random numbers from this seed."""
        with compat.seeded(seed):
            module = self._make()
        if not isinstance(module, nn.Module):
            kind = type(module).__name__
            raise ConfigError(
                f"model: expected a function that returns a torch.nn.Module, got {kind}"
            )
        if self._start:
            refuse_strange_start(self._start, module.state_dict())
            module.load_state_dict(self._start, strict=False)
        return module

    def _refuse_shared_tensors(self, module: nn.Module) -> None:
        """Two modules that share tensors would train each other."""
        another = self.new()
        mine = {id(tensor) for tensor in (*module.parameters(), *module.buffers())}
        if any(id(tensor) in mine for tensor in (*another.parameters(), *another.buffers())):
            raise ConfigError(
                "model: the function returns the same module every time, or one with the same "
                "parts; let it create all of them"
            )


def _frozen_tensors(module: nn.Module) -> dict[str, Tensor]:
    """The parameters that no gradient moves, and the float buffers that go with them.

    A buffer is frozen where the parameters of its module are. Where that has none, the parameters
    of the module around it decide.
    """
    frozen: dict[str, Tensor] = {}
    for name, parameter in module.named_parameters():
        if not parameter.requires_grad:
            frozen[name] = parameter
    for name, buffer in module.named_buffers():
        if buffer.is_floating_point() and not _around_learns(module, name):
            frozen[name] = buffer
    return frozen


def _around_learns(module: nn.Module, name: str) -> bool:
    """Whether the smallest module around this tensor that has parameters has one to learn."""
    owner, _, _ = name.rpartition(".")
    while True:
        parameters = list(module.get_submodule(owner).parameters())
        if parameters or not owner:
            return any(parameter.requires_grad for parameter in parameters)
        owner, _, _ = owner.rpartition(".")


def _modules_with_frozen_buffers(
    module: nn.Module, frozen: Mapping[str, Tensor]
) -> tuple[str, ...]:
    """The modules, by path, whose own buffers are frozen, such as a batch norm's statistics."""
    found: dict[str, None] = {}
    for name, _ in module.named_buffers():
        owner, _, _ = name.rpartition(".")
        if name in frozen:
            found[owner] = None
    return tuple(found)


def _fill(slots: tuple[Slot, ...], row: Tensor, tensors: Mapping[str, Tensor]) -> None:
    """Write the named tensors to their places in the row."""
    for slot in slots:
        slot.view(row).copy_(tensors[slot.name].detach())


def _refuse_others(slots: tuple[Slot, ...], tensors: Mapping[str, Tensor]) -> None:
    """Names and shapes must be those of the slots."""
    wanted = {slot.name: slot.shape for slot in slots}
    found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if wanted != found:
        raise ConfigError(
            f"model: the stored tensors {found} are not those of this model, {wanted}"
        )


def _set_tensor(module: nn.Module, path: str, tensor: Tensor) -> None:
    """Replace the parameter or buffer at this path."""
    owner, _, name = path.rpartition(".")
    setattr(module.get_submodule(owner), name, tensor)


def _like(tensor: Tensor, view: Tensor) -> Tensor:
    """The view as a parameter, if the tensor whose place it takes is one."""
    if not isinstance(tensor, nn.Parameter):
        return view
    return nn.Parameter(view, requires_grad=tensor.requires_grad)


def _lay_out(tensors: Mapping[str, Tensor]) -> tuple[Slot, ...]:
    """A slot for each tensor, end to end."""
    slots: list[Slot] = []
    start = 0
    for name, tensor in tensors.items():
        slot = Slot(name, tuple(tensor.shape), start)
        slots.append(slot)
        start += slot.size
    return tuple(slots)
