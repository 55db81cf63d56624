"""Peers dealt out over the ranks of an MPI job: rows travel as flat buffers between ranks."""

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
from federico.exchange.protocol import COEFFICIENT_BYTES, Exchange, Hosting, Traffic, Updates
from federico.learning.bank import Bank
from federico.learning.parts import ModelPart
from federico.learning.rows import Rows
from federico.learning.visits import Visits
from federico.types import IntArray

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

T = TypeVar("T")
PATIENCE = 10.0
"""Seconds that the other ranks let the first one speak: most errors meet them all, one message is
enough."""
LAST_WORDS = 1.0
"""Seconds that the launcher gets to pass a message on before the job is ended: what it still holds
then is lost."""
LAUNCHERS = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS")
"""What mpiexec and srun set for their children; looked at so that nobody else has to load MPI."""


def team() -> ProcessGroup:
    """The ranks of the MPI job this process is part of, or this process alone."""
    if all(int(os.environ.get(name, "1")) == 1 for name in LAUNCHERS):
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
        self.processes_here = comm.Split_type(MPI.COMM_TYPE_SHARED).Get_size()

    def connect(self, hosting: Hosting, part: ModelPart, bank: Bank, participants: int) -> Exchange:
        """See `ProcessGroup.connect`: rows travel between ranks."""
        return MpiExchange(bank, participants, hosting, self._comm, part)

    def gather(self, value: T) -> list[T]:
        """See `ProcessGroup.gather`. Ranks trust each other: small objects go as they are."""
        return self._comm.gather(value) or []

    def assemble(self, state: dict[str, Tensor]) -> dict[str, Tensor]:
        """See `ProcessGroup.assemble`."""
        return {key: self._end_to_end(tensor.contiguous()) for key, tensor in state.items()}

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
            message = "".join(f"error: {line}\n" for line in str(error).splitlines())
        else:
            code = 1
            message = traceback.format_exc()
        sys.stderr.write(message)
        sys.stderr.flush()
        time.sleep(LAST_WORDS)
        self._comm.Abort(code)
        os._exit(code)  # where Abort comes back, there is nothing left to do

    def _end_to_end(self, mine: Tensor) -> Tensor:
        """All ranks' tensors, at the first."""
        nothing = mine[:0]
        parts = [mine] + [nothing] * (self.ranks - 1)
        assembled, _ = swap(self._comm, parts)
        return assembled


class MpiExchange:
    """All ranks pull, push and collect together.

    One that has nothing to ask still answers others.
    """

    def __init__(
        self,
        bank: Bank,
        participants: int,
        hosting: Hosting,
        comm: "Intracomm",
        part: ModelPart | None = None,
    ) -> None:
        """`participants`: the clients, and whatever else owns a model; `part`: what is carried."""
        self.traffic = Traffic(participants)
        self._bank = bank
        self._hosting = hosting
        self._comm = comm
        self._part = part or ModelPart.whole(bank.layout)
        self._is_whole = self._part == ModelPart.whole(bank.layout)
        self._model_bytes = self._part.size * bank.rows.element_size()
        self._arrived: Updates | None = None

    def pull(self, round_index: int, wanted: Visits) -> Visits:
        """The round-start models of all wanted owners become visiting rows of this bank."""
        self.traffic.count(wanted.owners, wanted.clients, self._model_bytes)
        return self._bring(wanted)

    def read_models(self, round_index: int, visits: Visits) -> Visits:
        """The models of these visits become visiting rows of this bank, to be measured."""
        self.traffic.count(visits.owners, visits.clients, self._model_bytes, "evaluation")
        return self._bring(visits)

    def push(self, round_index: int, updates: Updates) -> None:
        """Send each update to the rank that hosts its owner; those of owners hosted here stay."""
        size = self._model_bytes + COEFFICIENT_BYTES
        self.traffic.count(updates.contributors, updates.owners, size)

        hosts = self._hosting.hosts(updates.owners)
        order = np.argsort(hosts, kind="stable")
        hosts = hosts[order]
        positions = torch.from_numpy(order)

        owners_and_contributors = np.stack([updates.owners, updates.contributors], axis=1)
        pairs = self._send(torch.from_numpy(owners_and_contributors)[positions], hosts)
        coefficients = self._send(torch.from_numpy(updates.coefficients)[positions], hosts)
        rows = self._send_rows(updates.rows.as_tensor()[positions], hosts)
        self._arrived = Updates(
            pairs[:, 0].numpy(), pairs[:, 1].numpy(), coefficients.numpy(), Rows.of(rows)
        )

    def collect(self, round_index: int) -> Updates:
        """What has arrived, in the order that does not depend on ranks."""
        assert self._arrived is not None, "collect comes after push"
        updates = self._arrived
        self._arrived = None
        return updates.take(np.lexsort((updates.contributors, updates.owners)))

    def _bring(self, visits: Visits) -> Visits:
        """Ask the hosts of these owners for their rows, and answer what others ask."""
        owners = np.unique(visits.owners)
        hosts = self._hosting.hosts(owners)
        elsewhere = hosts != self._hosting.rank
        owners = owners[elsewhere]
        hosts = hosts[elsewhere]
        order = np.argsort(hosts, kind="stable")
        owners = owners[order]

        asked, counts = swap(self._comm, self._by_rank(torch.from_numpy(owners), hosts[order]))
        answers = self._bank.rows[self._bank.places(asked.numpy())]
        visiting = self._bank.replace_visiting_rows(owners)
        if self._is_whole:
            swap(self._comm, torch.split(answers, counts), out=visiting)
        else:
            narrow, _ = swap(self._comm, torch.split(self._part.cut(answers), counts))
            self._part.paste(narrow, visiting)
        return visits

    def _send(self, column: Tensor, hosts: IntArray) -> Tensor:
        """Send each entry to its host, in ascending order of hosts; returns what has come here."""
        arrived, _ = swap(self._comm, self._by_rank(column, hosts))
        return arrived

    def _send_rows(self, rows: Tensor, hosts: IntArray) -> Tensor:
        """The same for rows, of which only the part that is carried travels; the rest is zero."""
        if self._is_whole:
            return self._send(rows, hosts)
        narrow = self._send(self._part.cut(rows), hosts)
        arrived = rows.new_zeros(len(narrow), rows.shape[1])
        self._part.paste(narrow, arrived)
        return arrived

    def _by_rank(self, column: Tensor, hosts: IntArray) -> Sequence[Tensor]:
        counts = np.bincount(hosts, minlength=self._hosting.ranks)
        return torch.split(column, counts.tolist())


def swap(
    comm: "Intracomm", parts: Sequence[Tensor], out: Tensor | None = None
) -> tuple[Tensor, list[int]]:
    """Send parts[r] to rank r; returns what all ranks sent here, end to end, and how much each."""
    from mpi4py import MPI

    sent = np.array([len(part) for part in parts], dtype=np.int64)
    came = np.empty_like(sent)
    comm.Alltoall(sent, came)

    outgoing = torch.cat(list(parts)).contiguous()
    incoming = out
    if incoming is None:
        incoming = outgoing.new_empty((int(came.sum()), *outgoing.shape[1:]))

    # Counted in rows, not in bytes: a bank may be larger than an int can say.
    row_bytes = outgoing.element_size() * int(np.prod(outgoing.shape[1:]))
    row = MPI.BYTE.Create_contiguous(row_bytes).Commit()
    comm.Alltoallv(
        [outgoing.numpy(), sent, _starts(sent), row], [incoming.numpy(), came, _starts(came), row]
    )
    row.Free()
    return incoming, came.tolist()


def _starts(counts: IntArray) -> IntArray:
    """Where each part begins in what is laid end to end."""
    return np.concatenate([[0], np.cumsum(counts)[:-1]])
