"""What a method gets to work with."""

from dataclasses import dataclass, field

from federico.exchange.protocol import Exchange, Hosting
from federico.learning.bank import Bank
from federico.learning.learner import Learner
from federico.learning.privacy_rules import Floor
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
    """`with clock("e_step"):` counts the seconds of what is inside among those of this phase."""

    @property
    def count(self) -> int:
        """K, the number of clients."""
        return len(self.names)

    @property
    def hosted(self) -> IntArray:
        """The clients that this process acts for: all of them, unless several share the work."""
        return self.hosting.hosted
