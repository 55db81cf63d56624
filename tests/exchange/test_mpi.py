"""MPI in one process here; several ranks are tried by tests/system/test_mpi.py."""

import numpy as np
import pytest
from mpi4py import MPI

from federico.errors import MissingDependencyError
from federico.exchange import mpi
from federico.exchange.processes import SingleProcess
from federico.exchange.protocol import Exchange, Hosting
from federico.learning.bank import Bank
from tests.support.exchange_contract import (
    Connect,
    ExchangeContract,
    PartOfModelContract,
)


def connect_alone(bank: Bank, participants: int) -> Exchange:
    """The exchange of a job with one rank."""
    return mpi.MpiExchange(bank, participants, Hosting(participants), MPI.COMM_SELF)


class TestMpiExchange(ExchangeContract, PartOfModelContract):
    @pytest.fixture
    def connect(self) -> Connect:
        return connect_alone


@pytest.mark.parametrize("ranks", [1, 2, 3, 7])
@pytest.mark.parametrize("clients", [1, 2, 5, 8])
def test_every_owner_is_hosted_once_and_clients_in_order(clients: int, ranks: int) -> None:
    hosted = [Hosting(clients, rank, ranks).hosted for rank in range(ranks)]
    assert np.concatenate(hosted).tolist() == list(range(clients))
    for rank, mine in enumerate(hosted):
        assert set(Hosting(clients, 0, ranks).hosts(mine).tolist()) <= {rank}
    assert Hosting(clients, 0, ranks).hosts(np.array([clients])).tolist() == [0], (
        "a model of nobody's is at the first"
    )


def test_without_mpiexec_one_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in mpi.LAUNCHERS:
        monkeypatch.delenv(name, raising=False)
    assert isinstance(mpi.team(), SingleProcess)


def test_mpiexec_without_mpi4py_names_the_line_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PMI_SIZE", "2")
    monkeypatch.setitem(__import__("sys").modules, "mpi4py", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'federico\[mpi\]'"):
        mpi.team()
