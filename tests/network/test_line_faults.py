"""Every fault in every phase, between real processes on a real line.

What is transferred comes whole or not at all, and nobody waits for ever.
"""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from federico.learning.layout import ModelLayout
from federico.learning.rows import Rows
from federico.network.identity import Addresses, Identity
from federico.network.limits import Limits
from federico.network.roster import Roster
from federico.network.session import close
from tests.support.faults import OF_LINES, Fault
from tests.support.neighborhood import DIGEST, connect, free_port, names, write_identity
from tests.support.proxy import Proxy

pytestmark = pytest.mark.slow
ROSTER = Roster("test", DIGEST, names(2))
SIDE = 1500
MODEL = ModelLayout(lambda: nn.Linear(SIDE, SIDE))
BYTES = 4 * SIDE * (SIDE + 1)
DEADLINE = 20.0
LIMITS = Limits(
    deadline=DEADLINE, patience=3.0, grace=2.0, clip=1e9, refuse=1e9, chunk_bytes=1 << 16
)
SENT = torch.linspace(-1, 1, SIDE * (SIDE + 1))


HEALS = {Fault.SLOW, Fault.CUT, Fault.NINE_SECONDS, Fault.FROZEN}
"""The transfer comes through all the same: one may dial again."""


def own(identity: Identity, port: int, orders: Connection) -> None:
    """The owner: serves its model, and says of each update that came if it is what was sent."""
    owner, _ = connect(identity, Addresses(listen=[f"127.0.0.1:{port}"]), ROSTER, MODEL, LIMITS)
    owner.publish(1)
    orders.send(owner.own_row.numpy().tobytes())
    while orders.recv():
        orders.send([torch.equal(row, SENT) for row in owner.exchange.collect(1).rows])


class FaultyLine:
    """An owner in another process, behind a proxy, and a visitor here."""

    def __init__(self, identities: list[Identity]) -> None:
        spawn, port = multiprocessing.get_context("spawn"), free_port()
        self.orders, there = spawn.Pipe()
        self.owner = spawn.Process(target=own, args=(identities[0], port, there), daemon=True)
        self.owner.start()
        self.truth = np.frombuffer(self.orders.recv(), np.float32)
        self.proxy = Proxy(port)
        addresses = Addresses(connect=[f"127.0.0.1:{self.proxy.port}"])
        self.visitor, self.session = connect(identities[1], addresses, ROSTER, MODEL, LIMITS)
        assert self.visitor.exchange.presence.wait(ROSTER.members, 60)

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
        came = self.visitor.pulls(1, 0)
        if came:
            assert np.array_equal(self.visitor.row_of(0).numpy(), self.truth)
        else:
            assert 0 not in self.visitor.bank.visiting_places
        return bool(came)

    def push(self) -> None:
        self.visitor.push_rows(1, [0], Rows.of(SENT[None]))

    def arrived(self) -> list[bool]:
        """Whether each update at the owner is what was sent; nothing if the owner is dead."""
        if not self.owner.is_alive():
            return []
        self.orders.send(True)
        came: list[bool] = self.orders.recv()
        return came


@pytest.fixture
def line(authority, tmp_path: Path) -> Iterator[FaultyLine]:
    identities = [write_identity(authority, tmp_path, name) for name in ROSTER.members]
    line = FaultyLine(identities)
    yield line
    line.proxy.close()
    line.owner.kill()
    line.owner.join()
    line.visitor.exchange.close()
    close(line.session)


@pytest.mark.parametrize("fault", OF_LINES)
def test_while_a_model_is_pulled(line: FaultyLine, fault: Fault) -> None:
    line.spoil(fault)
    begun = time.monotonic()
    came = line.pull()
    assert time.monotonic() - begun < DEADLINE + 2
    assert came is (fault in HEALS)
    assert line.visitor.reads(0, 0, 1) == ([0, 1] if came else [1])


@pytest.mark.parametrize("fault", OF_LINES)
def test_while_an_update_is_pushed(line: FaultyLine, fault: Fault) -> None:
    assert line.pull()
    line.spoil(fault)
    begun = time.monotonic()
    line.push()
    assert time.monotonic() - begun < DEADLINE + 2
    assert line.arrived() == ([True] if fault in HEALS else [])
