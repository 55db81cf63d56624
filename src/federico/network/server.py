"""The side of a peer that others meet: it announces and serves its model, and takes in updates for it."""

from pathlib import Path

import zenoh

from federico.errors import ProtocolError
from federico.exchange.protocol import COEFFICIENT_BYTES, Purpose
from federico.network.local_peer import LocalPeer
from federico.network.model_store import ModelStore
from federico.network.query_server import BusyError, QueryServer
from federico.network.update_store import UpdateStore
from federico.network.wire.header import Kind
from federico.network.wire.messages import (
    LATEST,
    ChunkRequest,
    ChunkUpload,
    ModelRequest,
    RefusedError,
)
from federico.types import Array


class PeerServer:
    """Answers for one peer's model, from its first publication until it is closed."""

    def __init__(self, session: zenoh.Session, peer: LocalPeer, folder: Path | None = None) -> None:
        """`folder`: where large rows wait that are not the method's."""
        self.shelf = ModelStore(peer.chunk_plan, peer.schema.wire, folder)
        self.inbox = UpdateStore(peer, folder)
        self._peer = peer
        others = [name for name in peer.roster.members if name != peer.name]
        # Who keeps to the agreement has a window of chunks under way, and what was asked again because it was slow.
        room = 2 * peer.limits.window * peer.limits.chunk_bytes
        self._desk = QueryServer(session, peer.roster.desk(peer.name), others, self._answer, room)

    def publish(self, version: int, row: Array) -> None:
        """Serve this row from now on, and take updates made on it."""
        self.shelf.publish(version, row)
        self.inbox.accept(self.shelf.epoch, version)

    def close(self) -> None:
        """Answer no more."""
        self._desk.close()

    def _answer(self, visitor: str, what: str, query: zenoh.Query) -> bytes:
        """What is against the rules is on the record of whom the key names: nobody else can ask under it."""
        peer, place = self._peer, self._peer.roster.members.index(visitor)
        if not peer.reputation.trusts(visitor):
            raise RefusedError(f"{visitor} is not heard now")
        question = b"" if query.attachment is None else query.attachment.to_bytes()
        try:
            match what:
                case "ask":
                    return self._announce(place, ModelRequest.decode(question))
                case "piece":
                    return self._chunk(place, ChunkRequest.decode(question))
                case "offer":
                    return self._offer(place, question)
                case "part":
                    payload = b"" if query.payload is None else query.payload.to_bytes()
                    return self._add(place, ChunkUpload.decode(question), payload)
            raise ProtocolError(f"a question of kind {what!r}")
        except ProtocolError as error:
            peer.reputation.strike(visitor, str(error))
            raise

    def _announce(self, visitor: int, ask: ModelRequest) -> bytes:
        newest = self.shelf.newest
        if newest is None or newest.version < ask.version:
            raise BusyError("not there yet")
        if newest.version > ask.version != LATEST:
            raise RefusedError(f"version {ask.version} is gone, {newest.version} is the newest")
        return self._peer.announce(
            Kind.MODEL,
            newest.digests,
            owner=self._peer.number,
            contributor=visitor,
            round_index=newest.version,
            version=newest.version,
            epoch=self.shelf.epoch,
            digest=newest.digest,
            nonce=ask.nonce,
        )

    def _chunk(self, visitor: int, piece: ChunkRequest) -> bytes:
        chunk = self.shelf.chunk(piece.digest, visitor, piece.index)
        purpose: Purpose = "evaluation" if piece.for_evaluation else "training"
        self._peer.traffic.sends(self._peer.number, len(chunk), purpose)
        return chunk

    def _offer(self, contributor: int, message: bytes) -> bytes:
        peer = self._peer
        name = peer.roster.members[contributor]
        self.inbox.offer(
            peer.open(message, name, kind=Kind.UPDATE, owner=peer.number, contributor=contributor)
        )
        peer.traffic.receives(peer.number, COEFFICIENT_BYTES)
        return b""

    def _add(self, contributor: int, part: ChunkUpload, payload: bytes) -> bytes:
        if self.inbox.add(contributor, part, payload):
            self._peer.traffic.receives(self._peer.number, len(payload))
        return b""
