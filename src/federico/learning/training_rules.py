"""What goes on around an optimizer's step: loss, class weights, decay, clipping, schedule."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from federico.errors import ConfigError
from federico.learning.augmentation import Augmentation
from federico.learning.schedules import Constant, Schedule
from federico.own_code import import_object
from federico.types import FloatArray, IntArray

LossFunction: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""(outputs, targets) -> the loss of each sample."""
ClassWeights: TypeAlias = Literal["balanced"] | tuple[float, ...]
"""A weight for each class, or those under which all classes of a client count the same."""


@dataclass(frozen=True)
class TrainingRules:
    """How training differs from plain steps on the task's own loss; by default, not at all."""

    loss: LossFunction | None = None
    class_weights: ClassWeights | None = None
    weight_decay: float = 0.0
    clip_norm: float | None = None
    schedule: Schedule = field(default_factory=Constant)
    augmentation: Augmentation | None = None

    def prepare_step(self, parameters: Tensor, gradients: Tensor, rate: float) -> None:
        """Clip the gradients and let the parameters decay, in place, before a step at this rate.

        Both are [models, parameters]: every model is clipped by its own gradient.
        """
        if self.clip_norm is not None:
            norms = torch.linalg.vector_norm(gradients, dim=1, keepdim=True)
            shortened = self.clip_norm / norms
            gradients.mul_(shortened.clamp(max=1.0))
        if self.weight_decay:
            parameters.mul_(1 - rate * self.weight_decay)


def class_weight_table(weights: ClassWeights, labels: list[IntArray], classes: int) -> FloatArray:
    """The weight of each client's samples of each class, [clients, classes].

    `labels` are those of each client's training samples. Balanced weights are one on average over
    the samples of a client; a class that it does not have needs none.
    """
    if weights != "balanced":
        if len(weights) != classes:
            raise ConfigError(
                f"training.class_weights: has {len(weights)} numbers, the data has {classes} "
                "classes; give one for each, in the order of the labels"
            )
        return np.tile(np.array(weights), (len(labels), 1))

    table = np.ones((len(labels), classes))
    for client, own in enumerate(labels):
        counts = np.bincount(own, minlength=classes)
        there = counts > 0
        table[client, there] = len(own) / (there.sum() * counts[there])
    return table


def import_loss(reference: str) -> LossFunction:
    """The loss that `file.py:function` or `package.module:function` names."""
    found = import_object(reference, "training.loss")
    if isinstance(found, type) or not callable(found):
        raise ConfigError(f"training.loss: {reference!r} is not a function")
    loss: LossFunction = found
    return loss


def check_loss(loss: LossFunction, outputs: Tensor, targets: Tensor) -> None:
    """Try the loss on real outputs: it must give one finite number for each sample."""
    outputs = outputs.detach().requires_grad_()
    try:
        losses = loss(outputs, targets)
        torch.autograd.backward(losses.sum())
    except Exception as error:  # whatever somebody's own function does
        raise ConfigError(f"training.loss: it fails on real samples: {error}") from error
    if tuple(losses.shape) != (len(outputs),):
        raise ConfigError(
            f"training.loss: it gives a tensor of shape {tuple(losses.shape)} for {len(outputs)} "
            "samples; it must give one number for each sample (in PyTorch, reduction='none')"
        )
    if outputs.grad is None:
        raise ConfigError("training.loss: it does not depend on the outputs of the model")
