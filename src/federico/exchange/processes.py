"""The processes that run one experiment together: usually one, alone."""

from typing import Protocol, TypeVar

from torch import Tensor

from federico.exchange.protocol import Exchange, Hosting
from federico.exchange.simulated import SimulatedExchange
from federico.learning.bank import Bank

T = TypeVar("T")


class ProcessGroup(Protocol):
    """Processes with a rank each; the first one writes the files and talks to the user."""

    rank: int
    ranks: int
    processes_here: int
    """How many processes share this machine, this one included."""

    def connect(self, hosting: Hosting, bank: Bank, participants: int) -> Exchange:
        """The exchange that carries the models of this bank."""

    def gather(self, value: T) -> list[T]:
        """Everybody's value in order of rank, at the first; nothing elsewhere."""

    def assemble(self, state: dict[str, Tensor]) -> dict[str, Tensor]:
        """Everybody's tensors end to end, at the first; nothing elsewhere."""

    def broadcast(self, value: T) -> T:
        """The first one's value, everywhere."""

    def wait(self) -> None:
        """Until everybody has come here."""

    def give_up(self, error: BaseException) -> None:
        """Nobody can go on without this process: say why and end all of them."""


class SingleProcess:
    """One process, no messages."""

    rank = 0
    ranks = 1

    def __init__(self, processes_here: int = 1) -> None:
        """`processes_here`: processes that share this machine, each with an experiment of its own."""
        self.processes_here = processes_here

    def connect(self, hosting: Hosting, bank: Bank, participants: int) -> Exchange:
        """Everything is in memory."""
        return SimulatedExchange(bank, participants)

    def gather(self, value: T) -> list[T]:
        """My value is everybody's."""
        return [value]

    def assemble(self, state: dict[str, Tensor]) -> dict[str, Tensor]:
        """My state is everybody's."""
        return state

    def broadcast(self, value: T) -> T:
        """I am the first."""
        return value

    def wait(self) -> None:
        """Everybody is here."""

    def give_up(self, error: BaseException) -> None:
        """There is nobody else to end; the caller raises the error."""
