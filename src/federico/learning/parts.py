"""Parts of a model: which columns of its row a set of named tensors occupies."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from federico.errors import ConfigError
from federico.learning.layout import ModelLayout, RowLayout, Slot


@dataclass(frozen=True)
class ModelPart:
    """Some columns of every row, as slices in ascending order that neither touch nor overlap."""

    slices: tuple[slice, ...]

    @property
    def size(self) -> int:
        """How many numbers of a model's row belong to this part."""
        return sum(columns.stop - columns.start for columns in self.slices)

    @classmethod
    def shared(cls, layout: ModelLayout) -> "ModelPart":
        """What clients exchange of a model."""
        if layout.shared == "body":
            return cls.body(layout)
        if layout.shared == "head":
            return cls.head(layout)
        if isinstance(layout.shared, tuple):
            return cls.named(layout, layout.shared)
        return cls.whole(layout)

    @classmethod
    def whole(cls, layout: RowLayout) -> "ModelPart":
        """The complete row."""
        return cls._of_slots(layout.slots)

    @classmethod
    def parameters(cls, layout: RowLayout) -> "ModelPart":
        """What gradients move, without batch-norm statistics and other buffers."""
        return cls._of_slots(layout.parameter_slots)

    @classmethod
    def buffers(cls, layout: RowLayout) -> "ModelPart":
        """The float buffers, such as batch-norm statistics."""
        return cls._of_slots(layout.slots[len(layout.parameter_slots) :])

    @classmethod
    def named(cls, layout: ModelLayout, prefixes: Sequence[str]) -> "ModelPart":
        """The tensors with these names, or inside the modules with these names."""
        return cls._of_slots(_slots_named(layout, prefixes))

    @classmethod
    def head(cls, layout: ModelLayout, names: Sequence[str] = ()) -> "ModelPart":
        """The last module that has parameters of its own, unless `names` say what the head is."""
        return cls._of_slots(_head_slots(layout, names))

    @classmethod
    def body(cls, layout: ModelLayout, names: Sequence[str] = ()) -> "ModelPart":
        """Everything but the head; empty where a model consists of nothing else."""
        head = _head_slots(layout, names)
        return cls._of_slots([slot for slot in layout.slots if slot not in head])

    def rest(self, layout: RowLayout) -> "ModelPart":
        """All that is not in this part."""
        return self._of_slots([slot for slot in layout.slots if not self._has(slot)])

    def laid_out(self, layout: RowLayout) -> RowLayout:
        """The layout of rows that hold this part alone."""
        if self == self.whole(layout):
            return layout
        slots: list[Slot] = []
        start = 0
        parameters = 0
        for slot in layout.slots:
            if self._has(slot):
                slots.append(Slot(slot.name, slot.shape, start))
                start += slot.size
                parameters += slot in layout.parameter_slots
        return RowLayout(tuple(slots), parameters)

    def _has(self, slot: Slot) -> bool:
        return any(part.start <= slot.start < part.stop for part in self.slices)

    @classmethod
    def _of_slots(cls, slots: Sequence[Slot]) -> "ModelPart":
        """One slice for each run of slots that lie side by side."""
        slices: list[slice] = []
        for slot in sorted(slots, key=lambda slot: slot.start):
            start = slot.start
            end = start + prod(slot.shape)

            # A neighbour of the last slice makes that one longer.
            if slices and slices[-1].stop == start:
                start = slices.pop().start
            slices.append(slice(start, end))
        return cls(tuple(slices))

    def cut(self, rows: Tensor) -> Tensor:
        """A copy of this part alone, [rows, size of the part]."""
        nothing = rows[..., :0]
        return torch.cat([nothing, *(rows[..., columns] for columns in self.slices)], dim=-1)

    def paste(self, narrow: Tensor, rows: Tensor) -> None:
        """Write what `cut` gave back into this part of the rows."""
        first = 0
        for columns in self.slices:
            width = columns.stop - columns.start
            rows[..., columns] = narrow[..., first : first + width]
            first += width


def _slots_named(layout: ModelLayout, prefixes: Sequence[str]) -> list[Slot]:
    """The slots whose names are, or begin with, one of these; each must mean something."""
    found: list[Slot] = []
    unknown: list[str] = []
    for prefix in prefixes:
        matching = [slot for slot in layout.slots if f"{slot.name}.".startswith(f"{prefix}.")]
        found += [slot for slot in matching if slot not in found]
        if not matching:
            unknown.append(prefix)

    if unknown:
        # A module is what people mean; a tensor that belongs to none stands for itself.
        names = dict.fromkeys(_module_of(slot) or slot.name for slot in layout.slots)
        raise ConfigError(
            f"model: no part of it is called {', '.join(map(repr, unknown))}; "
            f"there are {', '.join(names)}"
        )
    return found


def _head_slots(layout: ModelLayout, names: Sequence[str]) -> list[Slot]:
    """The slots of the head."""
    if names:
        return _slots_named(layout, names)

    last_module = _module_of(layout.parameter_slots[-1])
    return [slot for slot in layout.slots if _module_of(slot) == last_module]


def _module_of(slot: Slot) -> str:
    """The name of the module that the tensor belongs to; empty for the model itself."""
    module, _, _ = slot.name.rpartition(".")
    return module
