"""Where models, moments and moves lie: in memory, or on the disk where memory is too small for them."""

import mmap
import weakref
from contextlib import suppress
from math import prod
from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock

import numpy as np
import torch

from federico.errors import RunError
from federico.learning.row_files import LARGE, RowFile, RowFiles, reserve

ROOMY = 4
"""How many times too large a map may be to be used again."""


class Storage:
    """Gives tensors to be filled: in memory, or as maps of unnamed files that are gone with the last tensor using them.

    The system keeps of such a file in memory what there is room for, and takes it away again when others need the
    room. Numbers do not depend on where they lie.
    """

    def __init__(self, scratch: Path | None = None, outbox: Path | None = None) -> None:
        """`scratch` is the folder of the files; without it all is in memory. In `outbox` moves wait to be sent."""
        self.scratch, self._outbox = scratch, outbox
        self._pages = _Pages()

    def empty(
        self, *shape: int, dtype: torch.dtype, device: torch.device, every_round: bool = False
    ) -> torch.Tensor:
        """A tensor of this shape that holds anything; the memory of other devices than the CPU is their own.

        One that is asked for in every round, and gone before the next, takes the memory that the last such left.
        """
        size = prod(shape) * dtype.itemsize
        if device.type != "cpu" or not size or (self.scratch is None and size < LARGE):
            return torch.empty(shape, dtype=dtype, device=device)
        if self.scratch is not None:
            return _on_disk(self.scratch, size, dtype).view(shape)
        pages = (
            self._pages.tensor(size)
            if every_round
            else torch.frombuffer(_new_pages(size), dtype=torch.uint8)
        )
        return pages.view(dtype).view(shape)

    def moves(
        self, count: int, size: int, *, dtype: torch.dtype, device: torch.device
    ) -> torch.Tensor | RowFiles:
        """So many rows for the moves of a round; large ones that will be sent need no memory until then."""
        if self._outbox is None or device.type != "cpu" or size * dtype.itemsize < LARGE:
            return self.empty(count, size, dtype=dtype, device=device, every_round=True)
        name = str(dtype).removeprefix("torch.")
        return RowFiles([RowFile.somewhere(size, name, self._outbox) for _ in range(count)])


class _Pages:
    """Maps of memory. Those of tensors that are gone are used again: fresh pages take longer than what is written.

    Every round asks for about the same: rows for its updates, and for the copy that a checkpoint is written from. When
    something is asked for that fits nothing, all that lies idle is given back first.
    """

    def __init__(self) -> None:
        self._idle: list[mmap.mmap] = []
        self._lock = Lock()

    def tensor(self, size: int) -> torch.Tensor:
        """So many bytes that hold anything."""
        pages = self._take(size)
        content = np.frombuffer(
            pages, dtype=np.uint8, count=size
        )  # lives as long as the tensor and all its views
        weakref.finalize(content, self._idle.append, pages).atexit = False
        return torch.from_numpy(content)

    def _take(self, size: int) -> mmap.mmap:
        with self._lock:
            fitting = [pages for pages in self._idle if size <= len(pages) <= ROOMY * size]
            if fitting:
                pages = min(fitting, key=len)
                self._idle.remove(pages)
                return pages
            self._idle.clear()
        return _new_pages(size)


def _new_pages(size: int) -> mmap.mmap:
    pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel without them
            pages.madvise(mmap.MADV_HUGEPAGE)
    return pages


def _on_disk(scratch: Path, size: int, dtype: torch.dtype) -> torch.Tensor:
    try:
        with TemporaryFile(dir=scratch) as file:
            reserve(file.fileno(), size)
            # Opened once more by torch, which keeps the map and closes the file: thousands of maps need no open files.
            name, count = f"/dev/fd/{file.fileno()}", size // dtype.itemsize
            return torch.from_file(name, shared=True, size=count, dtype=dtype)
    except OSError as error:
        raise RunError(
            f"{scratch}: no room for {size >> 20} MiB of models that do not fit into memory "
            f"({error.strerror}). Nothing is lost: free some space or allow more `memory`, start again"
        ) from error
