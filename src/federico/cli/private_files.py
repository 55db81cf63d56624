"""Files of a site that other users of its machine cannot read."""

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def private_files() -> Iterator[None]:
    """Nobody else on this machine can read files that are made in the block."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)
