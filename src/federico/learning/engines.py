"""How a stack of models is executed: stacked matrix products, vmap, or one bound module at a time.

An engine owns nothing but views: of its bench's two buffers, `work` (the models being trained, a row each) and `grad`,
or of the rows it was told to hold. Which engine runs changes no number beyond rounding.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from federico import compat
from federico.learning.layout import ModelLayout, Slot
from federico.learning.objectives import Objective

MANY = 256
"""From so many samples on, the product of a layer is faster with samples as columns than as rows."""


def _linear_of_many(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """The same for many samples: the kernel puts them in order for itself, and takes the weights as they lie."""
    turned = compat.fused_linear(weight, x, None)
    return (turned if bias is None else turned.add_(bias[:, None])).t()


class Engine(Protocol):
    """Runs the first `len(x)` rows of what it holds, row k on the samples x[k]."""

    counters: Tensor
    """The counters of the model being trained; none where models have none."""

    def hold(self, rows: Tensor) -> None:
        """Work on these rows from now on; to be trained, they must be those of `work`."""

    def outputs(self, x: Tensor) -> Tensor:
        """Raw outputs [rows, samples, outputs], in evaluation mode and without gradient."""

    def gradient(self, x: Tensor, y: Tensor, weights: Tensor) -> None:
        """Writes the gradient of the weighted sum of losses of each row into `grad`."""


@dataclass(frozen=True)
class Layer:
    """A linear layer of a chain, and whether ReLU follows it."""

    weight: Slot
    bias: Slot | None
    relu: bool


def chain(layout: ModelLayout) -> list[Layer] | None:
    """The model as a chain of linear layers and ReLUs in one precision, or None if it is anything else."""
    template = layout.template
    if type(template) is not nn.Sequential or layout.mixed:
        return None
    slots = {slot.name: slot for slot in layout.slots}
    layers: list[Layer] = []
    for name, module in template.named_modules(remove_duplicate=False):  # a ReLU may be used twice
        if name == "" or "." in name:  # the chain itself, or something inside one of its layers
            continue
        if type(module) is nn.Linear:
            if not _plain(module, name, slots):
                return None
            layers.append(Layer(slots[f"{name}.weight"], slots.get(f"{name}.bias"), relu=False))
        elif type(module) is nn.ReLU and layers and not layers[-1].relu:
            layers[-1] = Layer(layers[-1].weight, layers[-1].bias, relu=True)
        elif not (
            type(module) is nn.Flatten
            and module.start_dim == 1
            and module.end_dim == -1
            and not layers
        ):
            return None
    return layers or None


def _plain(layer: nn.Linear, name: str, slots: dict[str, Slot]) -> bool:
    """Whether all of the layer learns, and none of it is shared with an earlier one."""
    return all(
        p.requires_grad and f"{name}.{which}" in slots for which, p in layer.named_parameters()
    )


@dataclass(frozen=True)
class Held:
    """One layer of the first so many models in hand, as views that are made once and used in every step."""

    weight: Tensor
    turned: Tensor
    bias: Tensor | None
    weight_grad: Tensor
    bias_grad: Tensor | None
    relu: bool

    @classmethod
    def of(cls, layer: Layer, rows: Tensor, grad: Tensor) -> "Held":
        """The layer in these rows of models and of their gradients."""
        weight = _stacked(layer.weight, rows)
        bias, bias_grad = (
            (_stacked(layer.bias, part) for part in (rows, grad)) if layer.bias else (None, None)
        )
        bias = None if bias is None else bias.unsqueeze(1)
        return cls(
            weight,
            weight.transpose(1, 2),
            bias,
            _stacked(layer.weight, grad),
            bias_grad,
            layer.relu,
        )

    def forward(self, below: Tensor) -> Tensor:
        """What the layer makes of the activations below it."""
        out = (
            torch.bmm(below, self.turned)
            if self.bias is None
            else torch.baddbmm(self.bias, below, self.turned)
        )
        return out.relu_() if self.relu else out

    def measure(self, below: Tensor) -> Tensor:
        """The same for a single model, by the kernels that suit so many samples."""
        linear = compat.fused_linear if below.shape[1] < MANY else _linear_of_many
        out = linear(below[0], self.weight[0], None if self.bias is None else self.bias[0, 0])[None]
        return out.relu_() if self.relu else out

    def learn(self, below: Tensor, back: Tensor) -> None:
        """Write the gradient of the layer: `back` is that of its outputs, before ReLU."""
        torch.bmm(back.transpose(1, 2), below, out=self.weight_grad)
        if self.bias_grad is not None:
            torch.sum(back, dim=1, out=self.bias_grad)


class Stacked:
    """Chains of linear layers: all rows at once as batched matrix products, gradient by hand, nothing copied."""

    def __init__(
        self, layers: list[Layer], objective: Objective, work: Tensor, grad: Tensor
    ) -> None:
        self.counters = torch.empty(0, dtype=torch.int64)
        self._layers, self._objective, self._grad = layers, objective, grad
        # By what may be in hand, not by what is: how visits are cut into stacks must not change a number.
        self._fused = len(work) == 1 and compat.can_fuse_linear(work)
        self.hold(work)

    def hold(self, rows: Tensor) -> None:
        """See `Engine.hold`."""
        self._rows = rows
        self._held: dict[int, list[Held]] = {}

    @torch.no_grad()
    def outputs(self, x: Tensor) -> Tensor:
        """See `Engine.outputs`."""
        out = x.flatten(2)
        for layer in self._first(len(x)):
            out = layer.measure(out) if self._fused else layer.forward(out)
        return out

    @torch.no_grad()
    def gradient(self, x: Tensor, y: Tensor, weights: Tensor) -> None:
        """See `Engine.gradient`."""
        layers, activations = self._first(len(x)), [x.flatten(2)]
        for layer in layers:
            activations.append(layer.forward(activations[-1]))
        back = self._objective.slope(activations[-1], y, weights)
        for k in reversed(range(len(layers))):
            if layers[k].relu:
                back = compat.relu_backward(back, activations[k + 1])
            layers[k].learn(activations[k], back)
            if k > 0:
                back = torch.bmm(back, layers[k].weight)

    def _first(self, count: int) -> list[Held]:
        """The layers of the first `count` models."""
        if count not in self._held:
            rows, grad = self._rows[:count], self._grad[:count]
            self._held[count] = [Held.of(layer, rows, grad) for layer in self._layers]
        return self._held[count]


class Looped:
    """Any module, one row at a time: the module's parameters are bound to the first row, once."""

    def __init__(
        self, layout: ModelLayout, objective: Objective, work: Tensor, grad: Tensor
    ) -> None:
        self.counters = layout.initial_counters()
        self.module = layout.bind(work[0], self.counters)
        self._layout, self._objective = layout, objective
        self._work, self._grad = work[0], grad[0]
        for (_, parameter), slot in zip(
            self.module.named_parameters(), layout.parameter_slots, strict=True
        ):
            parameter.grad = slot.view(grad[0])

    def hold(self, rows: Tensor) -> None:
        """See `Engine.hold`. A module stays bound to one place: other rows are copied there."""
        if rows.data_ptr() != self._work.data_ptr():
            self._work.copy_(rows[0])

    @torch.no_grad()
    def outputs(self, x: Tensor) -> Tensor:
        """See `Engine.outputs`."""
        self.module.eval()
        return self._forward(x[0]).unsqueeze(0)

    def gradient(self, x: Tensor, y: Tensor, weights: Tensor) -> None:
        """See `Engine.gradient`."""
        self.module.train()
        self._grad.zero_()
        torch.autograd.backward((self._objective(self._forward(x[0]), y[0]) * weights[0]).sum())

    def _forward(self, x: Tensor) -> Tensor:
        # A copy, for a module may write into its input.
        layout = torch.channels_last if x.dim() == 4 else torch.contiguous_format
        with self._layout.precision(x.device):
            outputs: Tensor = self.module(x.clone(memory_format=layout))
        return outputs.to(self._layout.dtype)


class Vmapped:
    """Any module that keeps no statistics and draws nothing, all rows at once: what fills a GPU."""

    def __init__(
        self, layout: ModelLayout, objective: Objective, work: Tensor, grad: Tensor
    ) -> None:
        self.counters = torch.empty(0, dtype=torch.int64)
        self._layout, self._objective, self._grad = layout, objective, grad
        self._module = layout.bind(work[0], self.counters)
        self.hold(work)

    def hold(self, rows: Tensor) -> None:
        """See `Engine.hold`."""
        self._rows = rows

    @torch.no_grad()
    def outputs(self, x: Tensor) -> Tensor:
        """See `Engine.outputs`."""
        return torch.vmap(self._run)(self._rows[: len(x)], x)

    def gradient(self, x: Tensor, y: Tensor, weights: Tensor) -> None:
        """See `Engine.gradient`."""
        self._grad[: len(x)] = torch.vmap(torch.func.grad(self._loss))(
            self._rows[: len(x)], x, y, weights
        )

    def _loss(self, row: Tensor, x: Tensor, y: Tensor, weights: Tensor) -> Tensor:
        return (self._objective(self._run(row, x), y) * weights).sum()

    def _run(self, row: Tensor, x: Tensor) -> Tensor:
        tensors = {slot.name: slot.view(row) for slot in self._layout.slots}
        with self._layout.precision(x.device):
            outputs: Tensor = torch.func.functional_call(
                self._module, tensors, (x,), tie_weights=True
            )
        return outputs.to(self._layout.dtype)


def vmappable(layout: ModelLayout) -> bool:
    """Whether all that the model's training changes is a gradient away: no batch-norm statistics, nothing frozen."""
    learns = all(parameter.requires_grad for parameter in layout.template.parameters())
    return learns and layout.size == layout.parameters and not layout.counters


def _stacked(slot: Slot, rows: Tensor) -> Tensor:
    count = torch.Size(slot.shape).numel()
    return rows[:, slot.start : slot.start + count].view(len(rows), *slot.shape)
