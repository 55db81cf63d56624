"""How models are trained on clients' data: for how long, on what, pulled where, step by step."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from federico.learning.batches import Subset
from federico.learning.optimizers import Optimizer, PairStates
from federico.learning.parts import ModelPart
from federico.learning.training_rules import TrainingRules
from federico.learning.workers import Workspace
from federico.types import FloatArray, IntArray


@dataclass(frozen=True)
class Proximal:
    """Pulls training towards other models, as FedProx, Ditto and pFedMe do.

    Every step's gradient gets strength * (parameters - towards) added, the slope of strength / 2
    times the squared distance. Buffers such as batch-norm statistics are left alone.
    """

    strength: float
    towards: Tensor
    """A row for each visit, [visits, size]."""

    def take(self, positions: IntArray) -> "Proximal":
        """The proximal terms of the visits at these positions."""
        index = torch.from_numpy(positions).to(self.towards.device)
        towards = self.towards.index_select(0, index)
        return Proximal(self.strength, towards)

    def add_to(self, gradients: Tensor, parameters: Tensor, shared: ModelPart) -> None:
        """Add the proximal term of the first visits to their gradients, in place.

        `gradients` and `parameters` are [visits, parameters]; `shared` says which columns of a
        whole model `towards` has.
        """
        visits, size = parameters.shape
        first = 0
        for columns in shared.slices:
            width = columns.stop - columns.start
            some = slice(columns.start, min(columns.stop, size))
            there = parameters[:, some]
            towards = self.towards[:visits, first : first + there.shape[1]]
            gradients[:, some].add_(there - towards, alpha=self.strength)
            first += width


@dataclass(frozen=True)
class LocalTraining:
    """How each visit of one call of `train` is trained."""

    round_index: int
    epochs: int
    subset: Subset
    sample_weights: FloatArray | None
    proximal: Proximal | None
    shared: ModelPart
    """Which columns of a whole model are exchanged, and have something to be pulled to."""

    def take(self, positions: IntArray) -> "LocalTraining":
        """The training of the visits at these positions."""
        sample_weights = self.sample_weights
        if sample_weights is not None:
            sample_weights = sample_weights[positions]

        proximal = self.proximal
        if proximal is not None:
            proximal = proximal.take(positions)
        return replace(self, sample_weights=sample_weights, proximal=proximal)


class ModelsInTraining:
    """The models of one stack in its workspace, and the optimizer that moves them."""

    def __init__(
        self,
        workspace: Workspace,
        count: int,
        parameters: int,
        optimizer: Optimizer,
        rules: TrainingRules,
        states: PairStates,
        training: LocalTraining,
    ) -> None:
        """The first `count` models in the workspace, with this many parameters each."""
        self._work = workspace.work[:count, :parameters]  # [visits, parameters]
        self._grad = workspace.grad[:count, :parameters]  # [visits, parameters]

        # Views of the rows, made once for all steps.
        self._parameters = list(self._work.unbind())
        self.gradients = list(self._grad.unbind())

        self._rules = rules
        self._optimizer = optimizer
        self._states = states
        self._training = training
        self._factor = rules.schedule.factor(training.round_index)
        self._rate = optimizer.learning_rate * self._factor

    def step(self, active: int) -> None:
        """One optimizer step of the first `active` models, with the gradients as they are now."""
        work = self._work[:active]
        grad = self._grad[:active]
        if self._training.proximal is not None:
            self._training.proximal.add_to(grad, work, self._training.shared)
        self._rules.prepare_step(work, grad, self._rate)

        parameters = self._parameters[:active]
        gradients = self.gradients[:active]
        self._optimizer.step(parameters, gradients, self._states.first(active), self._factor)
