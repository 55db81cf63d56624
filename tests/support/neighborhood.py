"""Several peers of one federation in one process, on a bus without sockets or each with a session of its own."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from socket import socket

import torch
import zenoh

from federico.exchange.protocol import Updates
from federico.learning.bank import Bank
from federico.learning.layout import ModelLayout
from federico.learning.visits import Visits
from federico.network.exchange import NetworkExchange
from federico.network.limits import Limits
from federico.network.roster import Roster
from federico.network.wire.signing import Signer

DIGEST = b"d" * 32
PATIENT = Limits(deadline=60, patience=60, clip=1e9, refuse=1e9)
"""Nothing is late on a slow machine, nothing is shortened."""


class RoundKeeper(NetworkExchange):
    """A peer that counts its rounds itself, so that a test names them only where they matter."""

    round = 1

    def pull(self, wanted: Visits) -> Visits:
        return super().pull(self.round, wanted)

    def read_models(self, visits: Visits) -> Visits:
        return super().read_models(self.round - 1, visits)

    def push(self, updates: Updates) -> None:
        super().push(self.round, updates)

    def collect(self) -> Updates:
        arrived = super().collect(self.round)
        self.round += 1
        return arrived


def names(count: int) -> tuple[str, ...]:
    return tuple(f"site{i}" for i in range(count))


def seals(authority, members: Sequence[str]) -> list[Signer]:
    return [Signer(*authority.issue(name), authority.pem) for name in members]


def bank_of(layout: ModelLayout, owner: int) -> Bank:
    return Bank.start(layout, 0, {owner: str(owner)}, torch.device("cpu"))


def join(
    layout: ModelLayout,
    sessions: Sequence[zenoh.Session],
    signers: Sequence[Signer],
    limits: Limits = PATIENT,
    lockstep: bool = True,
    relays: tuple[str, ...] = (),
    kind: type[NetworkExchange] = RoundKeeper,
) -> list[RoundKeeper]:
    """A peer for each session and seal, each with a bank of its own; all of them know that the others are here."""
    roster = Roster("test", DIGEST, names(len(signers)), relays)
    peers = [
        kind(
            bank_of(layout, i), len(signers), session=session, roster=roster, me=roster.members[i], seal=seal,
            limits=limits, lockstep=lockstep,
        )
        for i, (session, seal) in enumerate(zip(sessions, signers, strict=True))
    ]  # fmt: skip
    for peer in peers:
        assert peer.presence.wait(roster.members, 60)
    return peers


def together(actions: Sequence[Callable[[], object]]) -> list[object]:
    """Run all of them at the same time, as peers on different machines do."""
    with ThreadPoolExecutor(len(actions)) as pool:
        return [future.result(120) for future in [pool.submit(action) for action in actions]]


def free_port() -> int:
    with socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
