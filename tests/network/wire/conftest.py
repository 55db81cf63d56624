import pytest

from federico.network.wire.messages import Kind, MessageHeader
from federico.network.wire.signing import Signer


@pytest.fixture
def header() -> MessageHeader:
    """The header of an update of three chunks."""
    return MessageHeader(
        kind=Kind.UPDATE,
        federation=b"f" * 32,
        schema=b"s" * 32,
        owner=1,
        visitor=2,
        round_index=7,
        version=6,
        incarnation=2**62 + 1,
        coefficient=3.5,
        size=2560,
        chunk_numbers=256,
        digest=b"d" * 32,
        nonce=b"n" * 16,
        sent_at=1.7e9,
    )


@pytest.fixture(scope="session")
def alice(authority) -> Signer:
    return Signer(*authority.issue("alice"), authority.pem)


@pytest.fixture(scope="session")
def bob(authority) -> Signer:
    return Signer(*authority.issue("bob"), authority.pem)
