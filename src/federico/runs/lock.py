"""The lock of a folder: held by the one process that writes there.

The system takes a lock from a process that ends, whatever it ends of. So a lock also tells whether
its process still runs; a process number would not, as the system gives it to another process later.
"""

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from federico.errors import RunError
from federico.runs.atomic import disk_errors

LOCK = ".lock"
POLL_SECONDS = 0.1
"""Seconds between two attempts to get a lock that is waited for."""


@contextmanager
def locked(folder: Path, patience: float = 0.0) -> Iterator[None]:
    """Hold the lock of a folder, which is made if it is not there.

    One that another process holds is waited for, for this many seconds.
    """
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        # Nothing is cut short: in a folder of a stranger it may be a link to another file.
        file = (folder / LOCK).open("a")
    with file:
        end = time.monotonic() + patience
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= end:
                    raise RunError(
                        f"{folder}: another process is running this experiment; "
                        "wait for it or stop it"
                    ) from None
                time.sleep(POLL_SECONDS)
        yield


def is_locked(folder: Path) -> bool:
    """Whether a process holds the lock of a folder now."""
    try:
        file = (folder / LOCK).open()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise RunError(f"{folder / LOCK}: cannot be read: {error.strerror}") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
