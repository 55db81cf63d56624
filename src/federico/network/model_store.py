"""The versions of a peer's model that it serves: each as it was at the start of a round, whole.

The newest version is the peer's own row, not a copy, so the store has to be told before the row
changes (`release_row`) or moves (`move_row`). Older versions are kept for those in the middle of
fetching them, and only for a while.
"""

import logging
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from federico.errors import RunError
from federico.learning.rows import RowFile
from federico.network.protocol import Publication
from federico.network.wire.encoding import chunk_digests, pack
from federico.network.wire.schema import ChunkPlan
from federico.types import Array

log = logging.getLogger(__name__)

READER_GRACE = 15.0
"""Seconds after its last request that a reader is waited for: longer than a cut that heals."""
MOST_OLDER = 2
"""Older versions kept for slow readers: one who reads slowly on purpose must not fill the disk."""


@dataclass
class Reader:
    """A member in the middle of fetching a version."""

    chunks_left: int
    """Chunks that it has yet to request."""
    last_request: float
    """When it last requested one, by the store's clock."""
    began: float
    """When it requested the first one."""


@dataclass(eq=False)
class ServedVersion:
    """One version of the model, as it is sent."""

    publication: Publication
    packed: Array | RowFile
    """The row in the type of the wire."""
    borrowed: bool
    """Whether `packed` is the peer's own row, which will change."""
    readers: dict[int, Reader] = field(default_factory=dict)


class ModelStore:
    """Holds the newest version, and a few before it that somebody is still fetching."""

    def __init__(
        self,
        chunk_plan: ChunkPlan,
        wire: str,
        folder: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
        longest: float = math.inf,
    ) -> None:
        """`wire` is the type of numbers that travels; `folder` holds copies of older versions.

        A reader that takes longer than `longest` seconds is waited for no more.
        """
        self._chunk_plan = chunk_plan
        self._wire = wire
        self._folder = folder
        self._clock = clock
        self._longest = longest
        self._versions: list[ServedVersion] = []
        self._lock = threading.Lock()

    def publish(self, version: int, row: Array) -> Publication:
        """Serve this row as this version from now on."""
        packed = pack(row, self._wire)
        digests = chunk_digests(packed[chunk] for chunk in self._chunk_plan)
        publication = Publication(version, digests)
        newest = ServedVersion(publication, packed, borrowed=packed is row)

        with self._lock:
            older = []
            for served in self._versions:
                unchanged = served.publication.digest == publication.digest
                if not unchanged and self._is_read(served):
                    older.append(served)
            self._versions = [*older[-MOST_OLDER:], newest]
        return publication

    def release_row(self) -> Publication | None:
        """The row is about to change: copy it for those who are reading it, and let it go.

        Returns what can still be announced, if anything.
        """
        with self._lock:
            kept = []
            for served in self._versions:
                if not served.borrowed or self._copy_for_readers(served):
                    kept.append(served)
            self._versions = kept
            return kept[-1].publication if kept else None

    def move_row(self, row: Array) -> None:
        """The row lies in this place now, unchanged; its old place is let go."""
        with self._lock:
            for served in self._versions:
                if served.borrowed:
                    served.packed = row

    def chunk(self, digest: bytes, reader: int, index: int) -> bytes | None:
        """One chunk of the version with this digest; None if that version is gone."""
        with self._lock:
            for served in self._versions:
                if served.publication.digest == digest:
                    return self._read(served, reader, index)
        return None

    def _copy_for_readers(self, served: ServedVersion) -> bool:
        """Replace the borrowed row by a copy; returns whether there is one to keep."""
        if not self._is_read(served):
            return False
        try:
            served.packed = RowFile.of(served.packed[:], self._folder)
        except RunError as error:
            log.error("members that are fetching this peer's model must start again: %s", error)
            return False
        served.borrowed = False
        return True

    def _read(self, served: ServedVersion, reader: int, index: int) -> bytes:
        known = served.readers.get(reader)
        now = self._clock()
        if known is None:
            known = Reader(self._chunk_plan.chunks, now, now)
        served.readers[reader] = Reader(max(0, known.chunks_left - 1), now, known.began)

        chunk = served.packed[self._chunk_plan.chunk(index)].tobytes()

        # An older version goes with the last request of its last reader.
        if served is not self._versions[-1] and not self._is_read(served):
            self._versions.remove(served)
        return chunk

    def _is_read(self, served: ServedVersion) -> bool:
        now = self._clock()
        for reader in served.readers.values():
            recent = now - reader.last_request < READER_GRACE
            recent = recent and now - reader.began < self._longest
            if reader.chunks_left > 0 and recent:
                return True
        return False
