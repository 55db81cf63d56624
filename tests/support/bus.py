"""A Zenoh session without sockets."""

from collections.abc import Iterator

import pytest
import zenoh

from federico.network.session import close, open_bus


@pytest.fixture
def bus() -> Iterator[zenoh.Session]:
    """Closed however the test ends: an open session keeps the process from ending."""
    session = open_bus()
    yield session
    assert close(session)
