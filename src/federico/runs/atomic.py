"""Files that are either whole or not there."""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from federico.errors import ConfigError, RunError
from federico.open_files import once_files_are_free

PARTIAL = ".partial"


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Say what to do about a full disk, and name the path that cannot be written."""
    try:
        yield
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
            raise RunError(
                f"{path}: no space left on the disk. Nothing is lost: free some space and start "
                f"the same command again (the system said: {error.strerror})"
            ) from error
        raise RunError(f"{path}: cannot be written: {error.strerror}") from error


def refuse_existing(path: Path, overwrite: bool, how: str = "--overwrite") -> None:
    """Nothing is replaced that nobody has asked to replace; `how` says how to ask for it."""
    if path.is_dir():
        raise ConfigError(f"{path}: is a folder, and is left as it is; name a file")
    if path.exists() and not overwrite:
        raise ConfigError(f"{path}: exists already; name another file, or replace it with {how}")


def publish(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` make the file under another name, then put it in place in one step.

    The step survives a power cut: the file is whole, or it is not there.
    """
    partial = path.with_name(path.name + PARTIAL)
    with disk_errors(path):
        try:
            partial.unlink(missing_ok=True)  # it might be a stranger's link to another file
            once_files_are_free(lambda: write(partial))
            sync(partial)
            partial.replace(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        sync(path.parent)


def publish_text(path: Path, text: str) -> None:
    """`publish` for a small text."""
    publish_bytes(path, text.encode())


def publish_bytes(path: Path, content: bytes) -> None:
    """The same for a small file that is no text."""

    def write(partial: Path) -> None:
        partial.write_bytes(content)

    publish(path, write)


def sync(path: Path) -> None:
    """Wait until the disk has it."""
    handle = once_files_are_free(lambda: os.open(path, os.O_RDONLY))
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
