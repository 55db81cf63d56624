"""The side of a peer that goes to others: it fetches their models and delivers updates for them."""

import hashlib
import logging
import secrets

from federico.errors import ProtocolError
from federico.exchange.protocol import COEFFICIENT_BYTES, Purpose
from federico.learning.rows import RowFile
from federico.network.local_peer import LocalPeer
from federico.network.model_store import digest_of, digests_of
from federico.network.presence import Presence
from federico.network.requests import Attempts, Deadline, Line, Question, ask_all, ask_until
from federico.network.wire.encoding import pack, unpack
from federico.network.wire.header import NONCE_BYTES, Kind, MessageHeader
from federico.network.wire.messages import LATEST, ChunkRequest, ChunkUpload, ModelRequest
from federico.network.wire.signing import SignedMessage
from federico.types import Array

log = logging.getLogger(__name__)


class PeerClient:
    """Asks for one peer."""

    def __init__(self, line: Line, peer: LocalPeer, presence: Presence) -> None:
        self._line, self._peer, self._membership = line, peer, presence

    def ask(
        self, owner: int, version: int, deadline: Deadline, *, patient: bool
    ) -> SignedMessage | None:
        """What the owner announces of its model; `patient`: even while it is away."""
        peer, name = self._peer, self._peer.roster.members[owner]
        nonce = secrets.token_bytes(NONCE_BYTES)
        question = Question(
            peer.roster.question(name, peer.name, "ask"), ModelRequest(nonce, version).encode()
        )
        attempts = Attempts(deadline, lambda _: not (patient or self._membership.here(name)))
        answer = ask_until(self._line, question, deadline, attempts)
        if answer is None:
            return None
        sealed = peer.open(
            answer, name, kind=Kind.MODEL, owner=owner, contributor=peer.number, nonce=nonce
        )
        if version != LATEST:
            sealed.header.require(version=version)
        return sealed

    def fetch(
        self, owner: int, announced: SignedMessage, row: Array, deadline: Deadline, purpose: Purpose
    ) -> bool:
        """Bring the announced model into `row`; whether all of it came. Raises RefusedError if it is gone already."""
        peer, name, chunk_plan = self._peer, self._peer.roster.members[owner], self._peer.chunk_plan
        key = peer.roster.question(name, peer.name, "piece")

        def question(index: int) -> Question:
            return Question(
                key, ChunkRequest(announced.header.digest, index, purpose == "evaluation").encode()
            )

        def keep(index: int, chunk: bytes) -> None:
            if hashlib.sha256(chunk).digest() != announced.digests[index]:
                raise ProtocolError(f"chunk {index} is not the announced one")
            unpack(chunk, peer.schema.wire, row[chunk_plan.part(index)])
            peer.traffic.receives(peer.number, len(chunk), purpose)

        attempts = self._attempts(name, deadline)
        return ask_all(self._line, question, keep, chunk_plan.chunks, deadline, attempts)

    def deliver(
        self,
        base: MessageHeader,
        row: RowFile,
        coefficient: float,
        round_index: int,
        deadline: Deadline,
    ) -> bool:
        """Give the owner of the model `base` an update made on it, chunk by chunk; whether it has all of it."""
        peer, name, chunk_plan = (
            self._peer,
            self._peer.roster.members[base.owner],
            self._peer.chunk_plan,
        )
        offer_key, part_key = (
            peer.roster.question(name, peer.name, what) for what in ("offer", "part")
        )
        nonce = secrets.token_bytes(NONCE_BYTES)
        offer = self._offer(base, row, coefficient, round_index, nonce)
        attempts = self._attempts(name, deadline)
        if ask_until(self._line, Question(offer_key, offer), deadline, attempts) is None:
            return False
        peer.traffic.sends(peer.number, COEFFICIENT_BYTES)

        def question(index: int) -> Question:
            chunk = pack(row[chunk_plan.part(index)], peer.schema.wire).tobytes()
            peer.traffic.sends(peer.number, len(chunk))
            return Question(part_key, ChunkUpload(nonce, index).encode(), chunk)

        return ask_all(self._line, question, lambda *_: None, chunk_plan.chunks, deadline, attempts)

    def _offer(
        self, base: MessageHeader, row: RowFile, coefficient: float, round_index: int, nonce: bytes
    ) -> bytes:
        peer = self._peer
        digests = digests_of(pack(row[part], peer.schema.wire) for part in peer.chunk_plan.parts)
        return peer.announce(
            Kind.UPDATE,
            digests,
            owner=base.owner,
            contributor=peer.number,
            round_index=round_index,
            version=base.version,
            epoch=base.epoch,
            digest=digest_of(digests),
            nonce=nonce,
            coefficient=coefficient,
        )

    def _attempts(self, name: str, deadline: Deadline) -> Attempts:
        return Attempts(
            deadline, lambda heard: self._membership.gone(name, heard, self._line.limits.grace)
        )
