"""The log of commands that run for long, for people or programs to read."""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Annotated

import typer

from federico.printable import printable

FORMAT = "%(asctime)s %(levelname)-7s %(message)s"
FILE_BYTES = 1 << 20
OLD_FILES = 3


class LogStyle(StrEnum):
    """How a line of the log is written."""

    TEXT = "text"
    """For people."""
    JSON = "json"
    """One JSON object on each line, for programs."""


Log = Annotated[LogStyle, typer.Option("--log", help="Lines of the log: text, or JSON objects.")]


class JsonFormatter(logging.Formatter):
    """Writes a line of the log as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        """The time in UTC, the level, who says it, the message, and the trace of an error."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line)


class TextFormatter(logging.Formatter):
    """Writes a line of the log for people; nothing in it is an order to their terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """The time, the level and the message, and the trace of an error."""
        return printable(super().format(record))


@contextmanager
def logging_to(
    file: Path | None, *, quiet: bool, style: LogStyle = LogStyle.TEXT
) -> Iterator[None]:
    """Log to standard error, unless quiet, and to a file, if one is given.

    The file is put aside when it has grown to `FILE_BYTES`, and the last few are kept.
    """
    handlers: list[logging.Handler] = []
    if not quiet:
        handlers.append(logging.StreamHandler())
    if file is not None:
        handlers.append(
            RotatingFileHandler(file, maxBytes=FILE_BYTES, backupCount=OLD_FILES, encoding="utf-8")
        )

    formatter = JsonFormatter() if style is LogStyle.JSON else TextFormatter(FORMAT)
    logger = logging.getLogger("federico")
    logger.setLevel(logging.INFO)
    for handler in handlers:
        handler.setFormatter(formatter)
        logger.addHandler(handler)
    try:
        yield
    finally:
        for handler in handlers:
            logger.removeHandler(handler)
            handler.close()
