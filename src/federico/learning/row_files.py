"""Rows that wait: in a file without a name where they are large, so that many of them take no memory."""

import logging
import os
import weakref
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import overload

import numpy as np
import torch
from torch import Tensor

from federico.errors import RunError
from federico.types import Array

log = logging.getLogger(__name__)
LARGE = 1 << 20
"""Bytes from which on a row has room of its own: it is free for anything once the row is gone, where the heap would be
left with a hole."""


class RowFile:
    """Room for one row; the file is gone with the last who holds it, however the process ends."""

    def __init__(
        self,
        size: int,
        dtype: str | np.dtype[np.generic],
        folder: Path | None = None,
        *,
        on_disk: bool = True,
    ) -> None:
        """`folder` holds the file; the system's own for such files if there is none."""
        self._size, self._dtype, self._folder = size, np.dtype(dtype), folder
        self.filed = on_disk and size * self._dtype.itemsize >= LARGE
        if not self.filed:
            self._row: Array = np.empty(size, self._dtype)
            return
        try:
            self._file = TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 - open as long as the row_file is there
            weakref.finalize(self, self._file.close)
            reserve(self._file.fileno(), size * self._dtype.itemsize)
        except OSError as error:
            raise self._failed(error) from error

    @classmethod
    def of(cls, row: Array, folder: Path | None = None) -> "RowFile":
        """A copy of this row."""
        row_file = cls(row.size, row.dtype, folder)
        row_file[:] = row
        return row_file

    @classmethod
    def somewhere(
        cls, size: int, dtype: str | np.dtype[np.generic], folder: Path | None = None
    ) -> "RowFile":
        """In memory if the disk has no room for it: others may have filled it, and cannot end this peer's training."""
        try:
            return cls(size, dtype, folder)
        except RunError as error:
            log.warning("an update is kept in memory: %s", error)
            return cls(size, dtype, on_disk=False)

    def __setitem__(self, part: slice, numbers: Array) -> None:
        """Keep these numbers there."""
        first, _, _ = part.indices(self._size)
        if not self.filed:
            self._row[part] = numbers
            return
        left, at = (
            np.ascontiguousarray(numbers, self._dtype).data.cast("B"),
            first * self._dtype.itemsize,
        )
        try:
            while left:
                written = os.pwrite(self._file.fileno(), left, at)
                left, at = left[written:], at + written
        except OSError as error:
            raise self._failed(error) from error

    def keep(self, row: Array) -> None:
        """The whole row; in memory if the disk fails, for the same reason."""
        try:
            self[:] = row
        except RunError as error:
            log.warning("an update is kept in memory: %s", error)
            self.filed, self._row = False, np.array(row, self._dtype)

    def __getitem__(self, part: slice) -> Array:
        """A copy of the numbers there."""
        first, last, _ = part.indices(self._size)
        if not self.filed:
            return self._row[part].copy()
        size = (last - first) * self._dtype.itemsize
        return np.frombuffer(
            os.pread(self._file.fileno(), size, first * self._dtype.itemsize), self._dtype
        )

    def look(self) -> Array:
        """The row itself, to be read or changed; it takes memory as long as somebody holds it."""
        return (
            np.memmap(self._file, self._dtype, "r+", shape=(self._size,))
            if self.filed
            else self._row
        )

    def _failed(self, error: OSError) -> RunError:
        return RunError(
            f"{self._folder or 'temporary files'}: no room for a model on its way ({error.strerror}); free some space"
        )


class RowFiles(Sequence[Tensor]):
    """Rows in row_files, each put away and taken out when its turn comes."""

    def __init__(self, row_files: Sequence[RowFile]) -> None:
        self.row_files = row_files

    def __len__(self) -> int:
        return len(self.row_files)

    def __setitem__(self, which: int, row: Tensor) -> None:
        self.row_files[which].keep(row.numpy())

    @overload
    def __getitem__(self, which: int) -> Tensor: ...
    @overload
    def __getitem__(self, which: slice) -> "RowFiles": ...
    def __getitem__(self, which: int | slice) -> "Tensor | RowFiles":
        if isinstance(which, slice):
            return RowFiles(self.row_files[which])
        return torch.from_numpy(self.row_files[which].look())


def reserve(file: int, size: int) -> None:
    """Take the room now: a disk that is full later would end the process without a word."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, size)
    else:
        os.truncate(file, size)
