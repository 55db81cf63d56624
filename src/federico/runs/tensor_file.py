"""Tensors in a file, written from where they lie: on the way there they take no memory."""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from safetensors.torch import save_file
from torch import Tensor

from federico.errors import RunError
from federico.open_files import once_files_are_free

LONGEST_HEADER = 1 << 24
"""Bytes of names and shapes at the start of a file: enough for a hundred thousand tensors."""


def save_tensors(
    path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None
) -> str:
    """Write them all, or leave no file; returns the hash of it."""
    return once_files_are_free(lambda: _save(path, tensors, metadata))


def _save(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None) -> str:
    try:
        path.touch()
        usual = path.stat().st_mode
        save_file(dict(tensors), path, metadata=None if metadata is None else dict(metadata))
        path.chmod(usual)  # the writer makes a file of its own that nobody else may read
    except Exception as error:
        path.unlink(missing_ok=True)
        raise _as_os_error(error) from error
    return digest(path)


def refuse_long_header(path: Path) -> None:
    """Refuse a file of tensors whose table of names would take much memory to read.

    A table of 65 MB takes 18 seconds and nearly a gigabyte, whatever is in it.
    """
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
    except OSError as error:
        raise RunError(f"{path.absolute()}: cannot be read: {error.strerror}") from error
    if length > LONGEST_HEADER:
        raise RunError(
            f"{path}: is no file of models: its names and shapes take {length:,} bytes, where at "
            f"most {LONGEST_HEADER:,} belong"
        )


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _as_os_error(error: Exception) -> Exception:
    """The writer reports a full disk in words of its own; give it back its number."""
    number = re.search(r"os error (\d+)", str(error))
    return OSError(int(number[1]), str(error)) if number else error
