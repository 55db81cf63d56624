"""How a stack of models is executed: batched matrix products, vmap, or one module at a time.

An engine owns no rows, only views of them: of its workspace's two buffers, `work` (one row for each
model being trained) and `grad`, or of the rows given to `hold`. The choice of engine changes no
number beyond rounding.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor, nn

from federico import compat
from federico.learning.layout import ModelLayout, Slot
from federico.learning.objectives import Objective
from federico.learning.privacy import clip_factors

MANY = 256
"""With at least this many samples, a layer's product is faster with the samples as columns."""


class Engine(Protocol):
    """Runs the first `len(x)` of the models it holds, model k on the samples x[k]."""

    counters: Tensor
    """The counters of the model being trained; empty if models have none."""

    def hold(self, rows: Tensor) -> None:
        """Work on these models from now on, [models, size]; only those in `work` can be trained."""

    def outputs(self, x: Tensor) -> Tensor:
        """Raw outputs [models, samples, outputs], in evaluation mode and without gradient."""

    def gradient(self, x: Tensor, y: Tensor, weights: Tensor) -> None:
        """Write the gradient of each model's weighted sum of losses into its row of `grad`."""

    def clipped_gradient(self, x: Tensor, y: Tensor, weights: Tensor, bound: float) -> None:
        """The same, with the gradient of each single sample shortened to a length of `bound`."""


@dataclass(frozen=True)
class Layer:
    """One linear layer of a chain, and whether a ReLU follows it."""

    weight: Slot
    bias: Slot | None
    relu: bool


def chain(layout: ModelLayout) -> list[Layer] | None:
    """The model as a chain of linear layers and ReLUs in one precision; None if it is not one."""
    template = layout.template
    if type(template) is not nn.Sequential or layout.mixed:
        return None

    slots = {slot.name: slot for slot in layout.slots}
    layers: list[Layer] = []
    # With duplicates, because the same ReLU module may be used twice.
    for name, module in template.named_modules(remove_duplicate=False):
        is_chain_itself = name == ""
        is_inside_a_layer = "." in name
        if is_chain_itself or is_inside_a_layer:
            continue
        if type(module) is nn.Linear and _is_plain(module, name, slots):
            weight = slots[f"{name}.weight"]
            bias = slots.get(f"{name}.bias")
            layers.append(Layer(weight, bias, relu=False))
        elif type(module) is nn.ReLU and layers and not layers[-1].relu:
            layers[-1] = replace(layers[-1], relu=True)
        elif not _is_first_flatten(module, layers):
            return None
    return layers or None


def _is_plain(layer: nn.Linear, name: str, slots: dict[str, Slot]) -> bool:
    """Whether all parameters of the layer are trained, and none is shared with an earlier layer."""
    for which, parameter in layer.named_parameters():
        if not parameter.requires_grad or f"{name}.{which}" not in slots:
            return False
    return True


def _is_first_flatten(module: nn.Module, layers: list[Layer]) -> bool:
    """Whether the module flattens the model's inputs, which a chain does anyway."""
    if type(module) is not nn.Flatten or layers:
        return False
    return module.start_dim == 1 and module.end_dim == -1


@dataclass(frozen=True)
class StackedLayer:
    """One layer of several models, as views of their rows that are made once for all steps."""

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
        """The layer of the models in `rows`, whose gradients go to `grad`; both [models, size]."""
        weight = _stacked(layer.weight, rows)
        transposed = weight.transpose(1, 2)
        weight_grad = _stacked(layer.weight, grad)

        bias = None
        bias_grad = None
        if layer.bias is not None:
            bias = _stacked(layer.bias, rows).unsqueeze(1)
            bias_grad = _stacked(layer.bias, grad)
        return cls(weight, transposed, bias, weight_grad, bias_grad, layer.relu)

    def forward(self, below: Tensor) -> Tensor:
        """The layer's activations, given those below it: [models, samples, inputs]."""
        if self.bias is None:
            out = torch.bmm(below, self.transposed)
        else:
            out = torch.baddbmm(self.bias, below, self.transposed)

        if self.relu:
            out.relu_()
        return out

    def forward_alone(self, below: Tensor) -> Tensor:
        """`forward` for a single model, by the kernel that is fastest for this many samples."""
        samples = below[0]  # [samples, inputs]
        weight = self.weight[0]  # [outputs, inputs]
        bias = None
        if self.bias is not None:
            bias = self.bias[0, 0]  # [outputs]

        if len(samples) < MANY:
            out = compat.fused_linear(samples, weight, bias)
        else:
            out = _fused_linear_of_many(samples, weight, bias)

        if self.relu:
            out.relu_()
        return out[None]

    def write_gradient(self, below: Tensor, slope: Tensor) -> None:
        """Write the gradient of the layer's weight and bias.

        `slope` is the gradient of its outputs before ReLU, [models, samples, outputs].
        """
        torch.bmm(slope.transpose(1, 2), below, out=self.weight_grad)
        if self.bias_grad is not None:
            torch.sum(slope, dim=1, out=self.bias_grad)


def _stacked(slot: Slot, rows: Tensor) -> Tensor:
    """The tensor of this slot in every row, as a view: [rows, *shape]."""
    end = slot.start + slot.size
    columns = rows[:, slot.start : end]
    return columns.view(len(rows), *slot.shape)


def _fused_linear_of_many(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """A linear layer applied to many samples, [samples, outputs].

    Samples and weights change places: the kernel rearranges its second operand, here the samples,
    and reads the first, here the weights, as it lies.
    """
    transposed = compat.fused_linear(weight, x, None)  # [outputs, samples]
    if bias is not None:
        transposed.add_(bias[:, None])
    return transposed.t()


class Stacked:
    """Runs models that are chains of linear layers, all at once, as batched matrix products.

    The gradient is written out by hand, and no row is copied.
    """

    def __init__(
        self, layers: list[Layer], objective: Objective, work: Tensor, grad: Tensor
    ) -> None:
        self.counters = torch.empty(0, dtype=torch.int64)
        self._layers = layers
        self._objective = objective
        self._grad = grad
        # Decided by how many models a stack may hold, not by how many it holds: the way visits are
        # cut into stacks must not change a number.
        holds_one = len(work) == 1
        self._fused = holds_one and compat.can_fuse_linear(work)
        self.hold(work)

    def hold(self, rows: Tensor) -> None:
        """See `Engine.hold`."""
        self._rows = rows
        # The layers of the first n models, by n.
        self._stacked_layers: dict[int, list[StackedLayer]] = {}

    @torch.no_grad()
    def outputs(self, x: Tensor) -> Tensor:
        """See `Engine.outputs`."""
        layers = self._layers_of_first(len(x))
        out = x.flatten(2)  # [models, samples, inputs]
        for layer in layers:
            out = layer.forward_alone(out) if self._fused else layer.forward(out)
        return out

    @torch.no_grad()
    def gradient(self, x: Tensor, y: Tensor, weights: Tensor) -> None:
        """See `Engine.gradient`."""
        layers = self._layers_of_first(len(x))
        for layer, below, slope in self._backward(layers, x, y, weights):
            layer.write_gradient(below, slope)

    @torch.no_grad()
    def clipped_gradient(self, x: Tensor, y: Tensor, weights: Tensor, bound: float) -> None:
        """See `Engine.clipped_gradient`."""
        layers = self._layers_of_first(len(x))
        parts = list(self._backward(layers, x, y, weights))

        # A layer's gradient for one sample is the product of its slope and of what is below it, so
        # the product of their lengths is its length.
        squares = torch.zeros(x.shape[:2], dtype=x.dtype, device=x.device)  # [models, samples]
        for layer, below, slope in parts:
            inputs = below.square().sum(2)
            if layer.bias is not None:
                inputs = inputs + 1
            squares += slope.square().sum(2) * inputs
        factors = clip_factors(squares.sqrt(), bound)
        for layer, below, slope in parts:
            layer.write_gradient(below, slope * factors[:, :, None])

    def _backward(
        self, layers: list[StackedLayer], x: Tensor, y: Tensor, weights: Tensor
    ) -> Iterator[tuple[StackedLayer, Tensor, Tensor]]:
        """Every layer from last to first, with what is below it and the slope of its outputs."""
        # Forward: activations[k] goes into layer k, activations[k + 1] comes out of it.
        activations = [x.flatten(2)]
        for layer in layers:
            below = activations[-1]
            activations.append(layer.forward(below))

        # Backward: `slope` is the gradient of what comes out of the layer.
        outputs = activations[-1]
        slope = self._objective.slope(outputs, y, weights)  # [models, samples, outputs]
        for k in reversed(range(len(layers))):
            layer = layers[k]
            if layer.relu:
                slope = compat.relu_backward(slope, activations[k + 1])
            yield layer, activations[k], slope

            # Nothing needs the gradient of the inputs.
            if k > 0:
                slope = torch.bmm(slope, layer.weight)

    def _layers_of_first(self, count: int) -> list[StackedLayer]:
        """The layers of the first `count` models, made when they are first needed."""
        layers = self._stacked_layers.get(count)
        if layers is None:
            rows = self._rows[:count]
            grad = self._grad[:count]
            layers = [StackedLayer.of(layer, rows, grad) for layer in self._layers]
            self._stacked_layers[count] = layers
        return layers


@dataclass(frozen=True)
class SampleLoss:
    """The loss of one model for single samples, of any module that treats them apart."""

    layout: ModelLayout
    module: nn.Module
    objective: Objective

    def clipped_gradient(
        self, row: Tensor, x: Tensor, y: Tensor, weights: Tensor, bound: float
    ) -> Tensor:
        """The sum of the samples' gradients, [size], none of which is longer than `bound`."""
        gradient = torch.func.grad(self)
        gradient_of_each = torch.vmap(gradient, in_dims=(None, 0, 0, 0), randomness="different")
        gradients: Tensor = gradient_of_each(row, x, y, weights)  # [samples, size]
        norms = torch.linalg.vector_norm(gradients, dim=1)
        return clip_factors(norms, bound) @ gradients

    def __call__(self, row: Tensor, x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
        """The weighted loss of one sample, by the model in this row."""
        tensors = {slot.name: slot.view(row) for slot in self.layout.slots}
        with self.layout.precision(x.device):
            outputs: Tensor = torch.func.functional_call(
                self.module, tensors, (x[None],), tie_weights=True
            )
        loss: Tensor = self.objective(outputs.to(self.layout.dtype), y[None])[0]
        return loss * weight


class Looped:
    """Runs any module, one model at a time.

    The module's tensors are bound once to the workspace's only row.
    """

    def __init__(
        self, layout: ModelLayout, objective: Objective, work: Tensor, grad: Tensor
    ) -> None:
        self.counters = layout.initial_counters()
        self.module = layout.bind(work[0], self.counters)
        self._layout = layout
        self._objective = objective
        self._work = work[0]
        self._grad = grad[0]
        # Autograd adds up gradients in place, and so writes them into the row.
        parameters = dict(self.module.named_parameters())
        for slot in layout.parameter_slots:
            parameters[slot.name].grad = slot.view(self._grad)

    def hold(self, rows: Tensor) -> None:
        """See `Engine.hold`. The module stays bound to one row: other rows are copied there."""
        is_bound_row = rows.data_ptr() == self._work.data_ptr()
        if not is_bound_row:
            self._work.copy_(rows[0])

    @torch.no_grad()
    def outputs(self, x: Tensor) -> Tensor:
        """See `Engine.outputs`."""
        self.module.eval()
        outputs = self._forward(x[0])  # [samples, outputs]
        return outputs.unsqueeze(0)

    def gradient(self, x: Tensor, y: Tensor, weights: Tensor) -> None:
        """See `Engine.gradient`."""
        self._layout.training_mode(self.module)
        self._grad.zero_()
        outputs = self._forward(x[0])  # [samples, outputs]
        losses = self._objective(outputs, y[0])
        total = (losses * weights[0]).sum()
        torch.autograd.backward(total)

    def clipped_gradient(self, x: Tensor, y: Tensor, weights: Tensor, bound: float) -> None:
        """See `Engine.clipped_gradient`."""
        self._layout.training_mode(self.module)
        loss = SampleLoss(self._layout, self.module, self._objective)
        self._grad.copy_(loss.clipped_gradient(self._work, x[0], y[0], weights[0], bound))

    def _forward(self, x: Tensor) -> Tensor:
        """The module's outputs for these samples, in the layout's precision."""
        # Convolutions are fastest on images whose channels lie side by side.
        memory_format = torch.contiguous_format
        if x.dim() == 4:
            memory_format = torch.channels_last

        # A copy, because a module may write into its input.
        own_input = x.clone(memory_format=memory_format)
        with self._layout.precision(x.device):
            outputs: Tensor = self.module(own_input)
        return outputs.to(self._layout.dtype)


class Vmapped:
    """Runs any module without statistics and random numbers, all models at once, to fill a GPU."""

    def __init__(
        self, layout: ModelLayout, objective: Objective, work: Tensor, grad: Tensor
    ) -> None:
        self.counters = torch.empty(0, dtype=torch.int64)
        self._layout = layout
        self._objective = objective
        self._grad = grad
        self._module = layout.bind(work[0], self.counters)
        layout.training_mode(self._module)
        self.hold(work)

    def hold(self, rows: Tensor) -> None:
        """See `Engine.hold`."""
        self._rows = rows

    @torch.no_grad()
    def outputs(self, x: Tensor) -> Tensor:
        """See `Engine.outputs`."""
        outputs_of_each = torch.vmap(self._forward)
        rows = self._rows[: len(x)]
        outputs: Tensor = outputs_of_each(rows, x)
        return outputs

    def gradient(self, x: Tensor, y: Tensor, weights: Tensor) -> None:
        """See `Engine.gradient`."""
        gradient = torch.func.grad(self._loss)
        gradient_of_each = torch.vmap(gradient)
        count = len(x)
        rows = self._rows[:count]
        self._grad[:count] = gradient_of_each(rows, x, y, weights)

    def clipped_gradient(self, x: Tensor, y: Tensor, weights: Tensor, bound: float) -> None:
        """See `Engine.clipped_gradient`."""
        loss = SampleLoss(self._layout, self._module, self._objective)
        for k in range(len(x)):
            self._grad[k] = loss.clipped_gradient(self._rows[k], x[k], y[k], weights[k], bound)

    def _loss(self, row: Tensor, x: Tensor, y: Tensor, weights: Tensor) -> Tensor:
        """The weighted sum of one model's losses."""
        outputs = self._forward(row, x)
        losses = self._objective(outputs, y)
        return (losses * weights).sum()

    def _forward(self, row: Tensor, x: Tensor) -> Tensor:
        """The outputs of one model for these samples, in the layout's precision."""
        tensors = {slot.name: slot.view(row) for slot in self._layout.slots}
        with self._layout.precision(x.device):
            outputs: Tensor = torch.func.functional_call(
                self._module, tensors, (x,), tie_weights=True
            )
        return outputs.to(self._layout.dtype)


def vmappable(layout: ModelLayout) -> bool:
    """Whether only gradients change a row: no batch-norm statistics, no frozen parameters in it."""
    has_buffers = layout.size > layout.parameters
    has_counters = len(layout.counters) > 0
    if has_buffers or has_counters:
        return False
    return not layout.holds_frozen_parameters
