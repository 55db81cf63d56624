"""Where models, moments and moves lie: in memory, or on the disk where memory is too small for them."""

import os
from math import prod
from pathlib import Path
from tempfile import TemporaryFile

import torch

from federico.errors import RunError


class Storage:
    """Gives tensors to be filled: in memory, or as maps of unnamed files that are gone with the last tensor using them.

    The system keeps of such a file in memory what there is room for, and takes it away again when others need the
    room. Numbers do not depend on where they lie.
    """

    def __init__(self, scratch: Path | None = None) -> None:
        """`scratch` is the folder of the files; without it all is in memory."""
        self.scratch = scratch

    def empty(self, *shape: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        """A tensor of this shape that holds anything; the memory of other devices than the CPU is their own."""
        if self.scratch is None or device.type != "cpu" or not prod(shape):
            return torch.empty(shape, dtype=dtype, device=device)
        return _mapped(self.scratch, prod(shape), dtype).view(shape)


def _mapped(scratch: Path, count: int, dtype: torch.dtype) -> torch.Tensor:
    try:
        with TemporaryFile(dir=scratch) as file:
            _reserve(file.fileno(), count * dtype.itemsize)
            # Opened once more by torch, which keeps the map and closes the file: thousands of maps need no open files.
            return torch.from_file(f"/dev/fd/{file.fileno()}", shared=True, size=count, dtype=dtype)
    except OSError as error:
        raise RunError(
            f"{scratch}: no room for {count * dtype.itemsize >> 20} MiB of models that do not fit into memory "
            f"({error.strerror}). Nothing is lost: free some space or allow more memory (system.memory), start again"
        ) from error


def _reserve(file: int, size: int) -> None:
    """Take the room now: a disk that is full later would end the process without a word."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, size)
    else:
        os.truncate(file, size)
