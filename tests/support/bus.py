"""A Zenoh session without sockets."""

import json
from collections.abc import Iterator

import pytest
import zenoh

from federico.network.session import close


def open_bus() -> zenoh.Session:
    """A session without sockets: what is declared and requested in it stays in this process."""
    scouting = {"multicast": {"enabled": False}, "gossip": {"enabled": False}}
    table = {"mode": "peer", "listen": {"endpoints": []}, "scouting": scouting}
    return zenoh.open(zenoh.Config.from_json5(json.dumps(table)))


@pytest.fixture
def bus() -> Iterator[zenoh.Session]:
    """Closed however the test ends: an open session keeps the process from ending."""
    session = open_bus()
    yield session
    assert close(session)
