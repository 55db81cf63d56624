"""Long runs and real processes: what takes a while to go wrong."""

import gc
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from socket import socket

import pytest
import torch
import zenoh
from torch import nn

from federico.learning.layout import ModelLayout
from federico.learning.rows import Rows
from federico.methods.averaging import average_into
from federico.network.identity import Addresses, Identity
from federico.network.roster import Roster
from federico.network.session import close
from tests.support.neighborhood import (
    DIGEST,
    PATIENT,
    Neighbor,
    connect,
    eventually,
    free_port,
    join,
    names,
    signers_of,
    write_identity,
)
from tests.support.proxy import Proxy

pytestmark = pytest.mark.slow
ROSTER = Roster("test", DIGEST, names(2))
SIDE = 1500
MODEL = ModelLayout(lambda: nn.Linear(SIDE, SIDE))
BYTES = 4 * SIDE * (SIDE + 1)
LIMITS = PATIENT.model_copy(update={"patience": 3.0, "chunk_bytes": 1 << 16})


def resident() -> int:
    """Bytes of this process."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_two_hundred_rounds_without_growth(authority, bus: zenoh.Session) -> None:
    held = []
    # Zenoh holds some bytes of every request until its time is over, answered or not.
    limits = PATIENT.model_copy(update={"patience": 2.0})
    peers = join(MODEL, [bus] * 2, signers_of(authority, names(2)), limits, lockstep=False)
    # Made once: how the heap keeps what is freed is not what is measured.
    rows = torch.full((2, MODEL.size), 1e-3)
    for round_index in range(1, 201):
        for peer in peers:
            peer.reads(round_index - 1, peer.number)
            other = 1 - peer.number
            has_started = round_index > 1 or other < peer.number
            came = peer.pulls(round_index, other) if has_started else []
            owners = [peer.number, *came]
            peer.push_rows(round_index, owners, Rows.of(rows[: len(owners)]))
            average_into(peer.bank, peer.exchange.collect(round_index))
            peer.reads(round_index, peer.number)
        held.append(resident())
    for peer in peers:
        peer.exchange.close()
    assert min(held[150:]) - min(held[50:100]) < BYTES / 3, [size >> 20 for size in held]


def own(identity: Identity, port: int, orders: Connection) -> None:
    """An owner in a process of its own, which publishes a new model whenever it is told to."""
    owner, _ = connect(identity, Addresses(listen=[f"127.0.0.1:{port}"]), ROSTER, MODEL, LIMITS)
    round_index = 0
    while orders.recv():
        owner.exchange.collect(round_index)
        owner.own_row.add_(1e-3)
        round_index += 1
        owner.publish(round_index)
        orders.send(owner.own_row[0].item())


@dataclass
class Pair:
    """A visitor here, an owner in another process, and the line between them."""

    visitor: Neighbor
    owner: BaseProcess
    proxy: Proxy
    orders: Connection

    def publish(self) -> float:
        """Have the owner publish a new model; returns its first number."""
        self.orders.send(True)
        return self.orders.recv()

    def first_number(self) -> float:
        """Of the visitor's copy."""
        return self.visitor.row_of(0)[0].item()


Open = Callable[..., Pair]


@pytest.fixture
def pair(authority, tmp_path: Path) -> Iterator[Open]:
    with ExitStack() as leaving:

        def start(**limits: float) -> Pair:
            here, there = [write_identity(authority, tmp_path, name) for name in ROSTER.members][
                ::-1
            ]
            spawn, port = multiprocessing.get_context("spawn"), free_port()
            orders, ends = spawn.Pipe()
            owner = spawn.Process(target=own, args=(there, port, ends), daemon=True)
            owner.start()
            leaving.callback(owner.join)
            leaving.callback(owner.kill)
            wait_for_port(port)
            proxy = Proxy(port)
            leaving.callback(proxy.close)
            addresses = Addresses(connect=[f"127.0.0.1:{proxy.port}"])
            agreed = LIMITS.model_copy(update=limits)
            visitor, session = connect(here, addresses, ROSTER, MODEL, agreed)
            leaving.callback(close, session)
            leaving.callback(visitor.exchange.close)
            assert visitor.exchange.presence.wait(ROSTER.members, 120)
            return Pair(visitor, owner, proxy, orders)

        yield start


def wait_for_port(port: int) -> None:
    def listens() -> bool:
        with socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    eventually(listens)


@pytest.mark.parametrize("seconds", [2.0, 10.0], ids=["shorter than the lease", "longer"])
def test_a_transfer_resumes_when_a_frozen_owner_wakes_up(pair: Open, seconds: float) -> None:
    peers = pair(patience=60.0)
    truth = peers.publish()

    def freeze() -> None:
        os.kill(peers.owner.pid, signal.SIGSTOP)
        threading.Timer(seconds, os.kill, (peers.owner.pid, signal.SIGCONT)).start()

    peers.proxy.arm(BYTES // 5, freeze)
    assert peers.visitor.pulls(1, 0) == [0]
    assert peers.first_number() == truth


def test_one_that_never_wakes_up_is_left_out_and_taken_back(pair: Open) -> None:
    peers = pair()
    peers.publish()
    os.kill(peers.owner.pid, signal.SIGSTOP)
    assert peers.visitor.pulls(1, 0) == []
    os.kill(peers.owner.pid, signal.SIGCONT)
    assert peers.visitor.exchange.presence.wait(ROSTER.members, 120)
    truth = peers.publish()
    assert peers.visitor.pulls(2, 0) == [0]
    assert peers.first_number() == truth


def test_one_killed_while_it_sends_leaves_nothing_behind(pair: Open) -> None:
    peers = pair(patience=60.0, grace=1.0)
    peers.publish()
    peers.proxy.arm(BYTES // 5, peers.owner.kill)
    begun = time.monotonic()
    assert peers.visitor.pulls(1, 0) == []
    assert time.monotonic() - begun < 15, "whoever has ended is not waited for"
    assert peers.visitor.bank.visiting_places == {}
    assert peers.visitor.reads(0, 0, 1) == [1]
