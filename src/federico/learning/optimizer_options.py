"""The optimizers that a file can name.

They are read without torch, which is imported where a step is taken.
"""

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, PositiveFloat

from federico.options import Options

if TYPE_CHECKING:
    from torch import Tensor

    from federico.learning.optimizers import PairStates


class Adam(Options):
    """Adam, the paper's optimizer."""

    kind: Literal["adam"] = "adam"
    learning_rate: PositiveFloat = 0.01
    """Step size."""
    beta1: float = Field(default=0.9, ge=0, lt=1)
    """Decay of the mean of gradients."""
    beta2: float = Field(default=0.999, ge=0, lt=1)
    """Decay of the mean of squared gradients."""
    eps: PositiveFloat = 1e-8
    """Added to the root of the second moment."""

    @property
    def moments(self) -> int:
        """Two: the mean of gradients and that of their squares."""
        return 2

    def step(
        self,
        parameters: "list[Tensor]",
        gradients: "list[Tensor]",
        states: "PairStates",
        factor: float = 1.0,
    ) -> None:
        """See `Optimizer.step`."""
        from federico import compat

        means, squares = states.moments
        compat.adam_step(
            parameters,
            gradients,
            means,
            squares,
            states.steps,
            learning_rate=self.learning_rate * factor,
            beta1=self.beta1,
            beta2=self.beta2,
            eps=self.eps,
        )


class SGD(Options):
    """Stochastic gradient descent, with momentum if wanted."""

    kind: Literal["sgd"] = "sgd"
    learning_rate: PositiveFloat = 0.1
    """Step size."""
    momentum: float = Field(default=0.0, ge=0, lt=1)
    """Weight of past gradients."""

    @property
    def moments(self) -> int:
        """One, the velocity, if there is momentum."""
        return 1 if self.momentum else 0

    def step(
        self,
        parameters: "list[Tensor]",
        gradients: "list[Tensor]",
        states: "PairStates",
        factor: float = 1.0,
    ) -> None:
        """See `Optimizer.step`."""
        from torch.optim.sgd import sgd

        from federico import compat

        compat.add_one(states.steps)
        velocities: list[Tensor | None] = [None] * len(parameters)
        if states.moments:
            velocities = [*states.moments[0]]
        sgd(
            parameters,
            gradients,
            velocities,
            foreach=True,
            weight_decay=0.0,
            momentum=self.momentum,
            lr=self.learning_rate * factor,
            dampening=0.0,
            nesterov=False,
            maximize=False,
        )


OptimizerOptions = Annotated[Adam | SGD, Field(discriminator="kind")]
