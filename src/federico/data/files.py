"""Where data files lie, and how to read them with errors that name the file."""

import os
import zipfile
import zlib
from collections.abc import Iterable
from math import prod
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from federico.errors import DataError, MissingFileError
from federico.types import Array

UNREADABLE_NPZ = (
    OSError,
    EOFError,
    ValueError,
    AttributeError,
    TypeError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What numpy raises for a file that is damaged, or no npz file at all."""


HARMLESS_BYTES = 64 << 20
"""Bytes that an array may unpack to, however small it is when packed."""
NAMES_SHOWN = 20
"""Names of arrays that an error lists."""
LARGEST_RATIO = 100
"""How many times larger than packed a bigger array may be."""


def data_folder() -> Path:
    """The folder that relative data paths start from: FEDERICO_DATA, or `data` if it is not set."""
    return Path(os.environ.get("FEDERICO_DATA", "data"))


def existing(
    path: Path, remedy: str = "check the path, or set FEDERICO_DATA to the folder of the data"
) -> Path:
    """The path itself, or a `MissingFileError` with the remedy if nothing is there."""
    if not path.exists():
        raise MissingFileError(f"{path.absolute()}: not found: {remedy}")
    return path


def read_npz(path: Path, *names: str) -> list[Array]:
    """The arrays of these names, in this order.

    Arrays of Python objects are refused, because unpickling them could run code.
    """
    existing(path)
    try:
        refuse_bomb(path, names)
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            for name in names:
                if name not in archive.files:
                    held = ", ".join(archive.files[:NAMES_SHOWN])
                    if len(archive.files) > NAMES_SHOWN:
                        held += f" and {len(archive.files) - NAMES_SHOWN:,} more"
                    raise DataError(f"{path}: no array named '{name}': it holds {held}")
            return [archive[name] for name in names]
    except MemoryError:
        raise DataError(f"{path}: does not fit into the memory: give fewer samples") from None
    except UNREADABLE_NPZ as error:
        raise DataError(
            f"{path}: not a readable npz file ({first_line(error)}): write it with numpy.savez"
        ) from error


def refuse_bomb(path: Path, names: Iterable[str]) -> None:
    """Refuse a zip archive in which one of these arrays unpacks to far more than it takes.

    Real data is rarely more than a few times smaller when packed; what is made to fill the memory
    is a thousand times smaller. The sizes are in the archive's directory: nothing is unpacked.
    """
    wanted = {*names, *(f"{name}.npy" for name in names)}
    with zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            if entry.filename not in wanted:
                continue
            _refuse_larger_claim(path, archive, entry)
            if entry.file_size <= HARMLESS_BYTES:
                continue
            if entry.file_size > LARGEST_RATIO * entry.compress_size:
                raise DataError(
                    f"{path}: {entry.filename} takes {entry.compress_size:,} bytes and would "
                    f"unpack to {entry.file_size:,}: refused as made to fill the memory; if the "
                    "data is yours, write it with numpy.savez, which does not compress"
                )


def _refuse_larger_claim(path: Path, archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> None:
    """Refuse an array whose header claims more numbers than follow: memory is taken for them."""
    with archive.open(entry) as file:
        version = npy.read_magic(file)
        read_header = npy.read_array_header_1_0
        if version != (1, 0):
            read_header = npy.read_array_header_2_0
        shape, _, dtype = read_header(file)
    claimed = prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or claimed > entry.file_size:
        raise DataError(
            f"{path}: {entry.filename} says that it has the shape {shape}, which takes "
            f"{claimed:,} bytes, but holds {entry.file_size:,}: write it with numpy.savez"
        )


def npz_names(path: Path) -> list[str]:
    """The names of the arrays in a file that `read_npz` can read."""
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        return list(archive.files)


def first_line(error: Exception) -> str:
    """What went wrong, short enough for a message of one line."""
    lines = str(error).splitlines()
    if not lines:
        return type(error).__name__
    return lines[0]
