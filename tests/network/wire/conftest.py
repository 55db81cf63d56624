import pytest

from federico.network.wire.header import Kind, MessageHeader
from federico.network.wire.signing import Signer


@pytest.fixture
def header() -> MessageHeader:
    """Of an update of three chunks."""
    return MessageHeader(
        Kind.UPDATE,
        b"f" * 32,
        b"s" * 32,
        1,
        2,
        7,
        6,
        2**62 + 1,
        3.5,
        2560,
        256,
        b"d" * 32,
        b"n" * 16,
    )


@pytest.fixture(scope="session")
def alice(authority) -> Signer:
    return Signer(*authority.issue("alice"), authority.pem)


@pytest.fixture(scope="session")
def bob(authority) -> Signer:
    return Signer(*authority.issue("bob"), authority.pem)
