"""The log of commands that run for long, for people to read."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from logging.handlers import RotatingFileHandler
from pathlib import Path

FORMAT = "%(asctime)s %(levelname)-7s %(message)s"
FILE_BYTES = 1 << 20
OLD_FILES = 3


@contextmanager
def logging_to(file: Path | None, *, quiet: bool) -> Iterator[None]:
    """Log to standard error, unless quiet, and to a file, if one is given."""
    handlers: list[logging.Handler] = []
    if not quiet:
        handlers.append(logging.StreamHandler())
    if file is not None:
        handlers.append(
            RotatingFileHandler(file, maxBytes=FILE_BYTES, backupCount=OLD_FILES, encoding="utf-8")
        )

    logger = logging.getLogger("federico")
    logger.setLevel(logging.INFO)
    for handler in handlers:
        handler.setFormatter(logging.Formatter(FORMAT))
        logger.addHandler(handler)
    try:
        yield
    finally:
        for handler in handlers:
            logger.removeHandler(handler)
            handler.close()
