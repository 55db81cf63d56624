"""Learning-rate schedules: by how much the optimizer's step size is multiplied in a round.

A schedule is a function of the round alone. So a run that is resumed, or given more rounds, or
divided among processes, takes the same steps.
"""

from math import cos, pi
from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from federico.options import Options


class WarmUp(Options):
    """What all schedules have in common: a slow start, if wanted."""

    warmup: NonNegativeInt = 0
    """Rounds in which the learning rate rises, in equal steps, to where the schedule starts."""

    def factor(self, round_index: int) -> float:
        """What the learning rate is multiplied by in this round, the first of which is 1."""
        if round_index <= self.warmup:
            return round_index / (self.warmup + 1)
        return self.after(round_index - self.warmup - 1)

    def after(self, rounds: int) -> float:
        """The factor when this many rounds have been played since the learning rate was highest."""
        raise NotImplementedError


class Constant(WarmUp):
    """The learning rate stays as it is."""

    kind: Literal["constant"] = "constant"

    def after(self, rounds: int) -> float:
        """See `WarmUp.after`."""
        return 1.0


class Cosine(WarmUp):
    """The learning rate falls along half a cosine, then stays."""

    kind: Literal["cosine"]
    rounds: PositiveInt
    """Rounds until the learning rate has fallen to `final`, counted after the warm-up."""
    final: float = Field(default=0.0, ge=0, le=1)
    """What is left of the learning rate then: 0.1 is a tenth."""

    def after(self, rounds: int) -> float:
        """See `WarmUp.after`."""
        progress = min(1.0, rounds / self.rounds)
        fallen = (1 - cos(pi * progress)) / 2
        return 1 - fallen * (1 - self.final)


class Step(WarmUp):
    """The learning rate is multiplied by the same number each time this many rounds have passed."""

    kind: Literal["step"]
    every: PositiveInt
    """Rounds between two steps, counted after the warm-up."""
    by: float = Field(default=0.1, gt=0, lt=1)
    """What the learning rate is multiplied by at each step."""

    def after(self, rounds: int) -> float:
        """See `WarmUp.after`."""
        steps = rounds // self.every
        return self.by**steps


Schedule = Annotated[Constant | Cosine | Step, Field(discriminator="kind")]
