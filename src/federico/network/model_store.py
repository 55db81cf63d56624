"""What a peer serves: its model as it was at the start of a round, whole, whatever happens to it meanwhile."""

import hashlib
import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from federico.errors import RunError
from federico.learning.rows import RowFile
from federico.network.wire.encoding import pack
from federico.network.wire.messages import RefusedError
from federico.network.wire.schema import ChunkPlan
from federico.types import Array

log = logging.getLogger(__name__)
GRACE = 15.0
"""Seconds after its last question that a reader is still waited for: longer than a cut that heals."""
OLDER = 2
"""Editions kept for slow readers, at most: one who reads on purpose slowly must not fill the disk."""


def digests_of(chunks: Iterable[Array]) -> tuple[bytes, ...]:
    """SHA-256 of each chunk of a packed row."""
    return tuple(hashlib.sha256(chunk.data).digest() for chunk in chunks)


def digest_of(digests: tuple[bytes, ...]) -> bytes:
    """The one digest that stands for all chunks."""
    return hashlib.sha256(b"".join(digests)).digest()


@dataclass(eq=False)
class ModelVersion:
    """One version of the model, as it is sent."""

    version: int
    packed: Array | RowFile
    borrowed: bool
    """Whether `packed` is the peer's own row, which will change."""
    digests: tuple[bytes, ...]
    digest: bytes
    reading: dict[int, tuple[int, float]] = field(default_factory=dict)
    """How many chunks each reader has yet to ask for, and when it last did."""


class ModelStore:
    """The newest edition, and a few before it for as long as somebody is in the middle of them.

    An edition is the peer's own row, not a copy: it has to be told before the row changes or moves.
    """

    def __init__(
        self,
        chunk_plan: ChunkPlan,
        wire: str,
        folder: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`folder`: where editions wait that are still read."""
        self.epoch = secrets.randbits(63)
        self._chunk_plan, self._wire, self._folder, self._clock = chunk_plan, wire, folder, clock
        self._editions: list[ModelVersion] = []
        self._lock = threading.Lock()

    @property
    def newest(self) -> ModelVersion | None:
        """What is announced to who asks; nothing before the first publication and while the row changes."""
        with self._lock:
            return self._editions[-1] if self._editions else None

    def publish(self, version: int, row: Array) -> None:
        """Serve this row under this number from now on."""
        packed = pack(row, self._wire)
        digests = digests_of(packed[part] for part in self._chunk_plan.parts)
        edition = ModelVersion(version, packed, packed is row, digests, digest_of(digests))
        with self._lock:
            others = [
                old for old in self._editions if old.digest != edition.digest and self._is_read(old)
            ]
            self._editions = [*others[-OLDER:], edition]

    def settle(self) -> None:
        """The row is about to change: keep a copy for who is reading it, and serve it to nobody else."""
        with self._lock:
            self._editions = [
                edition
                for edition in self._editions
                if not edition.borrowed or self._put_away(edition)
            ]

    def move(self, row: Array) -> None:
        """The row has moved to this place, unchanged; the old place is let go."""
        with self._lock:
            for edition in self._editions:
                if edition.borrowed:
                    edition.packed = row

    def chunk(self, digest: bytes, reader: int, index: int) -> bytes:
        """One chunk of the edition with that digest."""
        with self._lock:
            for edition in self._editions:
                if edition.digest == digest:
                    return self._read(edition, reader, index)
        raise RefusedError("this version is gone; ask for the newest")

    def _put_away(self, edition: ModelVersion) -> bool:
        """Whether the edition has been copied, for who is reading it."""
        if not self._is_read(edition):
            return False
        try:
            edition.packed, edition.borrowed = RowFile.of(edition.packed[:], self._folder), False
        except RunError as error:
            log.error("who is reading this peer's model cannot go on: %s", error)
            return False
        return True

    def _read(self, edition: ModelVersion, reader: int, index: int) -> bytes:
        if index >= self._chunk_plan.chunks:
            raise RefusedError(f"chunk {index} of {self._chunk_plan.chunks}")
        left, _ = edition.reading.get(reader, (self._chunk_plan.chunks, 0.0))
        edition.reading[reader] = max(0, left - 1), self._clock()
        answer = edition.packed[self._chunk_plan.part(index)].tobytes()
        if edition is not self._editions[-1] and not self._is_read(edition):
            self._editions.remove(edition)
        return answer

    def _is_read(self, edition: ModelVersion) -> bool:
        now = self._clock()
        return any(left > 0 and now - last < GRACE for left, last in edition.reading.values())
