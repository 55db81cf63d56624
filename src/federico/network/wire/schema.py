"""What a message may be: agreed before anything is received, so that every size is known before it is allocated."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import ceil, prod


@dataclass(frozen=True)
class ModelSchema:
    """The model of a federation: the tensors of its row in order, the numbers it computes with, those it sends."""

    slots: tuple[tuple[str, tuple[int, ...]], ...]
    dtype: str
    """Of the row in memory."""
    wire: str
    """Of the row on the wire: `float16` and `bfloat16` halve the bytes and round the numbers."""

    @classmethod
    def of(
        cls, shapes: Mapping[str, tuple[int, ...]], dtype: str, wire: str | None = None
    ) -> "ModelSchema":
        """From named shapes in the order of the row; sent as they are where nothing else is said."""
        return cls(tuple(shapes.items()), dtype, wire or dtype)

    @cached_property
    def size(self) -> int:
        """How many numbers a row has."""
        return sum(prod(shape) for _, shape in self.slots)

    @cached_property
    def hash(self) -> bytes:
        """SHA-256 of all of it: equal only where names, shapes, order and numbers are."""
        return hashlib.sha256(json.dumps([self.slots, self.dtype, self.wire]).encode()).digest()


@dataclass(frozen=True)
class ChunkPlan:
    """How a row is cut for the wire."""

    size: int
    """Numbers in the row."""
    width: int
    """Bytes of a number on the wire."""
    chunk: int
    """Numbers in a chunk; the last one may be shorter."""

    @property
    def bytes(self) -> int:
        """Of the whole row on the wire."""
        return self.size * self.width

    @property
    def chunks(self) -> int:
        """How many there are."""
        return ceil(self.size / self.chunk)

    def part(self, index: int) -> slice:
        """Which numbers of the row chunk `index` holds."""
        return slice(index * self.chunk, min(self.size, (index + 1) * self.chunk))

    @property
    def parts(self) -> Iterator[slice]:
        """The numbers of every chunk."""
        return map(self.part, range(self.chunks))

    def length(self, index: int) -> int:
        """Bytes of chunk `index`."""
        part: slice = self.part(index)
        return int(part.stop - part.start) * self.width
