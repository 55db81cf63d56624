"""A mixture distilled into one model: trained to answer as the mixture does, and what that loses.

It learns from the mixture's answers to samples, which need no labels. A fifth of the samples is
kept apart, and says how far its answers are from those of the mixture.
"""

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import log_softmax, mse_loss

from federico import compat, rng
from federico.errors import DataError
from federico.learning.batches import to_input
from federico.learning.layout import ModelLayout
from federico.runs.personal_module import PersonalModel
from federico.runs.score import describe_figures
from federico.types import Array, FloatArray, IntArray, Task

KEPT_APART = 0.2
"""The share of the samples that says what is lost."""
FEWEST_SAMPLES = 10
BATCH = 64
"""Samples of a step."""
ANSWERED_AT_ONCE = 512
"""Samples that the mixture is asked about at a time."""


@dataclass(frozen=True, repr=False)
class Distillation:
    """How far a distilled model is from its mixture, on samples that it did not learn from."""

    samples: int
    """How many samples it was measured on."""
    difference: float
    """Classes: the mean divergence (Kullback and Leibler's) of its probabilities from the
    mixture's, in nats. Values: the root of the mean squared difference, in the units of the
    targets."""
    agreement: float | None = None
    """The share of samples for which both name the same class; None for values."""
    mixture: dict[str, float] = field(default_factory=dict)
    """What the mixture reaches on these samples, by metric, where their labels were given."""
    distilled: dict[str, float] = field(default_factory=dict)
    """What the distilled model reaches on them."""

    def __str__(self) -> str:
        found = f"differs by {self.difference:.3g} on {self.samples} samples"
        if self.agreement is not None:
            found = f"agrees on {100 * self.agreement:.1f} % of {self.samples} samples"
        if self.mixture:
            before = describe_figures(self.mixture)
            after = describe_figures(self.distilled)
            found += f"; the mixture has {before}; distilled: {after}"
        return found

    def __repr__(self) -> str:
        return f"Distillation({self})"


def divided(count: int, seed: int, client: str) -> tuple[IntArray, IntArray]:
    """The samples to learn from, and those that are kept apart."""
    if count < FEWEST_SAMPLES:
        raise DataError(f"x: {count} samples are too few to distil with: give {FEWEST_SAMPLES}")
    draw = rng.stream(seed, "distillation", client)
    order = draw.permutation(count)
    apart = round(KEPT_APART * count)
    kept_apart = np.sort(order[:apart])
    learned_from = np.sort(order[apart:])
    return learned_from, kept_apart


def distilled_row(
    mixture: PersonalModel,
    layout: ModelLayout,
    start: Tensor,
    x: Array,
    *,
    epochs: int,
    learning_rate: float,
    seed: int,
) -> Tensor:
    """The row of one model that has learned to answer as the mixture does; it begins at `start`."""
    with torch.no_grad():
        samples = torch.from_numpy(x)
        inputs = to_input(mixture.inputs(samples), layout.dtype)
        parts = [
            mixture.mixed(mixture.answers(part)) for part in torch.split(samples, ANSWERED_AT_ONCE)
        ]
        answers = torch.cat(parts).to(layout.dtype)

    row = start.clone()
    model = layout.bind(row, layout.initial_counters())
    layout.training_mode(model)
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.Adam(learned, lr=learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    orders = rng.stream(seed, "distillation order")
    with compat.seeded(rng.key(seed, "distillation dropout") % 2**63):
        for _ in range(epochs):
            order = torch.from_numpy(orders.permutation(len(x)))
            for batch in torch.split(order, BATCH):
                if len(batch) == 1:
                    continue  # batch norm cannot learn from one sample
                optimizer.zero_grad()
                loss = _loss(model(inputs[batch]), answers[batch], mixture.task)
                torch.autograd.backward(loss)
                optimizer.step()
            schedule.step()
    return row


def distance(mixture: FloatArray, distilled: FloatArray, task: Task) -> float:
    """How far the answers [samples, outputs] of one are from those of the other."""
    if task == "regression":
        squares = np.square(mixture - distilled)
        return float(np.sqrt(squares.mean()))

    # The Kullback-Leibler divergence. A probability may be 0, of which there is no logarithm.
    tiny = np.finfo(np.float64).tiny
    log_mixture = np.log(np.maximum(mixture, tiny))
    log_distilled = np.log(np.maximum(distilled, tiny))
    by_class = mixture * (log_mixture - log_distilled)
    by_sample = by_class.sum(axis=1)
    return float(by_sample.mean())


def _loss(outputs: Tensor, answers: Tensor, task: Task) -> Tensor:
    if task == "regression":
        return mse_loss(outputs, answers)
    return -(answers * log_softmax(outputs, dim=-1)).sum(-1).mean()
