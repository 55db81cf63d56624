"""Peers distributed over the ranks of an MPI job, which send each other rows as flat buffers."""

import os
import sys
import time
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from federico.errors import FedericoError, MissingDependencyError
from federico.exchange.processes import ProcessGroup, SingleProcess
from federico.exchange.protocol import (
    COEFFICIENT_BYTES,
    Exchange,
    Hosting,
    Traffic,
    Updates,
    without_withheld,
)
from federico.learning.bank import Bank
from federico.learning.rows import Rows
from federico.learning.visits import Visits
from federico.types import IntArray

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

T = TypeVar("T")
PATIENCE = 10.0
"""Seconds that other ranks wait before they print an error: most errors occur in all ranks, and one
message, that of the first rank, is enough."""
LAST_WORDS = 1.0
"""Seconds that the launcher gets to print a message before the job ends; what it has not printed by
then is lost."""
LAUNCHERS = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS")
"""Variables that mpiexec and srun set for the processes they start: without them, MPI is not loaded
at all."""


def team() -> ProcessGroup:
    """The ranks of the MPI job this process is part of, or this process alone."""
    sizes = [int(os.environ.get(name, "1")) for name in LAUNCHERS]
    if max(sizes) <= 1:
        return SingleProcess()

    try:
        from mpi4py import MPI
    except ImportError as error:
        raise MissingDependencyError(
            "running under mpiexec needs MPI: pip install 'federico[mpi]'"
        ) from error
    return MpiProcessGroup(MPI.COMM_WORLD)


class MpiProcessGroup:
    """The ranks of a communicator."""

    def __init__(self, comm: "Intracomm") -> None:
        from mpi4py import MPI

        self._comm = comm
        self.rank = comm.Get_rank()
        self.ranks = comm.Get_size()
        same_machine = comm.Split_type(MPI.COMM_TYPE_SHARED)
        self.processes_here = same_machine.Get_size()

    def connect(self, hosting: Hosting, bank: Bank, participants: int) -> Exchange:
        """See `ProcessGroup.connect`: rows travel between ranks."""
        return MpiExchange(bank, participants, hosting, self._comm)

    def gather(self, value: T) -> list[T]:
        """See `ProcessGroup.gather`. Values are pickled, as the ranks of a job trust each other."""
        return self._comm.gather(value) or []

    def assemble(self, state: dict[str, Tensor]) -> dict[str, Tensor]:
        """See `ProcessGroup.assemble`."""
        assembled: dict[str, Tensor] = {}
        for key, tensor in state.items():
            assembled[key] = self._end_to_end(tensor.contiguous())
        return assembled

    def broadcast(self, value: T) -> T:
        """See `ProcessGroup.broadcast`."""
        return cast(T, self._comm.bcast(value))

    def wait(self) -> None:
        """See `ProcessGroup.wait`."""
        self._comm.Barrier()

    def give_up(self, error: BaseException) -> None:
        """See `ProcessGroup.give_up`."""
        if self.rank > 0:
            time.sleep(PATIENCE)
        if isinstance(error, FedericoError):
            code = error.exit_code
            lines = [f"error: {line}\n" for line in str(error).splitlines()]
            message = "".join(lines)
        else:
            code = 1
            message = traceback.format_exc()

        sys.stderr.write(message)
        sys.stderr.flush()
        time.sleep(LAST_WORDS)
        self._comm.Abort(code)
        os._exit(code)  # in case Abort returns

    def _end_to_end(self, mine: Tensor) -> Tensor:
        """The tensors of all ranks end to end, at the first rank; an empty one elsewhere."""
        # All of it goes to the first rank, and nothing to the others.
        nothing = mine[:0]
        parts = [nothing] * self.ranks
        parts[0] = mine
        assembled, _ = swap(self._comm, parts)
        return assembled


class MpiExchange:
    """Carries models and updates between ranks.

    All ranks call pull, push and collect together: a rank that needs nothing still answers others.
    """

    def __init__(
        self,
        bank: Bank,
        participants: int,
        hosting: Hosting,
        comm: "Intracomm",
    ) -> None:
        """`participants`: the clients, and whatever else owns a model."""
        self.traffic = Traffic(participants)
        self._bank = bank
        self._hosting = hosting
        self._comm = comm
        self._model_bytes = bank.row_layout.size * bank.rows.element_size()
        self._arrived: Updates | None = None
        self._withheld: IntArray = np.empty(0, np.int64)

    def withhold(self, owners: IntArray) -> None:
        """See `Exchange.withhold`: every rank tells all others."""
        by_rank = self._comm.allgather(owners)
        self._withheld = np.concatenate(by_rank)

    def pull(self, round_index: int, wanted: Visits) -> Visits:
        """The round-start models of all wanted owners become visiting rows of this bank."""
        wanted = without_withheld(wanted, self._withheld)
        self.traffic.count(wanted.owners, wanted.clients, self._model_bytes)
        return self._bring(wanted)

    def read_models(self, round_index: int, visits: Visits) -> Visits:
        """The models of these visits become visiting rows of this bank, to be measured."""
        visits = without_withheld(visits, self._withheld)
        self.traffic.count(visits.owners, visits.clients, self._model_bytes, "evaluation")
        return self._bring(visits)

    def push(self, round_index: int, updates: Updates) -> None:
        """Send each update to the rank that hosts its owner; those of owners hosted here stay."""
        size = self._model_bytes + COEFFICIENT_BYTES
        self.traffic.count(updates.contributors, updates.owners, size)

        # What goes to one rank must lie side by side.
        hosts = self._hosting.hosts(updates.owners)
        order = np.argsort(hosts, kind="stable")
        hosts = hosts[order]

        pairs = np.stack([updates.owners, updates.contributors], axis=1)  # [updates, 2]
        arrived_pairs = self._send(torch.from_numpy(pairs[order]), hosts)
        coefficients = self._send(torch.from_numpy(updates.coefficients[order]), hosts)

        positions = torch.from_numpy(order)
        rows = self._send(updates.rows.as_tensor()[positions], hosts)

        owners = arrived_pairs[:, 0].numpy()
        contributors = arrived_pairs[:, 1].numpy()
        self._arrived = Updates(owners, contributors, coefficients.numpy(), Rows.of(rows))

    def collect(self, round_index: int) -> Updates:
        """The updates that have arrived, in an order that does not depend on ranks."""
        assert self._arrived is not None, "collect comes after push"
        updates = self._arrived
        self._arrived = None
        order = np.lexsort((updates.contributors, updates.owners))
        return updates.take(order)

    def _bring(self, visits: Visits) -> Visits:
        """Request the models of these owners from the ranks that host them, and answer others."""
        owners = np.unique(visits.owners)
        hosts = self._hosting.hosts(owners)
        elsewhere = hosts != self._hosting.rank
        owners = owners[elsewhere]
        hosts = hosts[elsewhere]

        # What goes to one rank must lie side by side.
        order = np.argsort(hosts, kind="stable")
        owners = owners[order]
        hosts = hosts[order]

        # Each rank tells every other which models it needs from there.
        requests = self._by_rank(torch.from_numpy(owners), hosts)
        requested, counts = swap(self._comm, requests)

        # Copied before visiting rows are replaced, which may move the bank's rows.
        places = self._bank.places(requested.numpy())
        answers = self._bank.rows[places]  # [requested, size]

        # Answers arrive in the order of the requests, which is that of the visiting rows.
        visiting = self._bank.replace_visiting_rows(owners)
        swap(self._comm, torch.split(answers, counts), out=visiting)
        return visits

    def _send(self, column: Tensor, hosts: IntArray) -> Tensor:
        """Send entry k to rank hosts[k], where hosts are sorted; returns what has arrived here."""
        arrived, _ = swap(self._comm, self._by_rank(column, hosts))
        return arrived

    def _by_rank(self, column: Tensor, hosts: IntArray) -> Sequence[Tensor]:
        """Split the entries by the rank they go to; `hosts`, the rank of each, is sorted."""
        counts = np.bincount(hosts, minlength=self._hosting.ranks)
        return torch.split(column, counts.tolist())


def swap(
    comm: "Intracomm", parts: Sequence[Tensor], out: Tensor | None = None
) -> tuple[Tensor, list[int]]:
    """Send parts[r] to rank r, and receive from every rank.

    Returns what all ranks have sent here, end to end in `out` or a new tensor, and the number of
    entries from each.
    """
    from mpi4py import MPI

    # Every rank first learns how much it will receive.
    sent = np.array([len(part) for part in parts], dtype=np.int64)
    received = np.empty_like(sent)
    comm.Alltoall(sent, received)

    outgoing = torch.cat(list(parts)).contiguous()
    entry_shape = outgoing.shape[1:]
    incoming = out
    if incoming is None:
        count = int(received.sum())
        incoming = outgoing.new_empty((count, *entry_shape))

    # Counted in entries, not in bytes: the bytes of a bank may exceed MPI's 32-bit counts.
    entry_bytes = outgoing.element_size() * int(np.prod(entry_shape))
    entry = MPI.BYTE.Create_contiguous(entry_bytes).Commit()
    sending = [outgoing.numpy(), sent, _starts(sent), entry]
    receiving = [incoming.numpy(), received, _starts(received), entry]
    comm.Alltoallv(sending, receiving)
    entry.Free()
    return incoming, received.tolist()


def _starts(counts: IntArray) -> IntArray:
    """Where each part starts if parts of these lengths lie end to end."""
    ends = np.cumsum(counts)
    return np.concatenate([[0], ends[:-1]])
