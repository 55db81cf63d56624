"""Updates that arrive for the owner: announced first, then chunk by chunk, and handed over whole or not at all.

Rules: nothing is allocated before the announcement has passed every check; a chunk is kept only if its digest is the
announced one; a contributor gives one update per version of the model, versions only go up, so that what comes twice
or is replayed is refused; what is longer than a multiple of the owner's own update is shortened. Large updates wait in
files: however many contributors there are, they take no memory.
"""

import hashlib
import logging
import threading
from dataclasses import dataclass, field
from math import sqrt
from pathlib import Path

import numpy as np

from federico.errors import ProtocolError, RunError
from federico.learning.rows import RowFile
from federico.network.local_peer import LocalPeer
from federico.network.wire.encoding import unpack
from federico.network.wire.header import MessageHeader
from federico.network.wire.messages import ChunkUpload, RefusedError
from federico.network.wire.signing import SignedMessage
from federico.types import Array

log = logging.getLogger(__name__)


@dataclass
class IncomingUpdate:
    """An update on its way in."""

    sealed: SignedMessage
    row_file: RowFile
    squares: dict[int, float] = field(default_factory=dict)
    """The sum of squares of each chunk that is here."""

    @property
    def whole(self) -> bool:
        """Whether all chunks are here."""
        return len(self.squares) == len(self.sealed.digests)

    @property
    def norm(self) -> float:
        """Length of the update."""
        return sqrt(sum(self.squares.values()))


class UpdateStore:
    """The updates for one owner's model, at most one uncollected per contributor."""

    def __init__(self, peer: LocalPeer, folder: Path | None = None) -> None:
        """`folder`: where large updates wait."""
        self._peer, self._folder = peer, folder
        self._epoch = self._version = 0
        self._parcels: dict[int, IncomingUpdate] = {}
        self._arrived: dict[int, IncomingUpdate] = {}
        self._last: dict[int, int] = {}
        self._lock = threading.Lock()

    def accept(self, epoch: int, version: int) -> None:
        """From now on updates are made on this version of the model, or on one not much older."""
        with self._lock:
            self._epoch, self._version = epoch, version
            # What was begun and never came to its end must not take room for ever.
            oldest = version - self._peer.limits.staleness
            for contributor, parcel in [*self._parcels.items()]:
                if parcel.sealed.header.epoch != epoch or parcel.sealed.header.version < oldest:
                    del self._parcels[contributor]

    def offer(self, sealed: SignedMessage) -> None:
        """Get ready for the chunks of this update, or refuse it. Who sent it, and to whom, is proven already."""
        header = sealed.header
        if not 0 < header.coefficient <= self._peer.limits.samples:
            raise ProtocolError(
                f"coefficient {header.coefficient:g}: none, or more than anybody's samples"
            )
        with self._lock:
            self._check_age(header)
            before = self._parcels.get(header.contributor)
        if before is None or before.sealed != sealed:  # the same once more: its answer was lost
            parcel = IncomingUpdate(sealed, self._room())  # a slow disk keeps nobody else waiting
            with self._lock:
                self._parcels[header.contributor] = parcel

    def add(self, contributor: int, part: ChunkUpload, payload: bytes) -> bool:
        """Take one chunk; returns whether it was new."""
        with self._lock:
            parcel = self._parcels.get(contributor) or self._arrived.get(contributor)
        if parcel is None or parcel.sealed.header.nonce != part.nonce:
            raise RefusedError("no such update was offered")
        if part.index >= self._peer.chunk_plan.chunks or len(
            payload
        ) != self._peer.chunk_plan.length(part.index):
            raise ProtocolError(f"chunk {part.index} of {len(payload)} bytes")
        if part.index in parcel.squares:
            return False
        if hashlib.sha256(payload).digest() != parcel.sealed.digests[part.index]:
            raise ProtocolError(f"chunk {part.index} is not the announced one")
        place = self._peer.chunk_plan.part(part.index)
        numbers = np.empty(place.stop - place.start, self._peer.schema.dtype)
        square = unpack(payload, self._peer.schema.wire, numbers)
        self._put(parcel, place, numbers)
        with self._lock:
            parcel.squares[part.index] = square
            if parcel.whole and self._parcels.get(contributor) is parcel:
                self._arrived[contributor] = self._parcels.pop(contributor)
                self._last[contributor] = parcel.sealed.header.version
        return True

    def take(self, own_norm: float) -> list[IncomingUpdate]:
        """The updates that are here, by contributor, none much longer than `own_norm`."""
        with self._lock:
            arrived, self._arrived = self._arrived, {}
        return [parcel for _, parcel in sorted(arrived.items()) if self._shorten(parcel, own_norm)]

    def _room(self) -> RowFile:
        try:
            return RowFile(self._peer.chunk_plan.size, self._peer.schema.dtype, self._folder)
        except RunError as error:
            log.error("an update cannot be taken: %s", error)
            raise RefusedError("no room for it") from None

    def _put(self, parcel: IncomingUpdate, place: slice, numbers: Array) -> None:
        try:
            parcel.row_file[place] = numbers
        except RunError as error:
            log.error("an update cannot be taken: %s", error)
            raise RefusedError("no room for it") from None

    def _check_age(self, header: MessageHeader) -> None:
        if header.epoch != self._epoch:
            raise RefusedError("made on a model from before a restart")
        if header.version > self._version:
            raise ProtocolError(f"version: {header.version}, but the newest is {self._version}")
        if header.version < self._version - self._peer.limits.staleness:
            raise RefusedError(f"made on version {header.version}, now is {self._version}: too old")
        if header.version <= self._last.get(header.contributor, 0):
            raise RefusedError(f"an update of version {header.version} or later came before")

    def _shorten(self, parcel: IncomingUpdate, own_norm: float) -> bool:
        """Whether the update can be used; shortened in place if it is too long."""
        contributor = self._peer.roster.members[parcel.sealed.header.contributor]
        if parcel.norm > self._peer.limits.refuse * own_norm:
            self._peer.reputation.strike(
                contributor, f"update of length {parcel.norm:.3g}, one's own is {own_norm:.3g}"
            )
            return False
        if parcel.norm > self._peer.limits.clip * own_norm:
            log.info("%s: update of length %.3g shortened", contributor, parcel.norm)
            row = parcel.row_file.look()
            row *= self._peer.limits.clip * own_norm / parcel.norm
        return True
