"""Reads files that may be a stranger's, and no further than an honest one goes.

A file may claim a terabyte that it does not take on the disk (a sparse one), or never end (a
device). Whoever reads all of it ends for want of memory, and takes others along.
"""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

LARGEST_FILE = 1 << 28
"""Bytes of a file, or of a line, that are read at most where nothing else is said. What ten
thousand clients leave in a round takes a hundredth of it."""

PIECE = 1 << 20
"""Bytes that are read at a time."""


class TooLargeError(OSError):
    """A file, or a line of it, is larger than anything that belongs there."""

    def __init__(self, path: Path, what: str, most: int) -> None:
        """`what` is larger than `most` bytes."""
        super().__init__(errno.EOVERFLOW, f"{what} is larger than {most:,} bytes", str(path))


def read_bounded(path: Path, most: int = LARGEST_FILE) -> bytes:
    """The content of a file, or a `TooLargeError`."""
    with path.open("rb") as file:
        claimed = os.fstat(file.fileno()).st_size
        if claimed <= most:
            # In pieces: reading takes memory for all that is asked for, however short the file.
            content = bytearray()
            while len(content) <= most:
                piece = file.read(PIECE)
                if not piece:
                    return bytes(content)
                content += piece
    raise TooLargeError(path, "it", most)


def whole_lines(path: Path, start: int = 0, most: int = LARGEST_FILE) -> Iterator[bytes]:
    """The lines of a file from this byte on, without a last one that has no end yet."""
    with path.open("rb") as file:
        file.seek(start)
        while line := file.readline(most + 1):
            if len(line) > most:
                raise TooLargeError(path, "a line of it", most)
            if line.endswith(b"\n"):
                yield line
