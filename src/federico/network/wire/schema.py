"""What rows of numbers may travel: agreed before anything is received.

Every size is known from here before a byte of it is allocated.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, prod

from federico.errors import ConfigError
from federico.learning.layout import ModelLayout, RowLayout
from federico.network.wire.encoding import WIDTHS
from federico.network.wire.messages import DIGEST_BYTES, LARGEST_MESSAGE

ENVELOPE_BYTES = 16 << 10
"""Room in a message for all but the digests: header, certificate, signature, key, framing."""
MOST_CHUNKS = (LARGEST_MESSAGE - ENVELOPE_BYTES) // DIGEST_BYTES
"""How many chunks one message can announce."""


@dataclass(frozen=True)
class ModelSchema:
    """The model of a federation: the tensors of its row in order, and the types of its numbers."""

    slots: tuple[tuple[str, tuple[int, ...]], ...]
    """Name and shape of each tensor, in the order of the row."""
    dtype: str
    """Type of the numbers in memory."""
    wire: str
    """Type of the numbers that travel: `float16` and `bfloat16` halve the bytes and round."""
    base: str = ""
    """Hash of the tensors that do not travel because everybody has them; empty if there are none.
    Rows mean nothing to a member with another base."""

    @classmethod
    def of_layout(
        cls, layout: ModelLayout, wire: str | None = None, rows: RowLayout | None = None
    ) -> "ModelSchema":
        """The schema of whole models of this layout, or of `rows` that hold a part of them."""
        shapes = {slot.name: slot.shape for slot in (rows or layout).slots}
        dtype = str(layout.dtype).removeprefix("torch.")
        schema = cls.of(shapes, dtype, wire)
        if not layout.base_slots:
            return schema
        digest = hashlib.sha256(layout.base.numpy().data).hexdigest()
        return replace(schema, base=digest)

    @classmethod
    def of(
        cls, shapes: Mapping[str, tuple[int, ...]], dtype: str, wire: str | None = None
    ) -> "ModelSchema":
        """A schema from named shapes; numbers travel as they are unless `wire` says otherwise."""
        return cls(tuple(shapes.items()), dtype, wire or dtype)

    @cached_property
    def size(self) -> int:
        """How many numbers a row has."""
        return sum(prod(shape) for _, shape in self.slots)

    @cached_property
    def hash(self) -> bytes:
        """SHA-256 of the schema: equal only where names, shapes, order, types and base are."""
        described = [self.slots, self.dtype, self.wire]
        if self.base:
            described.append(self.base)
        text = json.dumps(described)
        return hashlib.sha256(text.encode()).digest()


@dataclass(frozen=True)
class ChunkPlan:
    """How a row is cut into chunks to travel."""

    size: int
    """Numbers in the row."""
    width: int
    """Bytes of a number on the wire."""
    chunk_numbers: int
    """Numbers in a chunk; the last one may have fewer."""

    @classmethod
    def of(cls, schema: ModelSchema, chunk_bytes: int) -> "ChunkPlan":
        """Cut a model into chunks of this many bytes, if one message can announce them all."""
        width = WIDTHS[schema.wire]
        plan = cls(schema.size, width, chunk_bytes // width)
        if plan.chunks > MOST_CHUNKS:
            smallest = ceil(schema.size / MOST_CHUNKS) * width
            raise ConfigError(
                f"limits.chunk_bytes = {chunk_bytes}: a model of {schema.size:,} numbers would "
                f"travel in {plan.chunks:,} chunks, and one message can announce {MOST_CHUNKS:,}; "
                f"set it to {smallest} or more"
            )
        return plan

    @property
    def bytes(self) -> int:
        """Bytes of the whole row on the wire."""
        return self.size * self.width

    @property
    def chunks(self) -> int:
        """How many chunks a row has."""
        return ceil(self.size / self.chunk_numbers)

    def chunk(self, index: int) -> slice:
        """Which numbers of the row are in chunk `index`."""
        start = index * self.chunk_numbers
        return slice(start, min(self.size, start + self.chunk_numbers))

    def chunk_bytes(self, index: int) -> int:
        """Bytes of chunk `index` on the wire."""
        numbers = self.chunk(index)
        return int(numbers.stop - numbers.start) * self.width

    def __iter__(self) -> Iterator[slice]:
        """The numbers of each chunk, in order."""
        return map(self.chunk, range(self.chunks))
