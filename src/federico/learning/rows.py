"""Rows of numbers, and where they lie.

In memory, in a mapped file, or in a file each until their turn comes.

Nobody outside this file asks where rows lie. Numbers do not depend on it.
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
from federico.types import Array, BoolArray, FloatArray, IntArray

log = logging.getLogger(__name__)

LARGE = 1 << 20
"""Bytes from which on something gets room of its own: all of that is free again once it is gone,
where the heap would be left with a hole."""
SMALL = 1 << 14
"""Rows shorter than this are added many at once; longer ones one by one, which needs no copy of
them."""
TOGETHER = 1024
"""So many short rows are added at once, at most."""
ROOMY = 4
"""How many times too large a map of memory may be to be used again."""


class Rows(ABC):
    """Rows of equal length, such as the deltas that a round has computed."""

    @staticmethod
    def of(tensor: Tensor) -> "Rows":
        """The rows of this tensor, [count, size], themselves and not copies of them."""
        return RowsInTensor(tensor)

    @staticmethod
    def of_files(files: Sequence["RowFile"], size: int, dtype: torch.dtype) -> "Rows":
        """Rows of `size` numbers that have waited, each where it is.

        Those in memory are laid side by side.
        """
        if any(file.on_disk for file in files):
            return RowsInFiles(files)
        tensor = torch.empty(len(files), size, dtype=dtype)
        for row, file in zip(tensor, files, strict=True):
            row.copy_(torch.from_numpy(file.look()))
        return RowsInTensor(tensor)

    @abstractmethod
    def __len__(self) -> int:
        """How many rows there are."""

    @abstractmethod
    def __getitem__(self, which: int) -> Tensor:
        """One row itself, to be read or changed; it takes memory as long as somebody holds it."""

    def __iter__(self) -> Iterator[Tensor]:
        """One row after the other."""
        for which in range(len(self)):
            yield self[which]

    @abstractmethod
    def take(self, which: IntArray) -> "Rows":
        """The rows at these positions, in this order."""

    @abstractmethod
    def as_tensor(self) -> Tensor:
        """All rows in one tensor, [count, size]; those that lie in files are copied into memory."""

    @abstractmethod
    def sums(self) -> Tensor:
        """The sum of each row, [count]."""

    @abstractmethod
    def write(self, which: IntArray, values: Tensor) -> None:
        """Write values[k] into the row at which[k], for all k."""

    @abstractmethod
    def write_differences(
        self, which: IntArray, trained: Tensor, models: Tensor, places: Tensor
    ) -> None:
        """Write trained[k] - models[places[k]] into the row at which[k], for all k.

        The rows of `trained` may be changed on the way.
        """

    @abstractmethod
    def as_files(self, folder: Path | None) -> list["RowFile"]:
        """Each row where it can wait without the others.

        It is copied to `folder` if it does not lie alone yet.
        """

    def finite(self) -> BoolArray:
        """Whether each row holds neither a NaN nor an infinity.

        A sum is finite only if all its terms are, and it is read off without a copy of the rows.
        """
        finite: BoolArray = self.sums().isfinite().cpu().numpy()
        return finite

    def add_to(self, models: Tensor, places: Tensor, shares: FloatArray, columns: slice) -> None:
        """Add shares[k] times row k to models[places[k]], in these columns, for all k in order."""
        models = models[:, columns]
        for place, share, row in zip(places.tolist(), shares.tolist(), self, strict=True):
            models[place].add_(row[columns], alpha=share)


class RowsInTensor(Rows):
    """Rows side by side in one tensor, in memory or in a mapped file."""

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

    def write(self, which: IntArray, values: Tensor) -> None:
        """See `Rows.write`."""
        self._tensor[torch.from_numpy(which)] = values

    def write_differences(
        self, which: IntArray, trained: Tensor, models: Tensor, places: Tensor
    ) -> None:
        """See `Rows.write_differences`."""
        if self._are_short:
            differences = trained - models.index_select(0, places)
            positions = torch.from_numpy(which).to(self._tensor.device)
            self._tensor.index_copy_(0, positions, differences)
            return
        for k, place, row in zip(which.tolist(), places.tolist(), trained, strict=True):
            torch.sub(row, models[place], out=self._tensor[k])

    def as_files(self, folder: Path | None) -> list["RowFile"]:
        """See `Rows.as_files`: the tensor stays whole as long as somebody holds a part of it."""
        return [RowFile.keeping(row.numpy(), folder) for row in self._tensor]

    def add_to(self, models: Tensor, places: Tensor, shares: FloatArray, columns: slice) -> None:
        """See `Rows.add_to`."""
        if not self._are_short:
            super().add_to(models, places, shares, columns)
            return

        models = models[:, columns]
        rows = self._tensor[:, columns]
        factors = torch.from_numpy(shares).to(rows)[:, None]
        for first in range(0, len(rows), TOGETHER):
            some = slice(first, first + TOGETHER)
            models.index_add_(0, places[some], rows[some] * factors[some])

    @property
    def _are_short(self) -> bool:
        return self._tensor.shape[1] < SMALL


class RowsInFiles(Rows):
    """Rows in a file each: many of them take no memory, only those that somebody looks at."""

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
        return torch.tensor([float(row.sum()) for row in self])

    def write(self, which: IntArray, values: Tensor) -> None:
        """See `Rows.write`."""
        for k, row in zip(which.tolist(), values, strict=True):
            self._files[k].keep(row.numpy())

    def write_differences(
        self, which: IntArray, trained: Tensor, models: Tensor, places: Tensor
    ) -> None:
        """See `Rows.write_differences`.

        They are made in the place of `trained`, so that they take no memory.
        """
        for k, place, row in zip(which.tolist(), places.tolist(), trained, strict=True):
            self._files[k].keep(row.sub_(models[place]).numpy())

    def as_files(self, folder: Path | None) -> list["RowFile"]:
        """See `Rows.as_files`: they are there already."""
        return list(self._files)


class RowFile:
    """Room for one row that waits: a file without a name if it is large, else memory.

    The file is gone with the last who holds it, however the process ends.
    """

    def __init__(
        self,
        size: int,
        dtype: str | np.dtype[np.generic],
        folder: Path | None = None,
        *,
        on_disk: bool = True,
    ) -> None:
        """`folder` holds the file, or the system's folder for temporary files.

        `on_disk=False` forbids it.
        """
        self._size = size
        self._dtype = np.dtype(dtype)
        self._folder = folder
        self.on_disk = on_disk and size * self._dtype.itemsize >= LARGE
        if not self.on_disk:
            self._row: Array = np.empty(size, self._dtype)
            return

        try:
            # Open as long as this row is there.
            self._file = TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115
            weakref.finalize(self, self._file.close)
            reserve(self._file.fileno(), size * self._dtype.itemsize)
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
        """A copy of this row, in memory if the disk has no room for it."""
        file = cls.somewhere(row.size, row.dtype, folder)
        file.keep(row)
        return file

    @classmethod
    def somewhere(
        cls, size: int, dtype: str | np.dtype[np.generic], folder: Path | None = None
    ) -> "RowFile":
        """Room on the disk, or in memory if others have filled the disk.

        Whoever fills the disk cannot end this peer's training.
        """
        try:
            return cls(size, dtype, folder)
        except RunError as error:
            log.warning("an update is kept in memory: %s", error)
            return cls(size, dtype, on_disk=False)

    def __setitem__(self, part: slice, numbers: Array) -> None:
        """Keep these numbers in that part of the row."""
        if not self.on_disk:
            self._row[part] = numbers
            return

        first, _, _ = part.indices(self._size)
        position = first * self._dtype.itemsize
        left = np.ascontiguousarray(numbers, self._dtype).data.cast("B")
        try:
            while left:
                written = os.pwrite(self._file.fileno(), left, position)
                left = left[written:]
                position += written
        except OSError as error:
            raise self._failed(error) from error

    def keep(self, row: Array) -> None:
        """Keep the whole row, in memory if the disk fails."""
        try:
            self[:] = row
        except RunError as error:
            log.warning("an update is kept in memory: %s", error)
            self.on_disk = False
            self._row = np.array(row, self._dtype)

    def __getitem__(self, part: slice) -> Array:
        """A copy of the numbers in that part of the row."""
        if not self.on_disk:
            return self._row[part].copy()

        first, last, _ = part.indices(self._size)
        itemsize = self._dtype.itemsize
        content = os.pread(self._file.fileno(), (last - first) * itemsize, first * itemsize)
        return np.frombuffer(content, self._dtype)

    def look(self) -> Array:
        """The row itself, to be read or changed; it takes memory as long as somebody holds it."""
        if not self.on_disk:
            return self._row
        return np.memmap(self._file, self._dtype, "r+", shape=(self._size,))

    def _failed(self, error: OSError) -> RunError:
        place = self._folder or "temporary files"
        return RunError(
            f"{place}: no room for a model on its way ({error.strerror}); free some space"
        )


class RowStorage:
    """Gives rows to be filled.

    They lie in memory, or as maps of unnamed files that are gone with the last tensor using them.

    The system keeps of such a file in memory what there is room for, and takes it away again when
    others need the room.
    """

    def __init__(self, scratch: Path | None = None, outbox: Path | None = None) -> None:
        """`scratch` holds the files; without it all is in memory.

        In `outbox` deltas wait to be sent.
        """
        self.scratch = scratch
        self._outbox = outbox
        self._pages = ReusedPages()

    def empty(
        self, *shape: int, dtype: torch.dtype, device: torch.device, every_round: bool = False
    ) -> Tensor:
        """A tensor of this shape that holds anything.

        The memory of other devices than the CPU is their own.

        One that is asked for in every round, and gone before the next, takes the memory that the
        last such left.
        """
        size = prod(shape) * dtype.itemsize
        if device.type != "cpu" or size == 0:
            return torch.empty(shape, dtype=dtype, device=device)
        if self.scratch is not None:
            return map_file(self.scratch, size, dtype).view(shape)
        if size < LARGE:
            return torch.empty(shape, dtype=dtype, device=device)

        if every_round:
            pages = self._pages.tensor(size)
        else:
            pages = torch.frombuffer(map_memory(size), dtype=torch.uint8)
        return pages.view(dtype).view(shape)

    def deltas(self, count: int, size: int, *, dtype: torch.dtype, device: torch.device) -> Rows:
        """So many rows for the deltas of a round.

        Large ones that will be sent need no memory until then.
        """
        is_large = size * dtype.itemsize >= LARGE
        if self._outbox is None or device.type != "cpu" or not is_large:
            tensor = self.empty(count, size, dtype=dtype, device=device, every_round=True)
            return Rows.of(tensor)

        numpy_dtype = str(dtype).removeprefix("torch.")
        files: list[RowFile] = []
        for _ in range(count):
            files.append(RowFile.somewhere(size, numpy_dtype, self._outbox))
        return RowsInFiles(files)


class ReusedPages:
    """Maps of memory that are used again once their tensors are gone.

    Fresh pages take longer than what is written.

    Every round asks for about the same: rows for its deltas, and for the copy that a checkpoint is
    written from. When something is asked for that fits nothing, all that lies idle is given back
    first.
    """

    def __init__(self) -> None:
        self._idle: list[mmap.mmap] = []
        self._lock = Lock()

    def tensor(self, size: int) -> Tensor:
        """So many bytes that hold anything."""
        pages = self._take(size)
        # The array lives as long as the tensor and all its views.
        content = np.frombuffer(pages, dtype=np.uint8, count=size)
        weakref.finalize(content, self._idle.append, pages).atexit = False
        return torch.from_numpy(content)

    def _take(self, size: int) -> mmap.mmap:
        """The smallest idle map that fits, or a new one."""
        with self._lock:
            fitting = [pages for pages in self._idle if size <= len(pages) <= ROOMY * size]
            if fitting:
                pages = min(fitting, key=len)
                self._idle.remove(pages)
                return pages
            self._idle.clear()
        return map_memory(size)


def map_memory(size: int) -> mmap.mmap:
    """So many bytes of memory outside the heap, in large pages where the system has them."""
    pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel without them
            pages.madvise(mmap.MADV_HUGEPAGE)
    return pages


def map_file(folder: Path, size: int, dtype: torch.dtype) -> Tensor:
    """So many bytes of a file without a name in this folder, as a tensor."""
    try:
        with TemporaryFile(dir=folder) as file:
            reserve(file.fileno(), size)
            # Opened once more by torch, which keeps the map and closes the file: thousands of maps
            # need no open files.
            name = f"/dev/fd/{file.fileno()}"
            return torch.from_file(name, shared=True, size=size // dtype.itemsize, dtype=dtype)
    except OSError as error:
        raise RunError(
            f"{folder}: no room for {size >> 20} MiB of models that do not fit into memory "
            f"({error.strerror}). Nothing is lost: free some space or allow more `memory`, "
            "start again"
        ) from error


def reserve(file: int, size: int) -> None:
    """Take the room now: a disk that is full later would end the process without a word."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, size)
    else:
        os.truncate(file, size)
