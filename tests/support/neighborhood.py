"""Several peers of one federation in one process, on a bus or each with a session of its own."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from socket import socket
from typing import Any

import numpy as np
import torch
import zenoh
from torch import Tensor

from federico.exchange.protocol import Updates
from federico.learning.bank import Bank
from federico.learning.layout import ModelLayout
from federico.learning.parts import ModelPart
from federico.learning.personal_parts import PersonalParts
from federico.learning.rows import Rows
from federico.learning.visits import Visits
from federico.network.exchange import NetworkExchange
from federico.network.identity import Addresses, Identity
from federico.network.limits import Limits
from federico.network.roster import Roster
from federico.network.session import open_session
from federico.network.wire.signing import Signer

DIGEST = b"d" * 32
PATIENT = Limits(deadline=60, patience=60, clip=1e9, refuse=1e9)
"""Nothing is late on a slow machine, nothing is shortened."""
SECONDS = 60.0
"""Until a test gives up on something that should come."""


@dataclass
class Neighbor:
    """A peer, with what a test looks at: its exchange, and the bank with its model."""

    exchange: NetworkExchange
    bank: Bank
    number: int

    @property
    def own_row(self) -> Tensor:
        """The peer's own model."""
        return self.bank.hosted_rows[0]

    def row_of(self, owner: int) -> Tensor:
        """The copy of another peer's model."""
        return self.bank.rows[self.bank.places(np.array([owner]))[0]]

    def publish(self, round_index: int) -> None:
        """Start a round without wanting anything of others."""
        self.exchange.pull(round_index, Visits.of([]))

    def pulls(self, round_index: int, *owners: int) -> list[int]:
        """Pull the models of these owners; returns those that came."""
        wanted = Visits.of([(self.number, owner) for owner in owners])
        return self.exchange.pull(round_index, wanted).owners.tolist()

    def reads(self, round_index: int, *owners: int) -> list[int]:
        """Read the models of these owners for evaluation; returns those that are there."""
        wanted = Visits.of([(self.number, owner) for owner in owners])
        return self.exchange.read_models(round_index, wanted).owners.tolist()

    def push(self, round_index: int, owner: int, value: float = 1.0) -> None:
        """Push an update that is this value everywhere."""
        rows = Rows.of(torch.full((1, self.bank.layout.size), value))
        self.push_rows(round_index, [owner], rows)

    def push_rows(self, round_index: int, owners: list[int], rows: Rows) -> None:
        contributors = np.full(len(owners), self.number)
        updates = Updates(np.array(owners), contributors, np.ones(len(owners)), rows)
        self.exchange.push(round_index, updates)

    def received(self) -> int:
        """Bytes of training received since this was last asked."""
        return int(self.exchange.traffic.take()["training"].received[self.number])


def names_linked(session: zenoh.Session) -> list[str]:
    """Whose certificates the links of a session have, a name for each link."""
    return sorted(str(link.auth_identifier) for link in session.info.links())


def names(count: int) -> tuple[str, ...]:
    return tuple(f"site{i}" for i in range(count))


def signers_of(authority, members: Sequence[str]) -> list[Signer]:
    return [Signer(*authority.issue(name), authority.pem) for name in members]


def bank_of(
    layout: ModelLayout, owner: int, shared: ModelPart | None = None, peers: int = 0
) -> Bank:
    """The bank of one of some peers, which share this part of their models; all of it if None."""
    starts = {owner: str(owner)}
    personal = None
    if shared is not None:
        personal = PersonalParts(layout, shared, 0, starts, peers)
    return Bank.start(layout, 0, starts, torch.device("cpu"), personal=personal)


def join(
    layout: ModelLayout,
    sessions: Sequence[zenoh.Session],
    signers: Sequence[Signer],
    limits: Limits = PATIENT,
    lockstep: bool = True,
    relays: tuple[str, ...] = (),
    folder: Path | None = None,
    shared: ModelPart | None = None,
) -> list[Neighbor]:
    """A peer for each session and signer; all of them know that the others are here."""
    roster = Roster("test", DIGEST, names(len(signers)), relays)
    peers = []
    for number, (session, signer) in enumerate(zip(sessions, signers, strict=True)):
        bank = bank_of(layout, number, shared, len(signers))
        options = {"limits": limits, "lockstep": lockstep, "folder": folder}
        peers.append(make_peer(bank, session, roster, number, signer, **options))
    meet(peers, roster)
    return peers


def make_peer(
    bank: Bank, session: zenoh.Session, roster: Roster, number: int, signer: Signer, **options: Any
) -> Neighbor:
    exchange = NetworkExchange(
        bank,
        len(roster.members),
        session=session,
        roster=roster,
        me=roster.members[number],
        signer=signer,
        **options,
    )
    return Neighbor(exchange, bank, number)


def meet(peers: Sequence[Neighbor], roster: Roster) -> None:
    """Wait until each of them knows that all members are here."""
    for peer in peers:
        assert peer.exchange.presence.wait(roster.members, SECONDS)


def write_identity(authority, folder: Path, name: str, days: float = 7) -> Identity:
    """A member's certificate and key, and the authority's certificate, as files."""
    contents = (*authority.issue(name, days), authority.pem)
    paths = [folder / f"{name}.{kind}" for kind in ("pem", "key", "ca")]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    return Identity(name, *paths)


def connect(
    identity: Identity,
    addresses: Addresses,
    roster: Roster,
    layout: ModelLayout,
    limits: Limits,
    **options: Any,
) -> tuple[Neighbor, zenoh.Session]:
    """A peer with a session of its own over real sockets, and that session."""
    session = open_session(identity, addresses, roster)
    paths = (identity.certificate, identity.key, identity.authority)
    signer = Signer(*(path.read_bytes() for path in paths))
    number = roster.members.index(identity.name)
    bank = bank_of(layout, number)
    peer = make_peer(bank, session, roster, number, signer, limits=limits, **options)
    return peer, session


def together(actions: Sequence[Callable[[], object]]) -> list[object]:
    """Run all of them at the same time, as peers on different machines do."""
    with ThreadPoolExecutor(len(actions)) as pool:
        futures = [pool.submit(action) for action in actions]
        return [future.result(120) for future in futures]


def eventually(holds: Callable[[], bool]) -> None:
    """Wait for something that will come."""
    end = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def free_port() -> int:
    with socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
