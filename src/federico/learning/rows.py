"""Rows of numbers, and where they are stored: in memory, in a mapped file, or in one file per row.

No code outside this file asks where rows are stored, and no result depends on it.
"""

import logging
import mmap
import os
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import suppress
from math import prod
from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock

import numpy as np
import torch
from torch import Tensor

from federico.errors import RunError
from federico.open_files import once_files_are_free
from federico.types import Array, BoolArray, FloatArray, IntArray

log = logging.getLogger(__name__)

LARGE = 1 << 20
"""Anything of at least this many bytes is allocated outside the heap: all its memory is free again
once it is gone, where the heap would be left with a hole."""
SMALL = 1 << 14
"""Rows with fewer numbers than this are added many at once; longer rows are added one by one, which
needs no copy of them."""
TOGETHER = 1024
"""The largest number of short rows that are added at once."""
ROOMY = 4
"""Idle memory is used again for a request if it is at most this many times too large."""


class Rows(ABC):
    """Rows of equal length, such as the deltas that a round has computed."""

    @staticmethod
    def of(tensor: Tensor) -> "Rows":
        """The rows of this tensor, [count, size], without a copy."""
        return RowsInTensor(tensor)

    @staticmethod
    def of_files(files: Sequence["RowFile"], size: int, dtype: torch.dtype) -> "Rows":
        """Rows of `size` numbers from these files: copied into one tensor if none is on disk."""
        if any(file.on_disk for file in files):
            return RowsInFiles(files)

        tensor = torch.empty(len(files), size, dtype=dtype)
        for row, file in zip(tensor, files, strict=True):
            stored = torch.from_numpy(file.look())
            row.copy_(stored)
        return RowsInTensor(tensor)

    @abstractmethod
    def __len__(self) -> int:
        """How many rows there are."""

    @abstractmethod
    def __getitem__(self, which: int) -> Tensor:
        """One row itself, to be read or changed; it takes memory as long as it is referenced."""

    def __iter__(self) -> Iterator[Tensor]:
        """Yield one row after the other."""
        for which in range(len(self)):
            yield self[which]

    @abstractmethod
    def take(self, which: IntArray) -> "Rows":
        """The rows at these positions, in this order."""

    @abstractmethod
    def as_tensor(self) -> Tensor:
        """All rows in one tensor, [count, size]; rows in files are copied into memory."""

    @abstractmethod
    def sums(self) -> Tensor:
        """The sum of each row, [count]."""

    def lengths(self) -> FloatArray:
        """The Euclidean length of each row, [count]."""
        return np.array([_length(row) for row in self])

    def distances(self, which: IntArray, others: IntArray) -> FloatArray:
        """How far the row at which[k] is from the one at others[k], for all k."""
        distances: list[float] = []
        for mine, other in zip(which.tolist(), others.tolist(), strict=True):
            difference = self[mine] - self[other]
            distances.append(_length(difference))
        return np.array(distances)

    @abstractmethod
    def write(self, which: IntArray, values: Tensor) -> None:
        """Write values[k] into the row at which[k], for all k."""

    @abstractmethod
    def write_differences(
        self, which: IntArray, trained: Tensor, models: Tensor, places: Tensor
    ) -> None:
        """Write trained[k] - models[places[k]] into the row at which[k], for all k.

        The contents of `trained` may be lost.
        """

    @abstractmethod
    def as_files(self, folder: Path | None) -> list["RowFile"]:
        """Each row in a file of its own; rows that are not in files yet are copied to `folder`."""

    def finite(self) -> BoolArray:
        """Whether each row holds neither a NaN nor an infinity.

        A sum is finite only if all its terms are, and computing it needs no copy of the rows.
        """
        is_finite = self.sums().isfinite()
        finite: BoolArray = is_finite.cpu().numpy()
        return finite

    def add_to(self, models: Tensor, places: Tensor, shares: FloatArray, columns: slice) -> None:
        """Add shares[k] times row k to models[places[k]], in these columns, for all k in order."""
        to_change = models[:, columns]
        targets = zip(places.tolist(), shares.tolist(), self, strict=True)
        for place, share, row in targets:
            to_change[place].add_(row[columns], alpha=share)


class RowsInTensor(Rows):
    """Rows in one tensor, which is in memory or in a mapped file."""

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor

    def __len__(self) -> int:
        """See `Rows`."""
        return len(self._tensor)

    def __getitem__(self, which: int) -> Tensor:
        """See `Rows`."""
        return self._tensor[which]

    def __iter__(self) -> Iterator[Tensor]:
        """See `Rows`."""
        return iter(self._tensor)

    def take(self, which: IntArray) -> Rows:
        """See `Rows.take`."""
        return RowsInTensor(self._tensor[which])

    def as_tensor(self) -> Tensor:
        """See `Rows.as_tensor`: no copy."""
        return self._tensor

    def sums(self) -> Tensor:
        """See `Rows.sums`."""
        return self._tensor.sum(1)

    def lengths(self) -> FloatArray:
        """See `Rows.lengths`."""
        if not self._are_short:
            return super().lengths()
        return _lengths(self._tensor)

    def distances(self, which: IntArray, others: IntArray) -> FloatArray:
        """See `Rows.distances`."""
        if not self._are_short:
            return super().distances(which, others)

        distances = np.zeros(len(which))
        for first in range(0, len(which), TOGETHER):
            some = slice(first, first + TOGETHER)
            differences = self._tensor[which[some]] - self._tensor[others[some]]
            distances[some] = _lengths(differences)
        return distances

    def write(self, which: IntArray, values: Tensor) -> None:
        """See `Rows.write`."""
        positions = torch.from_numpy(which)
        self._tensor[positions] = values

    def write_differences(
        self, which: IntArray, trained: Tensor, models: Tensor, places: Tensor
    ) -> None:
        """See `Rows.write_differences`."""
        if self._are_short:
            differences = trained - models.index_select(0, places)  # [rows, size]
            positions = torch.from_numpy(which).to(self._tensor.device)
            self._tensor.index_copy_(0, positions, differences)
            return

        # One by one, which needs no memory for the differences.
        for k, place, row in zip(which.tolist(), places.tolist(), trained, strict=True):
            delta = self._tensor[k]
            torch.sub(row, models[place], out=delta)

    def as_files(self, folder: Path | None) -> list["RowFile"]:
        """See `Rows.as_files`.

        Rows are copied, because a view of one row would keep the whole tensor in memory.
        """
        return [RowFile.keeping(row.numpy(), folder) for row in self._tensor]

    def add_to(self, models: Tensor, places: Tensor, shares: FloatArray, columns: slice) -> None:
        """See `Rows.add_to`."""
        if not self._are_short:
            super().add_to(models, places, shares, columns)
            return

        models = models[:, columns]
        rows = self._tensor[:, columns]
        factors = torch.from_numpy(shares).to(rows)[:, None]  # [rows, 1]
        for first in range(0, len(rows), TOGETHER):
            some = slice(first, first + TOGETHER)
            weighted = rows[some] * factors[some]
            models.index_add_(0, places[some], weighted)

    @property
    def _are_short(self) -> bool:
        """Whether rows are so short that working on many at once is faster than one by one."""
        size = self._tensor.shape[1]
        return size < SMALL


def _length(row: Tensor) -> float:
    """In double precision: the square of a huge number must not be infinite."""
    return float(row.norm(dtype=torch.float64))


def _lengths(rows: Tensor) -> FloatArray:
    """The length of each of these rows, [rows], as `_length` finds it."""
    lengths: FloatArray = rows.norm(dim=1, dtype=torch.float64).cpu().numpy()
    return lengths


class RowsInFiles(Rows):
    """Rows in one file each: only rows that are in use take memory."""

    def __init__(self, files: Sequence["RowFile"]) -> None:
        self._files = files

    def __len__(self) -> int:
        """See `Rows`."""
        return len(self._files)

    def __getitem__(self, which: int) -> Tensor:
        """See `Rows`."""
        return torch.from_numpy(self._files[which].look())

    def take(self, which: IntArray) -> Rows:
        """See `Rows.take`."""
        return RowsInFiles([self._files[k] for k in which.tolist()])

    def as_tensor(self) -> Tensor:
        """See `Rows.as_tensor`."""
        return torch.stack(list(self))

    def sums(self) -> Tensor:
        """See `Rows.sums`."""
        sums = [float(row.sum()) for row in self]
        return torch.tensor(sums)

    def write(self, which: IntArray, values: Tensor) -> None:
        """See `Rows.write`."""
        for k, row in zip(which.tolist(), values, strict=True):
            self._files[k].keep(row.numpy())

    def write_differences(
        self, which: IntArray, trained: Tensor, models: Tensor, places: Tensor
    ) -> None:
        """See `Rows.write_differences`.

        Differences overwrite `trained`, so that they need no memory of their own.
        """
        for k, place, row in zip(which.tolist(), places.tolist(), trained, strict=True):
            delta = row.sub_(models[place])
            self._files[k].keep(delta.numpy())

    def as_files(self, folder: Path | None) -> list["RowFile"]:
        """See `Rows.as_files`: rows are in files already."""
        return list(self._files)


class RowFile:
    """Storage for one row until it is needed: an unnamed file if the row is large, else memory.

    The file disappears with the last reference to this object, however the process ends.
    """

    def __init__(
        self,
        size: int,
        dtype: str | np.dtype[np.generic],
        folder: Path | None = None,
        *,
        on_disk: bool = True,
    ) -> None:
        """`folder` is where the file is created; by default, where temporary files are.

        With `on_disk=False` the row stays in memory however large it is.
        """
        self._size = size
        self._dtype = np.dtype(dtype)
        self._folder = folder
        row_bytes = size * self._dtype.itemsize
        self.on_disk = on_disk and row_bytes >= LARGE
        if not self.on_disk:
            self._row: Array = np.empty(size, self._dtype)
            return

        try:
            # Open as long as this object exists.
            self._file = once_files_are_free(
                lambda: TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115
            )
            weakref.finalize(self, self._file.close)
            reserve(self._file.fileno(), row_bytes)
        except OSError as error:
            raise self._failed(error) from error

    @classmethod
    def of(cls, row: Array, folder: Path | None = None) -> "RowFile":
        """A copy of this row."""
        file = cls(row.size, row.dtype, folder)
        file[:] = row
        return file

    @classmethod
    def keeping(cls, row: Array, folder: Path | None = None) -> "RowFile":
        """A copy of this row, in memory if the disk is full."""
        file = cls.somewhere(row.size, row.dtype, folder)
        file.keep(row)
        return file

    @classmethod
    def somewhere(
        cls, size: int, dtype: str | np.dtype[np.generic], folder: Path | None = None
    ) -> "RowFile":
        """Storage on disk, or in memory if the disk is full.

        Another program that fills the disk must not end this peer's training.
        """
        try:
            return cls(size, dtype, folder)
        except RunError as error:
            log.warning("a model on its way is kept in memory: %s", error)
            return cls(size, dtype, on_disk=False)

    def __setitem__(self, part: slice, numbers: Array) -> None:
        """Write these numbers into this part of the row."""
        if not self.on_disk:
            self._row[part] = numbers
            return

        first, _, _ = part.indices(self._size)
        position = first * self._dtype.itemsize
        contiguous = np.ascontiguousarray(numbers, self._dtype)
        left = contiguous.data.cast("B")
        try:
            # A single call may write less than it was given.
            while left:
                written = os.pwrite(self._file.fileno(), left, position)
                left = left[written:]
                position += written
        except OSError as error:
            raise self._failed(error) from error

    def keep(self, row: Array) -> None:
        """Store the whole row, in memory if writing to disk fails."""
        try:
            self[:] = row
        except RunError as error:
            log.warning("a model on its way is kept in memory: %s", error)
            self.on_disk = False
            self._row = np.array(row, self._dtype)

    def __getitem__(self, part: slice) -> Array:
        """A copy of the numbers in this part of the row."""
        if not self.on_disk:
            return self._row[part].copy()

        first, last, _ = part.indices(self._size)
        length = (last - first) * self._dtype.itemsize
        position = first * self._dtype.itemsize
        content = os.pread(self._file.fileno(), length, position)
        return np.frombuffer(content, self._dtype)

    def look(self) -> Array:
        """The row itself, to be read or changed; it takes memory as long as it is referenced."""
        if not self.on_disk:
            return self._row
        return np.memmap(self._file, self._dtype, "r+", shape=(self._size,))

    def _failed(self, error: OSError) -> RunError:
        place = self._folder or "temporary files"
        return RunError(
            f"{place}: no room for a model on its way ({error.strerror}); free some space"
        )


class RowStorage:
    """Allocates uninitialised rows, in memory or as maps of unnamed files.

    A file disappears with the last tensor that uses it. The system keeps as much of it in memory as
    there is room for, and writes it to disk when other programs need the memory.
    """

    def __init__(self, scratch: Path | None = None, outbox: Path | None = None) -> None:
        """`scratch` is the folder of the mapped files; without it everything is in memory.

        `outbox` is the folder in which large deltas are kept until they are sent.
        """
        self.scratch = scratch
        self._outbox = outbox
        self._pages = ReusedPages()

    def empty(
        self, *shape: int, dtype: torch.dtype, device: torch.device, every_round: bool = False
    ) -> Tensor:
        """An uninitialised tensor of this shape.

        `every_round` says that such a tensor is requested in every round and released before the
        next: it reuses the memory that the previous one has left. Devices other than the CPU manage
        their own memory.
        """
        size = prod(shape) * dtype.itemsize
        if device.type != "cpu" or size == 0:
            return torch.empty(shape, dtype=dtype, device=device)
        if self.scratch is not None:
            return map_file(self.scratch, size, dtype).view(shape)
        if size < LARGE:
            return torch.empty(shape, dtype=dtype, device=device)

        if every_round:
            content = self._pages.tensor(size)
        else:
            pages = map_memory(size)
            content = torch.frombuffer(pages, dtype=torch.uint8)
        return content.view(dtype).view(shape)

    def deltas(self, count: int, size: int, *, dtype: torch.dtype, device: torch.device) -> Rows:
        """Uninitialised rows for the deltas of a round.

        Large deltas that will be sent over a network are kept in files until then.
        """
        is_large = size * dtype.itemsize >= LARGE
        if self._outbox is None or device.type != "cpu" or not is_large:
            tensor = self.empty(count, size, dtype=dtype, device=device, every_round=True)
            return Rows.of(tensor)

        numpy_dtype = str(dtype).removeprefix("torch.")
        files: list[RowFile] = []
        for _ in range(count):
            file = RowFile.somewhere(size, numpy_dtype, self._outbox)
            files.append(file)
        return RowsInFiles(files)


class ReusedPages:
    """Memory that is used again once the tensors in it are gone.

    Getting new pages from the system takes longer than writing to them, and every round requests
    about the same: rows for its deltas, and for the copy that a checkpoint is written from. If no
    idle memory fits a request, all of it is returned to the system first.
    """

    def __init__(self) -> None:
        self._idle: list[mmap.mmap] = []
        self._lock = Lock()

    def tensor(self, size: int) -> Tensor:
        """An uninitialised tensor of `size` bytes."""
        pages = self._take(size)
        content = np.frombuffer(pages, dtype=np.uint8, count=size)

        # The array lives as long as the tensor and all its views; then the memory is idle.
        returning = weakref.finalize(content, self._idle.append, pages)
        returning.atexit = False
        return torch.from_numpy(content)

    def _take(self, size: int) -> mmap.mmap:
        """The smallest idle memory that fits, or new memory."""
        largest = ROOMY * size
        with self._lock:
            fitting = [pages for pages in self._idle if size <= len(pages) <= largest]
            if fitting:
                pages = min(fitting, key=len)
                self._idle.remove(pages)
                return pages
            self._idle.clear()
        return map_memory(size)


def map_memory(size: int) -> mmap.mmap:
    """`size` bytes of memory outside the heap, in large pages if the system has them."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    pages = mmap.mmap(-1, size, flags=flags)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel without large pages
            pages.madvise(mmap.MADV_HUGEPAGE)
    return pages


def map_file(folder: Path, size: int, dtype: torch.dtype) -> Tensor:
    """A tensor of `size` bytes that is mapped to an unnamed file in this folder."""
    try:
        with once_files_are_free(lambda: TemporaryFile(dir=folder)) as file:
            reserve(file.fileno(), size)
            # Torch opens the file once more, maps it and closes it, so thousands of maps need no
            # open files.
            name = f"/dev/fd/{file.fileno()}"
            numbers = size // dtype.itemsize
            return torch.from_file(name, shared=True, size=numbers, dtype=dtype)
    except OSError as error:
        raise RunError(
            f"{folder}: no room for {size >> 20} MiB of models that do not fit into memory "
            f"({error.strerror}). Nothing is lost: free some space or allow more `memory`, "
            "start again"
        ) from error


def reserve(file: int, size: int) -> None:
    """Allocate the file's disk space now.

    If the disk were full later, writing to a map of the file would kill the process.
    """
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, size)
    else:
        os.truncate(file, size)
