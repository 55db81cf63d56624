"""Long runs and real processes: what takes a while to go wrong."""

import gc
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np
import pytest
import torch
import zenoh
from torch import nn

from federico.exchange.protocol import Updates
from federico.learning.layout import ModelLayout
from federico.learning.rows import Rows
from federico.learning.visits import Visits
from federico.methods.averaging import average_into
from federico.network.exchange import NetworkExchange
from federico.network.roster import Roster
from federico.network.session import Addresses, Identity, close, open_session
from federico.network.wire.signing import Signer
from tests.support.neighborhood import DIGEST, PATIENT, bank_of, free_port, join, names, seals

pytestmark = pytest.mark.slow
ROSTER = Roster("test", DIGEST, names(2))
SIDE = 1500
BYTES = 4 * SIDE * (SIDE + 1)
LIMITS = PATIENT.model_copy(update={"patience": 3.0, "chunk_bytes": 1 << 16})


def resident() -> int:
    """Bytes of this process."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_two_hundred_rounds_without_growth(authority, bus: zenoh.Session) -> None:
    held = []
    # The engine holds some bytes of every question until its time is over, answered or not.
    limits = PATIENT.model_copy(update={"patience": 2.0})
    model = ModelLayout(lambda: nn.Linear(SIDE, SIDE))
    peers = join(model, [bus] * 2, seals(authority, names(2)), limits, lockstep=False)
    rows = torch.full(
        (2, model.size), 1e-3
    )  # made once: how the heap keeps what is freed is not what is measured
    for _ in range(200):
        for me, peer in enumerate(peers):
            other = 1 - me
            peer.read_models(Visits.of([(me, me)]))
            came = peer.pull(Visits.of([(me, other)])) if peers[other]._published else Visits.of([])
            owners = np.array([me, *came.owners])
            peer.push(
                Updates(
                    owners,
                    np.full_like(owners, me),
                    np.ones(len(owners)),
                    Rows.of(rows[: len(owners)]),
                )
            )
            average_into(peer._bank, peer.collect())
            peer.read_models(Visits.of([(me, me)]))
        held.append(resident())
    for peer in peers:
        peer.close()
    assert min(held[150:]) - min(held[50:100]) < BYTES / 3, [size >> 20 for size in held]


def own(identity: Identity, port: int, orders: Connection) -> None:
    """An owner in a process of its own, which publishes a new model whenever it is told to."""
    peer, _ = network_peer(identity, Addresses(listen=[f"127.0.0.1:{port}"]))
    while orders.recv():
        peer.collect()
        peer._bank.hosted_rows.add_(1e-3)
        peer.pull(Visits.of([]))
        orders.send(peer._bank.hosted_rows[0, 0].item())


def network_peer(identity: Identity, addresses: Addresses) -> tuple[NetworkExchange, object]:
    session = open_session(identity, addresses, ROSTER)
    seal = Signer(
        *(path.read_bytes() for path in (identity.certificate, identity.key, identity.authority))
    )
    bank = bank_of(ModelLayout(lambda: nn.Linear(SIDE, SIDE)), ROSTER.members.index(identity.name))
    peer = NetworkExchange(
        bank, 2, session=session, roster=ROSTER, me=identity.name, seal=seal, limits=LIMITS
    )
    return peer, session


Told = Callable[[], float]


@pytest.fixture
def network(authority, tmp_path: Path) -> Iterator[tuple[NetworkExchange, BaseProcess, Told]]:
    """A visitor here, an owner in another process, and how to make the owner publish; it returns its first number."""
    identities = []
    for name in ROSTER.members:
        paths = [tmp_path / f"{name}.{kind}" for kind in ("pem", "key", "ca")]
        for path, content in zip(paths, (*authority.issue(name), authority.pem), strict=True):
            path.write_bytes(content)
        identities.append(Identity(name, *paths))
    spawn, port = multiprocessing.get_context("spawn"), free_port()
    here, there = spawn.Pipe()
    process = spawn.Process(target=own, args=(identities[0], port, there), daemon=True)
    process.start()
    peer, session = network_peer(identities[1], Addresses(connect=[f"127.0.0.1:{port}"]))

    def publish() -> float:
        here.send(True)
        return here.recv()

    try:
        assert peer.presence.wait(ROSTER.members, 120)
        yield peer, process, publish
    finally:
        process.kill()
        process.join()
        peer.close()
        close(session)


def after_some_chunks(peer: NetworkExchange, act: Callable[[], object]) -> None:
    """In the middle of the next transfer."""
    count = peer.traffic.receives
    seen = iter(range(10**9))

    def counted(receiver: int, size: int) -> None:
        count(receiver, size)
        if next(seen) == 20:
            act()

    peer.traffic.receives = counted


def first_number(peer: NetworkExchange) -> float:
    return peer._bank.rows[peer._bank.places(np.array([0]))[0], 0].item()


@pytest.mark.parametrize("seconds", [2.0, 10.0], ids=["shorter than the lease", "longer"])
def test_a_transfer_goes_on_when_a_frozen_owner_wakes_up(network, seconds: float) -> None:
    peer, process, publish = network
    truth = publish()

    def freeze() -> None:
        os.kill(process.pid, signal.SIGSTOP)
        threading.Timer(seconds, os.kill, (process.pid, signal.SIGCONT)).start()

    after_some_chunks(peer, freeze)
    peer._line.limits = LIMITS.model_copy(update={"patience": 60.0})
    assert len(peer.pull(Visits.of([(1, 0)]))) == 1
    assert first_number(peer) == truth


def test_one_that_never_wakes_up_is_left_out_and_taken_back(network) -> None:
    peer, process, publish = network
    publish()
    os.kill(process.pid, signal.SIGSTOP)
    assert len(peer.pull(Visits.of([(1, 0)]))) == 0
    os.kill(process.pid, signal.SIGCONT)
    assert peer.presence.wait(ROSTER.members, 120)
    truth = publish()
    assert len(peer.pull(Visits.of([(1, 0)]))) == 1
    assert first_number(peer) == truth


def test_one_killed_while_it_sends_leaves_nothing_behind(network) -> None:
    peer, process, publish = network
    publish()
    after_some_chunks(peer, process.kill)
    peer._line.limits = LIMITS.model_copy(update={"patience": 60.0, "grace": 1.0})
    begun = time.monotonic()
    assert len(peer.pull(Visits.of([(1, 0)]))) == 0
    assert time.monotonic() - begun < 15, "whoever has ended is not waited for"
    assert peer._bank.visiting_places == {}
    assert peer.read_models(Visits.of([(1, 0), (1, 1)])).pairs == [(1, 1)]
