"""Every fault in every phase between real processes on a real line: whole or not at all, and nobody waits for ever."""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from enum import Enum, auto
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from federico.exchange.protocol import Updates
from federico.learning.layout import ModelLayout
from federico.learning.rows import Rows
from federico.learning.visits import Visits
from federico.network.exchange import NetworkExchange
from federico.network.limits import Limits
from federico.network.roster import Roster
from federico.network.session import Addresses, Identity, close, open_session
from federico.network.wire.signing import Signer
from tests.support.neighborhood import DIGEST, bank_of, free_port, names
from tests.support.proxy import Proxy

pytestmark = pytest.mark.slow
ROSTER = Roster("test", DIGEST, names(2))
SIDE = 1500
BYTES = 4 * SIDE * (SIDE + 1)
DEADLINE = 20.0
LIMITS = Limits(
    deadline=DEADLINE, patience=3.0, grace=2.0, clip=1e9, refuse=1e9, chunk_bytes=1 << 16
)
SENT = torch.linspace(-1, 1, SIDE * (SIDE + 1))


class Fault(Enum):
    """What goes wrong, and whether the transfer must come through all the same."""

    BEFORE = auto()
    """The owner is killed before anything is asked."""
    MIDWAY = auto()
    """The owner is killed in the middle: while it sends its model, or while it receives an update."""
    SLOW = auto()
    """The line takes more than ten times as long."""
    CUT = auto()
    """The connection ends in the middle of a chunk; one may dial again."""
    HALF_OPEN = auto()
    """Nothing passes any more, and nobody is told."""
    NINE_SECONDS = auto()
    """Nothing passes for so long: both sides give the connection up, and dial again."""
    FROZEN = auto()
    """The owner stops for two seconds, then goes on."""


HEALS = {Fault.SLOW, Fault.CUT, Fault.NINE_SECONDS, Fault.FROZEN}


def connected(identity: Identity, addresses: Addresses) -> NetworkExchange:
    session = open_session(identity, addresses, ROSTER)
    seal = Signer(
        *(path.read_bytes() for path in (identity.certificate, identity.key, identity.authority))
    )
    bank = bank_of(ModelLayout(lambda: nn.Linear(SIDE, SIDE)), ROSTER.members.index(identity.name))
    return NetworkExchange(
        bank, 2, session=session, roster=ROSTER, me=identity.name, seal=seal, limits=LIMITS
    )


def own(identity: Identity, port: int, orders: Connection) -> None:
    """The owner: gives its model as it is, and when asked whether each update that came is the one that was sent."""
    peer = connected(identity, Addresses(listen=[f"127.0.0.1:{port}"]))
    peer.pull(Visits.of([]))
    orders.send(peer._bank.hosted_rows[0].numpy().tobytes())
    while orders.recv():
        orders.send([torch.equal(row, SENT) for row in peer.collect().rows])


class Line:
    """An owner in another process, behind a proxy, and a visitor here."""

    def __init__(self, identities: list[Identity]) -> None:
        spawn, port = multiprocessing.get_context("spawn"), free_port()
        self.orders, there = spawn.Pipe()
        self.owner = spawn.Process(target=own, args=(identities[0], port, there), daemon=True)
        self.owner.start()
        self.truth = np.frombuffer(self.orders.recv(), np.float32)
        self.proxy = Proxy(port)
        self.visitor = connected(identities[1], Addresses(connect=[f"127.0.0.1:{self.proxy.port}"]))
        assert self.visitor.presence.wait(ROSTER.members, 60)

    def spoil(self, fault: Fault) -> None:
        """Make it happen: now, or with a third of a model on its way."""
        match fault:
            case Fault.BEFORE:
                self.owner.kill()
                self.owner.join()
            case Fault.MIDWAY:
                self.proxy.arm(BYTES // 3, self.owner.kill)
            case Fault.SLOW:
                self.proxy.delay = 0.02
            case Fault.CUT:
                self.proxy.arm(BYTES // 3, self.proxy.cut)
            case Fault.HALF_OPEN:
                self.proxy.arm(BYTES // 3, self.proxy.halt)
            case Fault.NINE_SECONDS:
                self.proxy.arm(BYTES // 3, lambda: self.proxy.pause(9.0))
            case Fault.FROZEN:
                self.proxy.arm(BYTES // 3, self.freeze)

    def freeze(self) -> None:
        assert self.owner.pid is not None
        os.kill(self.owner.pid, signal.SIGSTOP)
        threading.Timer(2.0, os.kill, (self.owner.pid, signal.SIGCONT)).start()

    def pull(self) -> bool:
        """Whether the model came; if it did, it is the owner's to the last byte."""
        came = self.visitor.pull(Visits.of([(1, 0)]))
        bank = self.visitor._bank
        if len(came):
            assert np.array_equal(bank.rows[bank.places(np.array([0]))[0]].numpy(), self.truth)
        else:
            assert 0 not in bank.visiting_places
        return bool(len(came))

    def push(self) -> None:
        self.visitor.push(Updates(np.array([0]), np.array([1]), np.ones(1), Rows.of(SENT[None])))

    def arrived(self) -> list[bool]:
        """Of each update at the owner, whether it is what was sent; nothing if there is no owner any more."""
        if not self.owner.is_alive():
            return []
        self.orders.send(True)
        came: list[bool] = self.orders.recv()
        return came


@pytest.fixture
def line(authority, tmp_path: Path) -> Iterator[Line]:
    identities = []
    for name in ROSTER.members:
        paths = [tmp_path / f"{name}.{kind}" for kind in ("pem", "key", "ca")]
        for path, content in zip(paths, (*authority.issue(name), authority.pem), strict=True):
            path.write_bytes(content)
        identities.append(Identity(name, *paths))
    line = Line(identities)
    yield line
    line.proxy.close()
    line.owner.kill()
    line.owner.join()
    line.visitor.close()
    close(line.visitor._line._session)


@pytest.mark.parametrize("fault", Fault)
def test_while_a_model_is_pulled(line: Line, fault: Fault) -> None:
    line.spoil(fault)
    begun = time.monotonic()
    came = line.pull()
    assert time.monotonic() - begun < DEADLINE + 2
    assert came is (fault in HEALS)
    assert line.visitor.read_models(Visits.of([(1, 0), (1, 1)])).pairs == (
        [(1, 0), (1, 1)] if came else [(1, 1)]
    )


@pytest.mark.parametrize("fault", Fault)
def test_while_an_update_is_pushed(line: Line, fault: Fault) -> None:
    assert line.pull()
    line.spoil(fault)
    begun = time.monotonic()
    line.push()
    assert time.monotonic() - begun < DEADLINE + 2
    assert line.arrived() == ([True] if fault in HEALS else [])
