import pytest

from federico.wire.header import Header, Kind
from federico.wire.seal import Seal


@pytest.fixture
def header() -> Header:
    """Of an update of three chunks."""
    return Header(Kind.UPDATE, b"f" * 32, b"s" * 32, 1, 2, 7, 6, 2**62 + 1, 3.5, 2560, 256, b"d" * 32, b"n" * 16)


@pytest.fixture(scope="session")
def alice(authority) -> Seal:
    return Seal(*authority.issue("alice"), authority.pem)


@pytest.fixture(scope="session")
def bob(authority) -> Seal:
    return Seal(*authority.issue("bob"), authority.pem)
