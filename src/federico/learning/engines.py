"""How a stack of models is executed: stacked matrix products, vmap, or one bound module at a time.

An engine owns nothing but views: of its workspace's two buffers, `work` (the models being trained,
a row each) and `grad`, or of the rows it was told to hold. Which engine runs changes no number
beyond rounding.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from federico import compat
from federico.learning.layout import ModelLayout, Slot
from federico.learning.objectives import Objective

MANY = 256
"""From so many samples on, the product of a layer is faster with samples as columns."""


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
    """The model as a chain of linear layers and ReLUs in one precision, or None."""
    template = layout.template
    if type(template) is not nn.Sequential or layout.mixed:
        return None

    slots = {slot.name: slot for slot in layout.slots}
    layers: list[Layer] = []
    # With duplicates: one and the same ReLU may be used twice.
    for name, module in template.named_modules(remove_duplicate=False):
        if name == "" or "." in name:  # the chain itself, or something inside one of its layers
            continue
        if type(module) is nn.Linear and _is_plain(module, name, slots):
            weight = slots[f"{name}.weight"]
            bias = slots.get(f"{name}.bias")
            layers.append(Layer(weight, bias, relu=False))
        elif type(module) is nn.ReLU and layers and not layers[-1].relu:
            last = layers.pop()
            layers.append(Layer(last.weight, last.bias, relu=True))
        elif not _is_first_flatten(module, layers):
            return None
    return layers or None


def _is_plain(layer: nn.Linear, name: str, slots: dict[str, Slot]) -> bool:
    """Whether all of the layer learns, and none of it is shared with an earlier one."""
    for which, parameter in layer.named_parameters():
        if not parameter.requires_grad or f"{name}.{which}" not in slots:
            return False
    return True


def _is_first_flatten(module: nn.Module, layers: list[Layer]) -> bool:
    """Whether the module flattens whole inputs before any layer, as a chain does anyway."""
    if type(module) is not nn.Flatten or layers:
        return False
    return module.start_dim == 1 and module.end_dim == -1


@dataclass(frozen=True)
class StackedLayer:
    """One layer of the first so many models in hand, as views made once for all steps."""

    weight: Tensor
    """[models, outputs, inputs]"""
    transposed: Tensor
    """[models, inputs, outputs]"""
    bias: Tensor | None
    """[models, 1, outputs]"""
    weight_grad: Tensor
    bias_grad: Tensor | None
    relu: bool

    @classmethod
    def of(cls, layer: Layer, rows: Tensor, grad: Tensor) -> "StackedLayer":
        """The layer in these rows of models and of their gradients."""
        weight = _stacked(layer.weight, rows)
        weight_grad = _stacked(layer.weight, grad)
        bias = None
        bias_grad = None
        if layer.bias is not None:
            bias = _stacked(layer.bias, rows).unsqueeze(1)
            bias_grad = _stacked(layer.bias, grad)
        return cls(weight, weight.transpose(1, 2), bias, weight_grad, bias_grad, layer.relu)

    def forward(self, below: Tensor) -> Tensor:
        """What the layer makes of the activations below it, [models, samples, inputs]."""
        if self.bias is None:
            out = torch.bmm(below, self.transposed)
        else:
            out = torch.baddbmm(self.bias, below, self.transposed)
        return out.relu_() if self.relu else out

    def forward_alone(self, below: Tensor) -> Tensor:
        """The same for a single model, by the kernels that suit so many samples."""
        samples = below[0]
        bias = None if self.bias is None else self.bias[0, 0]
        if len(samples) < MANY:
            out = compat.fused_linear(samples, self.weight[0], bias)
        else:
            out = _fused_linear_of_many(samples, self.weight[0], bias)
        out = out[None]
        return out.relu_() if self.relu else out

    def write_gradient(self, below: Tensor, slope: Tensor) -> None:
        """Write the gradient of the layer: `slope` is that of its outputs, before ReLU."""
        torch.bmm(slope.transpose(1, 2), below, out=self.weight_grad)
        if self.bias_grad is not None:
            torch.sum(slope, dim=1, out=self.bias_grad)


def _stacked(slot: Slot, rows: Tensor) -> Tensor:
    """The tensor of this slot in every row, [rows, *shape]."""
    columns = slice(slot.start, slot.start + slot.size)
    return rows[:, columns].view(len(rows), *slot.shape)


def _fused_linear_of_many(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """A linear layer for many samples.

    The kernel puts them in order for itself, and takes the weights as they lie.
    """
    transposed = compat.fused_linear(weight, x, None)  # [outputs, samples]
    if bias is not None:
        transposed.add_(bias[:, None])
    return transposed.t()


class Stacked:
    """Runs chains of linear layers.

    All rows run at once as batched matrix products, gradient by hand, nothing copied.
    """

    def __init__(
        self, layers: list[Layer], objective: Objective, work: Tensor, grad: Tensor
    ) -> None:
        self.counters = torch.empty(0, dtype=torch.int64)
        self._layers = layers
        self._objective = objective
        self._grad = grad
        # By what may be in hand, not by what is: how visits are cut into stacks must not change a
        # number.
        self._fused = len(work) == 1 and compat.can_fuse_linear(work)
        self.hold(work)

    def hold(self, rows: Tensor) -> None:
        """See `Engine.hold`."""
        self._rows = rows
        self._stacked_layers: dict[int, list[StackedLayer]] = {}

    @torch.no_grad()
    def outputs(self, x: Tensor) -> Tensor:
        """See `Engine.outputs`."""
        out = x.flatten(2)
        for layer in self._layers_of_first(len(x)):
            out = layer.forward_alone(out) if self._fused else layer.forward(out)
        return out

    @torch.no_grad()
    def gradient(self, x: Tensor, y: Tensor, weights: Tensor) -> None:
        """See `Engine.gradient`."""
        layers = self._layers_of_first(len(x))
        activations = [x.flatten(2)]
        for layer in layers:
            activations.append(layer.forward(activations[-1]))

        slope = self._objective.slope(activations[-1], y, weights)
        for k in reversed(range(len(layers))):
            layer = layers[k]
            if layer.relu:
                slope = compat.relu_backward(slope, activations[k + 1])
            layer.write_gradient(activations[k], slope)
            if k > 0:
                slope = torch.bmm(slope, layer.weight)

    def _layers_of_first(self, count: int) -> list[StackedLayer]:
        """The layers of the first `count` models."""
        if count not in self._stacked_layers:
            rows = self._rows[:count]
            grad = self._grad[:count]
            layers = [StackedLayer.of(layer, rows, grad) for layer in self._layers]
            self._stacked_layers[count] = layers
        return self._stacked_layers[count]


class Looped:
    """Any module, one row at a time: the module's parameters are bound to the first row, once."""

    def __init__(
        self, layout: ModelLayout, objective: Objective, work: Tensor, grad: Tensor
    ) -> None:
        self.counters = layout.initial_counters()
        self.module = layout.bind(work[0], self.counters)
        self._layout = layout
        self._objective = objective
        self._work = work[0]
        self._grad = grad[0]
        parameters = self.module.parameters()
        for parameter, slot in zip(parameters, layout.parameter_slots, strict=True):
            parameter.grad = slot.view(self._grad)

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
        losses = self._objective(self._forward(x[0]), y[0])
        torch.autograd.backward((losses * weights[0]).sum())

    def _forward(self, x: Tensor) -> Tensor:
        memory_format = torch.channels_last if x.dim() == 4 else torch.contiguous_format
        own_input = x.clone(memory_format=memory_format)  # a module may write into its input
        with self._layout.precision(x.device):
            outputs: Tensor = self.module(own_input)
        return outputs.to(self._layout.dtype)


class Vmapped:
    """Any module that keeps no statistics and draws nothing, all rows at once: what fills a GPU."""

    def __init__(
        self, layout: ModelLayout, objective: Objective, work: Tensor, grad: Tensor
    ) -> None:
        self.counters = torch.empty(0, dtype=torch.int64)
        self._layout = layout
        self._objective = objective
        self._grad = grad
        self._module = layout.bind(work[0], self.counters)
        self.hold(work)

    def hold(self, rows: Tensor) -> None:
        """See `Engine.hold`."""
        self._rows = rows

    @torch.no_grad()
    def outputs(self, x: Tensor) -> Tensor:
        """See `Engine.outputs`."""
        return torch.vmap(self._forward)(self._rows[: len(x)], x)

    def gradient(self, x: Tensor, y: Tensor, weights: Tensor) -> None:
        """See `Engine.gradient`."""
        gradient_of_each = torch.vmap(torch.func.grad(self._loss))
        rows = self._rows[: len(x)]
        self._grad[: len(x)] = gradient_of_each(rows, x, y, weights)

    def _loss(self, row: Tensor, x: Tensor, y: Tensor, weights: Tensor) -> Tensor:
        losses = self._objective(self._forward(row, x), y)
        return (losses * weights).sum()

    def _forward(self, row: Tensor, x: Tensor) -> Tensor:
        tensors = {slot.name: slot.view(row) for slot in self._layout.slots}
        with self._layout.precision(x.device):
            outputs: Tensor = torch.func.functional_call(
                self._module, tensors, (x,), tie_weights=True
            )
        return outputs.to(self._layout.dtype)


def vmappable(layout: ModelLayout) -> bool:
    """Whether training changes the model by its gradient alone.

    There are no batch-norm statistics then, and nothing is frozen.
    """
    keeps_statistics = layout.size > layout.parameters or len(layout.counters) > 0
    learns = all(parameter.requires_grad for parameter in layout.template.parameters())
    return learns and not keeps_statistics
