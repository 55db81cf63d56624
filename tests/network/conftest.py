"""Terms of a small federation, and what its members say to each other."""

from collections.abc import Callable
from typing import Any

import pytest

from federico.network.limits import Limits
from federico.network.protocol import Terms
from federico.network.roster import Roster
from federico.network.wire.schema import ModelSchema
from federico.network.wire.signing import Signer
from tests.support.clock import Clock

SIZE = 600
"""Numbers of the model: three chunks, the last one shorter."""
LIMITS = Limits(staleness=2, clip=2, refuse=100, samples=1000, chunk_bytes=1024)
ROSTER = Roster("test", b"d" * 32, ("a", "b", "c"))


@pytest.fixture
def clock() -> Clock:
    """For what goes by the time."""
    return Clock()


@pytest.fixture(scope="session")
def make_terms(authority) -> Callable[..., Terms]:
    """The terms of a member, with other fields where a test wants them."""
    signers: dict[str, Signer] = {}

    def make(name: str, **changed: Any) -> Terms:
        if name not in signers:
            signers[name] = Signer(*authority.issue(name), authority.pem)
        agreed = {
            "roster": ROSTER,
            "schema": ModelSchema.of({"weight": (SIZE,)}, "float32"),
            "limits": LIMITS,
            "signer": signers[name],
            "incarnation": 77,
        }
        return Terms(name, **(agreed | changed))

    return make
