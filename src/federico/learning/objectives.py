"""The loss of each sample, -log p(y|x) up to a constant, its slope, and how to predict."""

from math import inf, log
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from federico.learning.calibration import Calibration
from federico.learning.training_rules import LossFunction
from federico.types import Task


class Objective(Protocol):
    """What a task minimises.

    Slopes are written out: autograd's bookkeeping costs more than they do.
    """

    def __call__(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The loss of each sample, over the last dimension of `outputs`."""

    def slope(self, outputs: Tensor, y: Tensor, weights: Tensor) -> Tensor:
        """The gradient of the weighted sum of losses by the outputs."""

    def guess(self, outputs: int) -> float:
        """The loss of whoever knows nothing; infinite where that could be anything."""


class CrossEntropy:
    """The loss of classes, from logits."""

    def __call__(self, outputs: Tensor, y: Tensor) -> Tensor:
        """See `Objective`."""
        classes = outputs.shape[-1]
        flat_outputs = outputs.reshape(-1, classes)
        flat_targets = y.reshape(-1)
        losses = functional.cross_entropy(flat_outputs, flat_targets, reduction="none")
        return losses.view(y.shape)

    def slope(self, outputs: Tensor, y: Tensor, weights: Tensor) -> Tensor:
        """See `Objective`."""
        # Softmax, less one at the true class.
        slope = torch.softmax(outputs, dim=-1)
        true_class = y.unsqueeze(-1)  # [..., samples, 1]
        minus_one = slope.new_full(true_class.shape, -1)
        slope.scatter_add_(-1, true_class, minus_one)
        return slope.mul_(weights.unsqueeze(-1))

    def guess(self, outputs: int) -> float:
        """See `Objective`: every class is as likely as any."""
        return log(outputs)


class SquaredError:
    """The loss of values, summed over the outputs."""

    def __call__(self, outputs: Tensor, y: Tensor) -> Tensor:
        """See `Objective`."""
        return (outputs - y).square().sum(-1)

    def slope(self, outputs: Tensor, y: Tensor, weights: Tensor) -> Tensor:
        """See `Objective`."""
        return (outputs - y).mul_(2 * weights.unsqueeze(-1))

    def guess(self, outputs: int) -> float:
        """See `Objective`: values have no scale of their own."""
        return inf


class OwnObjective:
    """Somebody's own loss of a sample, in the place of the task's; its slope is autograd's."""

    def __init__(self, loss: LossFunction, task: Task) -> None:
        self._loss = loss
        self._task = task

    def __call__(self, outputs: Tensor, y: Tensor) -> Tensor:
        """See `Objective`."""
        samples = outputs.shape[:-1]
        flat_outputs = outputs.flatten(0, -2)  # [all samples, outputs]
        flat_targets = y.flatten()
        if self._task == "regression":
            flat_targets = y.flatten(0, -2)
        return self._loss(flat_outputs, flat_targets).view(samples)

    def slope(self, outputs: Tensor, y: Tensor, weights: Tensor) -> Tensor:
        """See `Objective`."""
        with torch.enable_grad():
            leaf = outputs.detach().requires_grad_()
            total = (self(leaf, y) * weights).sum()
            (slope,) = torch.autograd.grad(total, leaf)
        return slope

    def guess(self, outputs: int) -> float:
        """See `Objective`: nothing is known about such a loss."""
        return inf


def objective_for(task: Task) -> Objective:
    """The loss that the task means."""
    return CrossEntropy() if task == "classification" else SquaredError()


def mixable(outputs: Tensor, task: Task, calibration: Calibration | None = None) -> Tensor:
    """What a mixture averages.

    Probabilities (not logits) for classes, read as the calibration of their visits says; the values
    themselves for regression. `outputs` is [visits, samples, outputs] and may have fewer visits
    than the calibration: the first ones.
    """
    if task == "regression":
        return outputs
    if calibration is not None:
        visits = len(outputs)
        temperatures = torch.from_numpy(calibration.temperatures[:visits]).to(outputs)
        offsets = torch.from_numpy(calibration.offsets[:visits]).to(outputs)
        softened = outputs / temperatures[:, None, None]
        outputs = softened + offsets[:, None, :]
    return torch.softmax(outputs, dim=-1)
