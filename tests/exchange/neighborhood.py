"""Several peers of one federation in one process, on a bus without sockets or each with a session of its own."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from socket import socket

import torch
import zenoh

from federico.exchange.limits import Limits
from federico.exchange.roster import Roster
from federico.exchange.zenoh import ZenohExchange
from federico.learning.bank import Bank
from federico.learning.blueprint import Blueprint
from federico.wire.seal import Seal

DIGEST = b"d" * 32
PATIENT = Limits(deadline=60, patience=60, clip=1e9, refuse=1e9)
"""Nothing is late on a slow machine, nothing is shortened."""


def names(count: int) -> tuple[str, ...]:
    return tuple(f"site{i}" for i in range(count))


def seals(authority, members: Sequence[str]) -> list[Seal]:
    return [Seal(*authority.issue(name), authority.pem) for name in members]


def bank_of(blueprint: Blueprint, owner: int) -> Bank:
    return Bank.start(blueprint, 0, {owner: str(owner)}, torch.device("cpu"))


def join(
    blueprint: Blueprint,
    sessions: Sequence[zenoh.Session],
    signers: Sequence[Seal],
    limits: Limits = PATIENT,
    lockstep: bool = True,
    relays: tuple[str, ...] = (),
) -> list[ZenohExchange]:
    """A peer for each session and seal, each with a bank of its own; all of them know that the others are here."""
    roster = Roster("test", DIGEST, names(len(signers)), relays)
    peers = [
        ZenohExchange(
            bank_of(blueprint, i), len(signers), session=session, roster=roster, me=roster.members[i], seal=seal,
            limits=limits, lockstep=lockstep,
        )
        for i, (session, seal) in enumerate(zip(sessions, signers, strict=True))
    ]  # fmt: skip
    for peer in peers:
        assert peer.membership.wait(roster.members, 60)
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
