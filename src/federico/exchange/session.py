"""A Zenoh session as the peer network needs it: mutual TLS, nothing in the clear, everybody held to its own keys."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import zenoh

from federico.exchange.roster import Roster

LARGEST_MESSAGE = 4 << 20
LEASE = 6.0
"""Seconds without a sign of life after which a link is given up: how long a frozen peer goes unnoticed."""
CLOSING = 5.0
"""Seconds that leaving may take; Zenoh's own close can wait for a lost link much longer."""
Mode = Literal["peer", "router"]


@dataclass(frozen=True)
class Identity:
    """A site's own certificate and key, and the authority of its federation; all of them PEM files."""

    name: str
    certificate: Path
    key: Path
    authority: Path


@dataclass(frozen=True)
class Addresses:
    """`host:port` to listen on and to dial. A site that only dials out listens nowhere."""

    listen: Sequence[str] = ()
    connect: Sequence[str] = ()


def open_session(identity: Identity, addresses: Addresses, roster: Roster, mode: Mode = "peer") -> zenoh.Session:
    """Join the network: returns at once, members are found in the background and again after every cut."""
    raise NotImplementedError


def open_bus() -> zenoh.Session:
    """A session without sockets: what is declared and asked in it stays in this process."""
    raise NotImplementedError


def close(session: zenoh.Session) -> bool:
    """Leave within bounded time; returns whether the session closed in it."""
    raise NotImplementedError
