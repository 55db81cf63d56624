"""Peers on a bus in this process; real sockets are in test_session.py, real processes in tests/system."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from contract import PEERS, Connect, ExchangeContract
from neighborhood import join, seals, together

from federico.exchange.base import Traffic, Updates
from federico.exchange.session import close, open_bus
from federico.exchange.zenoh import ZenohExchange
from federico.learning.bank import Bank, Visits
from federico.learning.blueprint import Blueprint


class Everybody:
    """All peers behind one face, as the contract sees an exchange: each does the part of the clients it hosts."""

    def __init__(self, bank: Bank, peers: list[ZenohExchange]) -> None:
        self.bank, self.peers = bank, peers
        self.traffic = self
        for i, peer in enumerate(peers):
            peer._bank.home.copy_(bank.rows[i])

    def pull(self, wanted: Visits) -> Visits:
        parts = [wanted[np.flatnonzero(wanted.clients == i)] for i in range(len(self.peers))]
        came = together([lambda p=peer, w=part: p.pull(w) for peer, part in zip(self.peers, parts, strict=True)])
        self.bank.rows.fill_(torch.nan)
        for peer, visits in zip(self.peers, came, strict=True):
            for owner in visits.owners.tolist():
                self.bank.rows[owner] = peer._bank.rows[peer._bank.places(np.array([owner]))[0]]
        pairs = {pair for visits in came for pair in visits.pairs}
        return Visits.of([pair for pair in wanted.pairs if pair in pairs])

    def lend(self, visits: Visits) -> Visits:
        raise NotImplementedError

    def push(self, updates: Updates) -> None:
        if any(peer._published < peer.round for peer in self.peers):
            everybody = [(i, b) for i in range(PEERS) for b in range(PEERS)]
            self.pull(Visits.of(everybody))
            self.take()
        parts = [updates.take(np.flatnonzero(updates.contributors == i)) for i in range(len(self.peers))]
        together([lambda p=peer, u=part: p.push(u) for peer, part in zip(self.peers, parts, strict=True)])

    def collect(self) -> Updates:
        parts = together([peer.collect for peer in self.peers])
        joined = [np.concatenate([getattr(part, name) for part in parts]) for name in ("owners", "contributors")]
        rows = torch.cat([part.rows for part in parts])
        return Updates(*joined, np.concatenate([part.coefficients for part in parts]), rows)

    def take(self) -> tuple[np.ndarray, np.ndarray]:
        taken = [Traffic.take(peer.traffic) for peer in self.peers]
        return sum(sent for sent, _ in taken), sum(received for _, received in taken)


Joined = Callable[..., list[ZenohExchange]]


@pytest.fixture
def joined(authority) -> Iterator[Joined]:
    """Peers on a bus of their own, closed afterwards."""
    opened, sessions = [], []

    def make(blueprint: Blueprint, count: int, **options: object) -> list[ZenohExchange]:
        sessions.append(open_bus())
        peers = join(blueprint, [sessions[-1]] * count, seals(authority, [f"site{i}" for i in range(count)]), **options)
        opened.extend(peers)
        return peers

    yield make
    for peer in opened:
        peer.close()
    for session in sessions:
        assert close(session)


class TestZenohExchange(ExchangeContract):
    @pytest.fixture
    def connect(self, joined: Joined) -> Connect:
        return lambda bank, participants: Everybody(bank, joined(bank.blueprint, participants))
