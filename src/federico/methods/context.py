"""What a method gets to work with."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from federico.exchange.protocol import Exchange, Hosting
from federico.learning.bank import Bank
from federico.learning.learner import Learner
from federico.learning.privacy import Floor
from federico.methods.model_owners import ModelOwner
from federico.stopwatch import Stopwatch
from federico.types import IntArray


@dataclass(frozen=True)
class MethodContext:
    """The clients of a run, their models, and the means to train and to exchange them."""

    names: tuple[str, ...]
    """The clients' names; the number of a client is its place here."""
    models: tuple[ModelOwner, ...]
    """All models of the method, in whichever process they are."""
    learner: Learner
    bank: Bank
    """The models that this process hosts, and behind them those that the exchange has brought."""
    exchange: Exchange
    hosting: Hosting
    seed: int
    rounds: int
    """How many rounds there are going to be; a run that is resumed may be given more."""
    local_epochs: int = 1
    floor: Floor = field(default_factory=Floor)
    """Which clients have too few samples to send anything."""
    clock: Stopwatch = field(default_factory=Stopwatch)

    @property
    def count(self) -> int:
        """K, the number of clients."""
        return len(self.names)

    @property
    def hosted(self) -> IntArray:
        """The clients that this process acts for: all of them, unless several share the work."""
        return self.hosting.hosted


class HasContext(Protocol):
    """Anything that works in a context."""

    @property
    def context(self) -> MethodContext:
        """What it works with."""


S = TypeVar("S", bound=HasContext)
P = ParamSpec("P")
T = TypeVar("T")


def timed(
    phase: str,
) -> Callable[[Callable[Concatenate[S, P], T]], Callable[Concatenate[S, P], T]]:
    """Decorates a step of a round: the seconds it takes are reported under this phase."""

    def decorate(step: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
        @wraps(step)
        def measured(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
            with self.context.clock(phase):
                return step(self, *args, **kwargs)

        return measured

    return decorate
