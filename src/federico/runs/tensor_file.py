"""Tensors in a file, written from where they lie: on the way there they take no memory."""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from safetensors.torch import save_file
from torch import Tensor

from federico.open_files import once_files_are_free


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


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _as_os_error(error: Exception) -> Exception:
    """The writer reports a full disk in words of its own; give it back its number."""
    number = re.search(r"os error (\d+)", str(error))
    return OSError(int(number[1]), str(error)) if number else error
