"""The loss of each sample, -log p(y|x) up to a constant, and how outputs become predictions."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from federico.types import Task

Objective = Callable[[Tensor, Tensor], Tensor]


def cross_entropy(outputs: Tensor, y: Tensor) -> Tensor:
    """Per sample, over the last dimension of `outputs`."""
    flat = functional.cross_entropy(outputs.reshape(-1, outputs.shape[-1]), y.reshape(-1), reduction="none")
    return flat.view(y.shape)


def squared_error(outputs: Tensor, y: Tensor) -> Tensor:
    """Per sample, summed over the outputs."""
    return (outputs - y).square().sum(-1)


def objective_for(task: Task) -> Objective:
    """The loss that the task means."""
    return cross_entropy if task == "classification" else squared_error


def mixable(outputs: Tensor, task: Task) -> Tensor:
    """What a mixture averages: probabilities (not logits) for classes, the values themselves for regression."""
    return torch.softmax(outputs, dim=-1) if task == "classification" else outputs
