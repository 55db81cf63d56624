import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import zenoh

from federico.exchange.session import close, open_bus

# Test files of this folder share `contract`, the behaviours that every exchange must have.
sys.path.insert(0, str(Path(__file__).parent))
pytest.register_assert_rewrite("contract")


@pytest.fixture
def bus() -> Iterator[zenoh.Session]:
    """Closed however the test ends: an open session keeps the process from ending."""
    session = open_bus()
    yield session
    assert close(session)
