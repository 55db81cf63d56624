"""Running out of open files passes: a flood of connections does not end a peer's run."""

import errno
import logging
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

log = logging.getLogger(__name__)

OUT_OF_FILES = (errno.EMFILE, errno.ENFILE)
POLL_SECONDS = 0.1
SECONDS_BETWEEN_WARNINGS = 60.0

Result = TypeVar("Result")
_awaited = False
"""Whether files are waited for: set by `files_awaited`."""


@contextmanager
def files_awaited() -> Iterator[None]:
    """While the block lasts, what needs an open file waits until there is one.

    The process may have as many as the system lets it have: each connection is one.
    """
    global _awaited  # noqa: PLW0603 (it is about the whole process, as open files are)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # some systems call it unlimited, and allow less
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    _awaited = True
    try:
        yield
    finally:
        _awaited = False


def once_files_are_free(action: Callable[[], Result]) -> Result:
    """Do what opens a file, and do it again as long as no more files can be opened.

    Outside of `files_awaited` the error is raised: nobody but the process itself took them.
    """
    next_warning = 0.0
    while True:
        try:
            return action()
        except OSError as error:
            if error.errno not in OUT_OF_FILES or not _awaited:
                raise
            if time.monotonic() > next_warning:
                next_warning = time.monotonic() + SECONDS_BETWEEN_WARNINGS
                log.warning(
                    "waiting for open files (the system said: %s): too many connections, perhaps "
                    "of an outsider, whom a firewall can keep away",
                    error.strerror,
                )
        time.sleep(POLL_SECONDS)
