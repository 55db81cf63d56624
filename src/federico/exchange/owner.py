"""The side of a peer that others meet: it announces and serves its model, and takes in updates for it."""

import logging

import zenoh

from federico.errors import ProtocolError
from federico.exchange.desk import BusyError, Desk
from federico.exchange.inbox import Inbox
from federico.exchange.memory import COEFFICIENT_BYTES
from federico.exchange.peer import Peer
from federico.exchange.shelf import Shelf
from federico.types import Array
from federico.wire.header import Kind
from federico.wire.talk import LATEST, Ask, Part, Piece, RefusedError

log = logging.getLogger(__name__)


class Owner:
    """Answers for one peer's model, from its first publication until it is closed."""

    def __init__(self, session: zenoh.Session, peer: Peer) -> None:
        self.shelf = Shelf(peer.layout, peer.schema.wire)
        self.inbox = Inbox(peer)
        self._peer = peer
        roster, name = peer.roster, peer.name
        self._desks = [
            Desk(session, f"{roster.model(name)}/*", self._serve),
            Desk(session, f"{roster.update(name, '*')}/*", self._receive),
        ]

    def publish(self, version: int, row: Array) -> None:
        """Serve this row from now on, and take updates made on it."""
        self.shelf.publish(version, row)
        self.inbox.accept(self.shelf.epoch, version)

    def close(self) -> None:
        """Answer no more."""
        for desk in self._desks:
            desk.close()

    def _serve(self, query: zenoh.Query) -> bytes:
        if str(query.key_expr).endswith("/chunk"):
            return self._chunk(Piece.decode(_attachment(query)))
        return self._announce(Ask.decode(_attachment(query)))

    def _announce(self, ask: Ask) -> bytes:
        peer, newest = self._peer, self.shelf.newest
        if ask.asker >= len(peer.roster.members):
            raise ProtocolError(f"asked by member {ask.asker} of {len(peer.roster.members)}")
        if newest is None or newest.version < ask.version:
            raise BusyError("not there yet")
        if newest.version > ask.version != LATEST:
            raise RefusedError(f"version {ask.version} is gone, {newest.version} is the newest")
        return peer.announce(
            Kind.MODEL,
            newest.digests,
            owner=peer.number,
            contributor=ask.asker,
            round_index=newest.version,
            version=newest.version,
            epoch=self.shelf.epoch,
            digest=newest.digest,
            nonce=ask.nonce,
        )

    def _chunk(self, piece: Piece) -> bytes:
        chunk = self.shelf.chunk(piece.digest, piece.asker, piece.index)
        self._peer.traffic.sends(self._peer.number, len(chunk))
        return chunk

    def _receive(self, query: zenoh.Query) -> bytes:
        """An offer or a chunk from whoever the key names; what is against the rules is on that one's record."""
        *_, contributor, what = str(query.key_expr).split("/")
        if contributor not in self._peer.roster.members or contributor == self._peer.name:
            raise ProtocolError(f"an update of {contributor!r}")
        if not self._peer.conduct.trusts(contributor):
            raise RefusedError(f"{contributor} is not heard now")
        try:
            (self._offer if what == "offer" else self._add)(query, contributor)
        except ProtocolError as error:
            self._peer.conduct.strike(contributor, str(error))
            raise
        return b""

    def _offer(self, query: zenoh.Query, contributor: str) -> None:
        peer, place = self._peer, self._peer.roster.members.index(contributor)
        expected = {"kind": Kind.UPDATE, "owner": peer.number, "contributor": place}
        self.inbox.offer(peer.open(_attachment(query), contributor, **expected))
        peer.traffic.receives(peer.number, COEFFICIENT_BYTES)

    def _add(self, query: zenoh.Query, contributor: str) -> None:
        payload = b"" if query.payload is None else query.payload.to_bytes()
        part = Part.decode(_attachment(query))
        if self.inbox.add(self._peer.roster.members.index(contributor), part, payload):
            self._peer.traffic.receives(self._peer.number, len(payload))


def _attachment(query: zenoh.Query) -> bytes:
    if query.attachment is None:
        raise ProtocolError("a question without content")
    return query.attachment.to_bytes()
