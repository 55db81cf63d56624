"""Where data files lie, and reading them with errors that name the file."""

import os
import zipfile
import zlib
from pathlib import Path

import numpy as np

from federico.errors import DataError
from federico.types import Array


def data_folder() -> Path:
    """The folder that relative data paths start from: FEDERICO_DATA, or `data` if it is not set."""
    return Path(os.environ.get("FEDERICO_DATA", "data"))


def existing(
    path: Path, remedy: str = "check the path, or set FEDERICO_DATA to the folder of the data"
) -> Path:
    """The path itself, once it is known to be there."""
    if not path.exists():
        raise DataError(f"{path}: not found: {remedy}")
    return path


def read_npz(path: Path, *keys: str) -> list[Array]:
    """The arrays of these names, in this order; arrays of Python objects are refused, as they could run code."""
    existing(path)
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return [archive[_known(key, archive.files, path)] for key in keys]
    except (
        OSError,
        EOFError,
        ValueError,
        AttributeError,
        TypeError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        raise DataError(
            f"{path}: not a readable npz file ({first_line(error)}): write it with numpy.savez"
        ) from error


def _known(key: str, keys: list[str], path: Path) -> str:
    if key not in keys:
        raise DataError(f"{path}: no array named '{key}': it holds {', '.join(keys)}")
    return key


def first_line(error: Exception) -> str:
    """What went wrong, short enough to stand inside a one-line message."""
    return next(iter(str(error).splitlines()), type(error).__name__)
