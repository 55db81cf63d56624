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
        """The exchange that carries the bank's models."""

    def gather(self, value: T) -> list[T]:
        """Everybody's value in order of rank, at the first process; an empty list elsewhere."""

    def assemble(self, state: dict[str, Tensor]) -> dict[str, Tensor]:
        """Everybody's tensors laid end to end, at the first process; empty ones elsewhere."""

    def broadcast(self, value: T) -> T:
        """The value that the first process gives, in every process."""

    def wait(self) -> None:
        """Wait until all processes have come here."""

    def give_up(self, error: BaseException) -> None:
        """Say why this process fails and end all of them: none can continue without it."""


class SingleProcess:
    """One process, no messages."""

    rank = 0
    ranks = 1

    def __init__(self, processes_here: int = 1) -> None:
        """`processes_here`: processes that share this machine, each with its own experiment."""
        self.processes_here = processes_here

    def connect(self, hosting: Hosting, bank: Bank, participants: int) -> Exchange:
        """See `ProcessGroup.connect`: all models are in memory."""
        return SimulatedExchange(bank, participants)

    def gather(self, value: T) -> list[T]:
        """See `ProcessGroup.gather`: there is one value."""
        return [value]

    def assemble(self, state: dict[str, Tensor]) -> dict[str, Tensor]:
        """See `ProcessGroup.assemble`: there is one state."""
        return state

    def broadcast(self, value: T) -> T:
        """See `ProcessGroup.broadcast`: this is the first process."""
        return value

    def wait(self) -> None:
        """See `ProcessGroup.wait`: there is nobody to wait for."""

    def give_up(self, error: BaseException) -> None:
        """See `ProcessGroup.give_up`: there is nobody else to end; the caller raises the error."""
