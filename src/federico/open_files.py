"""Running out of open files passes: whoever floods a peer with connections does not end its run."""

import errno
import logging
import resource
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

log = logging.getLogger(__name__)

OUT_OF_FILES = (errno.EMFILE, errno.ENFILE)
LONGEST_WAIT = 600.0
"""Seconds to wait for a file; after that something is wrong that does not pass."""
POLL_SECONDS = 0.1

Result = TypeVar("Result")


def once_files_are_free(action: Callable[[], Result]) -> Result:
    """Do what opens a file; as long as no more files can be opened, wait and do it again."""
    began = time.monotonic()
    warned = False
    while True:
        try:
            return action()
        except OSError as error:
            waited = time.monotonic() - began
            if error.errno not in OUT_OF_FILES or waited > LONGEST_WAIT:
                raise
            if not warned:
                warned = True
                log.warning(
                    "waiting for open files (the system said: %s): too many connections, perhaps "
                    "of an outsider, whom a firewall can keep away",
                    error.strerror,
                )
        time.sleep(POLL_SECONDS)


def allow_many_files() -> None:
    """Let this process have as many open files as the system lets it have: connections are some."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # some systems call it unlimited, and allow less
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
