"""How a stack of models is executed: stacked matrix products, vmap, or one bound module at a time.

An engine owns nothing but views: of its bench's two buffers, `work` (the models being trained, a row each) and `grad`,
or of the rows it was told to hold. Which engine runs changes no number beyond rounding.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from federico.learning.blueprint import Blueprint, Slot
from federico.learning.objectives import Objective


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


def chain(blueprint: Blueprint) -> list[Layer] | None:
    """The model as a chain of linear layers and ReLUs, or None if it is anything else."""
    if type(blueprint.template) is not nn.Sequential:
        return None
    slots = {slot.name: slot for slot in blueprint.slots}
    layers: list[Layer] = []
    for name, module in blueprint.template._modules.items():  # named_children would skip a ReLU used twice
        if type(module) is nn.Linear:
            if not _plain(module, name, slots):
                return None
            layers.append(Layer(slots[f"{name}.weight"], slots.get(f"{name}.bias"), relu=False))
        elif type(module) is nn.ReLU and layers and not layers[-1].relu:
            layers[-1] = Layer(layers[-1].weight, layers[-1].bias, relu=True)
        elif not (type(module) is nn.Flatten and module.start_dim == 1 and module.end_dim == -1 and not layers):
            return None
    return layers or None


def _plain(layer: nn.Linear, name: str, slots: dict[str, Slot]) -> bool:
    """Whether all of the layer learns, and none of it is shared with an earlier one."""
    return all(p.requires_grad and f"{name}.{which}" in slots for which, p in layer.named_parameters())


class Stacked:
    """Chains of linear layers: all rows at once as batched matrix products, gradient by hand, nothing copied."""

    def __init__(self, layers: list[Layer], objective: Objective, work: Tensor, grad: Tensor) -> None:
        self.counters = torch.empty(0, dtype=torch.int64)
        self._layers, self._objective = layers, objective
        self._relu = [layer.relu for layer in layers]
        self._grads = [_views(layer, grad) for layer in layers]
        self.hold(work)

    def hold(self, rows: Tensor) -> None:
        """See `Engine.hold`."""
        self._params = [_views(layer, rows) for layer in self._layers]

    @torch.no_grad()
    def outputs(self, x: Tensor) -> Tensor:
        """See `Engine.outputs`."""
        return self._forward(x)[-1]

    @torch.no_grad()
    def gradient(self, x: Tensor, y: Tensor, weights: Tensor) -> None:
        """See `Engine.gradient`."""
        rows, activations = len(x), self._forward(x)
        back = self._output_gradient(activations[-1], y, weights)
        for layer in reversed(range(len(self._params))):
            below = activations[layer]
            weight_grad, bias_grad = self._grads[layer]
            torch.bmm(back.transpose(1, 2), below, out=weight_grad[:rows])
            if bias_grad is not None:
                torch.sum(back, dim=1, out=bias_grad[:rows])
            if layer > 0:
                back = torch.bmm(back, self._params[layer][0][:rows])
                if self._relu[layer - 1]:
                    back = torch.ops.aten.threshold_backward(back, below, 0)

    def _forward(self, x: Tensor) -> list[Tensor]:
        """The input and the activations of every layer."""
        activations = [x.flatten(2)]
        for (weight, bias), relu in zip(self._params, self._relu, strict=True):
            rows, below = len(x), activations[-1]
            turned = weight[:rows].transpose(1, 2)
            out = torch.bmm(below, turned) if bias is None else torch.baddbmm(bias[:rows, None], below, turned)
            activations.append(out.relu_() if relu else out)
        return activations

    def _output_gradient(self, outputs: Tensor, y: Tensor, weights: Tensor) -> Tensor:
        gradient = self._objective.slope(outputs, y, weights)
        return gradient if not self._relu[-1] else gradient * (outputs > 0)


class Looped:
    """Any module, one row at a time: the module's parameters are bound to the first row, once."""

    def __init__(self, blueprint: Blueprint, objective: Objective, work: Tensor, grad: Tensor) -> None:
        self.counters = blueprint.initial_counters()
        self.module = blueprint.bind(work[0], self.counters)
        self._objective = objective
        self._work, self._grad = work[0], grad[0]
        for (_, parameter), slot in zip(self.module.named_parameters(), blueprint.parameter_slots, strict=True):
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
        outputs: Tensor = self.module(x.clone(memory_format=layout))
        return outputs


class Vmapped:
    """Any module that keeps no statistics and draws nothing, all rows at once: what fills a GPU."""

    def __init__(self, blueprint: Blueprint, objective: Objective, work: Tensor, grad: Tensor) -> None:
        self.counters = torch.empty(0, dtype=torch.int64)
        self._blueprint, self._objective, self._grad = blueprint, objective, grad
        self._module = blueprint.bind(work[0], self.counters)
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
        self._grad[: len(x)] = torch.vmap(torch.func.grad(self._loss))(self._rows[: len(x)], x, y, weights)

    def _loss(self, row: Tensor, x: Tensor, y: Tensor, weights: Tensor) -> Tensor:
        return (self._objective(self._run(row, x), y) * weights).sum()

    def _run(self, row: Tensor, x: Tensor) -> Tensor:
        tensors = {slot.name: slot.view(row) for slot in self._blueprint.slots}
        outputs: Tensor = torch.func.functional_call(self._module, tensors, (x,), tie_weights=True)
        return outputs


def vmappable(blueprint: Blueprint) -> bool:
    """Whether all that the model's training changes is a gradient away: no batch-norm statistics, nothing frozen."""
    learns = all(parameter.requires_grad for parameter in blueprint.template.parameters())
    return learns and blueprint.size == blueprint.parameters and not blueprint.counters


def _views(layer: Layer, rows: Tensor) -> tuple[Tensor, Tensor | None]:
    return _stacked(layer.weight, rows), None if layer.bias is None else _stacked(layer.bias, rows)


def _stacked(slot: Slot, rows: Tensor) -> Tensor:
    count = torch.Size(slot.shape).numel()
    return rows[:, slot.start : slot.start + count].view(len(rows), *slot.shape)
