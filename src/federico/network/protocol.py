"""The rules of the peer network: what one peer may say to another, and what follows from it.

This file is the specification. Nothing in it does I/O: there is no session, no thread, no file, and
no clock but the one that `Terms` is given. Bytes that came from another member go in, a decision
comes out; `server.py` carries out what an owner decides, `client.py` what a visitor decides. Each
object here is one side of the conversation between two members and must be used by one thread at a
time.

    the visitor sends                             the owner decides
    -------------------------------------------   ---------------------------------------------
    request-model   nonce, version                Announce, Busy, Refuse
    request-chunk   digest of the model, index    SendChunk, Refuse
    offer-update    signed offer                  MakeRoom, Acknowledge, Refuse
    upload-chunk    nonce of the offer, index,    StoreChunk, Acknowledge, Refuse
                    the numbers of the chunk

An incoming update is checked here: `_check_offer` looks at what is offered, `_decide_upload` at
each chunk of it. What the owner makes of it then is in `federico.methods.federico_owner`.

What no honest peer sends is a Violation, whatever was sent: it is refused, and held against the
sender. Where a relay passes messages on, only what the sender has signed is held against it: the
relay could make up all else. Being late, slow or repetitive is none, nor is another version of the
program, an expired certificate or a wrong clock. A peer that gets no answer says the same again,
so everything may be said twice: the second time changes nothing.
"""

import hashlib
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum, auto
from functools import cached_property
from math import sqrt
from typing import NamedTuple, TypeAlias

import numpy as np

from federico.errors import ProtocolError, SignedProtocolError
from federico.exchange.protocol import Purpose
from federico.network.limits import Limits
from federico.network.roster import Roster
from federico.network.wire.encoding import digest_of_digests, unpack
from federico.network.wire.messages import (
    LATEST,
    ChunkRequest,
    ChunkUpload,
    Kind,
    MessageHeader,
    ModelRequest,
    RefusedError,
    SignedMessage,
)
from federico.network.wire.schema import ChunkPlan, ModelSchema
from federico.network.wire.signing import Signer
from federico.types import Array

# --- What may be said, and what may be decided about it -----------------------------------------


class Topic(StrEnum):
    """What a request is about: the last part of the key under which it is sent."""

    REQUEST_MODEL = "request-model"
    REQUEST_CHUNK = "request-chunk"
    OFFER_UPDATE = "offer-update"
    UPLOAD_CHUNK = "upload-chunk"


@dataclass(frozen=True)
class Announce:
    """Answer with this signed announcement of the model."""

    message: bytes


@dataclass(frozen=True)
class SendChunk:
    """Answer with this chunk of the model that has this digest, or with `GONE`."""

    digest: bytes
    index: int
    purpose: Purpose


@dataclass(frozen=True)
class MakeRoom:
    """Make room for the update, then report `room_made`; if there is none, answer `NO_ROOM`."""

    update: "IncomingUpdate"


@dataclass(frozen=True)
class StoreChunk:
    """Store these numbers of the update, then report `chunk_stored`; or answer `NO_ROOM`."""

    update: "IncomingUpdate"
    index: int
    numbers: Array
    square: float
    """The sum of squares of the numbers."""


@dataclass(frozen=True)
class Acknowledge:
    """Answer that all is well: the same was said before, and its answer was lost."""


@dataclass(frozen=True)
class Busy:
    """Answer that what is requested will be there later."""

    reason: str


@dataclass(frozen=True)
class Refuse:
    """Answer that a request within the rules is not granted."""

    reason: str


@dataclass(frozen=True)
class Violation:
    """Refuse a message that no honest peer sends, and hold it against the sender."""

    reason: str
    signed: bool = False
    """Whether the sender's signature proves that nobody else can have made it up."""


Decision: TypeAlias = (
    Announce | SendChunk | MakeRoom | StoreChunk | Acknowledge | Busy | Refuse | Violation
)

DECISIONS: Mapping[Topic, tuple[type[Decision], ...]] = {
    Topic.REQUEST_MODEL: (Announce, Busy, Refuse, Violation),
    Topic.REQUEST_CHUNK: (SendChunk, Refuse, Violation),
    Topic.OFFER_UPDATE: (MakeRoom, Acknowledge, Refuse, Violation),
    Topic.UPLOAD_CHUNK: (StoreChunk, Acknowledge, Refuse, Violation),
}
"""What an owner may decide about a request of each topic."""

REMEMBERED = 8
"""Starts of an owner that a visitor remembers."""
GONE = Refuse("this version is gone; request the newest")
NO_ROOM = Refuse("no room for it")
WITHHELD = Refuse("this peer has too few samples to show its model")


# --- States and transitions ---------------------------------------------------------------------


class UpdateState(Enum):
    """How far an offered update has come, at the owner of the model."""

    OFFERED = auto()
    """Checked and wanted; room for it is being made."""
    RECEIVING = auto()
    """Some of its chunks are still to come."""
    COMPLETE = auto()
    """All chunks are here; it waits to be collected."""
    COLLECTED = auto()
    """Handed over, once."""
    DROPPED = auto()
    """Never to be collected."""


class UpdateEvent(Enum):
    """What can happen to an offered update."""

    ROOM_MADE = auto()
    CHUNK_STORED = auto()
    LAST_CHUNK_STORED = auto()
    REPLACED = auto()
    """The visitor offered another one instead, or completed a newer one."""
    OUTDATED = auto()
    """The owner's model has moved on too far, or the chunks have taken too long."""
    TAKEN = auto()
    """The owner collects its updates."""


UPDATE_TRANSITIONS: Mapping[UpdateState, Mapping[UpdateEvent, UpdateState]] = {
    UpdateState.OFFERED: {
        UpdateEvent.ROOM_MADE: UpdateState.RECEIVING,
    },
    UpdateState.RECEIVING: {
        UpdateEvent.CHUNK_STORED: UpdateState.RECEIVING,
        UpdateEvent.LAST_CHUNK_STORED: UpdateState.COMPLETE,
        UpdateEvent.REPLACED: UpdateState.DROPPED,
        UpdateEvent.OUTDATED: UpdateState.DROPPED,
    },
    UpdateState.COMPLETE: {
        UpdateEvent.REPLACED: UpdateState.DROPPED,
        UpdateEvent.TAKEN: UpdateState.COLLECTED,
    },
    UpdateState.COLLECTED: {},
    UpdateState.DROPPED: {},
}


class CopyState(Enum):
    """What a visitor has of an owner's model."""

    ABSENT = auto()
    FETCHING = auto()
    """Announced; some of its chunks are still to come."""
    WHOLE = auto()
    REPLACING = auto()
    """An earlier model is here, whole; some chunks of the one announced after it are still to
    come."""


class CopyEvent(Enum):
    """What can happen to a visitor's copy of an owner's model."""

    ANNOUNCED = auto()
    """The owner announced another model than the one that is here."""
    ANNOUNCED_AGAIN = auto()
    """The owner announced the very model that is here, perhaps as a newer version."""
    CHUNK_RECEIVED = auto()
    LAST_CHUNK_RECEIVED = auto()
    FAILED = auto()
    """What is still to come is not waited for any more."""
    LOST = auto()
    """The room of the copy is needed for something else."""


COPY_TRANSITIONS: Mapping[CopyState, Mapping[CopyEvent, CopyState]] = {
    CopyState.ABSENT: {
        CopyEvent.ANNOUNCED: CopyState.FETCHING,
        CopyEvent.LOST: CopyState.ABSENT,
    },
    CopyState.FETCHING: {
        CopyEvent.ANNOUNCED: CopyState.FETCHING,
        CopyEvent.CHUNK_RECEIVED: CopyState.FETCHING,
        CopyEvent.LAST_CHUNK_RECEIVED: CopyState.WHOLE,
        CopyEvent.FAILED: CopyState.ABSENT,
    },
    CopyState.WHOLE: {
        CopyEvent.ANNOUNCED: CopyState.REPLACING,
        CopyEvent.ANNOUNCED_AGAIN: CopyState.WHOLE,
        CopyEvent.LOST: CopyState.ABSENT,
    },
    CopyState.REPLACING: {
        CopyEvent.ANNOUNCED: CopyState.REPLACING,
        CopyEvent.ANNOUNCED_AGAIN: CopyState.WHOLE,
        CopyEvent.CHUNK_RECEIVED: CopyState.REPLACING,
        CopyEvent.LAST_CHUNK_RECEIVED: CopyState.WHOLE,
        CopyEvent.FAILED: CopyState.WHOLE,
    },
}


# --- What both sides share ----------------------------------------------------------------------


@dataclass(frozen=True)
class Terms:
    """Who this peer is, and what it has agreed on with all other members."""

    name: str
    roster: Roster
    schema: ModelSchema
    limits: Limits
    signer: Signer
    incarnation: int
    """Drawn anew whenever the peer starts: its versions are counted within it."""
    clock: Callable[[], float] = time.time
    """Gives seconds since 1970; tests set it."""

    @cached_property
    def number(self) -> int:
        """The peer's number as a client, and as the owner of its model."""
        return self.roster.members.index(self.name)

    def blames(self, *, signed: bool) -> bool:
        """Whether what came in a member's name, against the rules, is held against that member.

        Without relays the members' links prove who is at the other end. With one, only a signature
        does.
        """
        return signed or not self.roster.relays

    @cached_property
    def chunk_plan(self) -> ChunkPlan:
        """How models and updates are cut into chunks."""
        return ChunkPlan.of(self.schema, self.limits.chunk_bytes)

    def sign(
        self,
        kind: Kind,
        digests: tuple[bytes, ...],
        *,
        owner: int,
        visitor: int,
        round_index: int,
        version: int,
        incarnation: int,
        nonce: bytes,
        coefficient: float = 0.0,
    ) -> bytes:
        """A signed message of this peer about a row whose chunks have these digests."""
        header = MessageHeader(
            kind=kind,
            federation=self.roster.digest,
            schema=self.schema.hash,
            owner=owner,
            visitor=visitor,
            round_index=round_index,
            version=version,
            incarnation=incarnation,
            coefficient=coefficient,
            size=self.chunk_plan.bytes,
            chunk_numbers=self.chunk_plan.chunk_numbers,
            digest=digest_of_digests(digests),
            nonce=nonce,
            sent_at=self.clock(),
        )
        return self.signer.sign(header, digests)

    def verify(self, message: bytes, sender: str, **expected: object) -> SignedMessage:
        """Check who signed a message, that it fits the federation's model, and these fields."""
        signed = self.signer.verify(message, sender, self.chunk_plan.chunks)
        signed.header.require(
            federation=self.roster.digest,
            schema=self.schema.hash,
            size=self.chunk_plan.bytes,
            chunk_numbers=self.chunk_plan.chunk_numbers,
            **expected,
        )
        return signed


# --- The owner's side ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Publication:
    """A version of the owner's model, as it is announced."""

    version: int
    digests: tuple[bytes, ...]
    """SHA-256 of each chunk."""

    @cached_property
    def digest(self) -> bytes:
        """The digest that stands for the whole model."""
        return digest_of_digests(self.digests)


@dataclass(eq=False)
class IncomingUpdate:
    """An update that a visitor offered, and how much of it has come."""

    offer: SignedMessage
    state: UpdateState = UpdateState.OFFERED
    squares: dict[int, float] = field(default_factory=dict)
    """The sum of squares of each chunk that is stored."""

    @property
    def header(self) -> MessageHeader:
        """The header of the offer."""
        return self.offer.header

    @property
    def length(self) -> float:
        """Euclidean length of the numbers that are stored."""
        return sqrt(sum(self.squares.values()))

    def advance(self, event: UpdateEvent) -> None:
        """Change the state; an event that the table does not have there is a fault of this peer."""
        self.state = UPDATE_TRANSITIONS[self.state][event]


class OwnerConversation:
    """What one visitor may say to the owner of a model, and what the owner decides."""

    def __init__(self, terms: Terms, visitor: int) -> None:
        """`visitor` is the number of the member at the other end."""
        self._terms = terms
        self._visitor = visitor
        self._name = terms.roster.members[visitor]
        self._newest: Publication | None = None
        self._withheld = False
        self._version = 0
        # At most one update is on its way and one waits: a visitor cannot take more room.
        self._receiving: IncomingUpdate | None = None
        self._complete: IncomingUpdate | None = None
        # Known after it was collected too: the answer to its last chunk may have been lost.
        self._last_completed: IncomingUpdate | None = None

    def publish(self, publication: Publication) -> None:
        """Announce this model from now on, and take updates that were computed on it."""
        self._newest = publication
        self._version = publication.version

        # What was begun and never completed must not take room for ever.
        oldest = self._version - self._terms.limits.staleness
        if self._receiving is not None and self._receiving.header.version < oldest:
            self.give_up()

    def give_up(self) -> None:
        """What was begun has taken too long: its room is needed for others."""
        if self._receiving is not None:
            self._receiving.advance(UpdateEvent.OUTDATED)
            self._receiving = None

    def withhold(self) -> None:
        """From now on the model is nobody's business: visitors need not wait for it."""
        self._withheld = True

    def withdraw(self, remaining: Publication | None) -> None:
        """The model is about to change: announce what remains of it, or nothing."""
        self._newest = remaining

    def receive(self, topic: str, request: bytes, payload: bytes) -> Decision:
        """Decide about whatever this visitor sent."""
        try:
            return self._decide(topic, request, payload)
        except ProtocolError as error:
            return Violation(str(error), signed=isinstance(error, SignedProtocolError))
        except RefusedError as error:
            return Refuse(str(error))

    def room_made(self, update: IncomingUpdate) -> None:
        """Its chunks can come. One that was on its way before is dropped."""
        update.advance(UpdateEvent.ROOM_MADE)
        if self._receiving is not None:
            self._receiving.advance(UpdateEvent.REPLACED)
        self._receiving = update

    def chunk_stored(self, chunk: StoreChunk) -> None:
        """Count the chunk; with the last one the update is complete, and its version is used up."""
        update = chunk.update
        if update.state is not UpdateState.RECEIVING:
            return  # dropped while the chunk was being stored

        update.squares[chunk.index] = chunk.square
        if len(update.squares) < self._terms.chunk_plan.chunks:
            update.advance(UpdateEvent.CHUNK_STORED)
            return

        update.advance(UpdateEvent.LAST_CHUNK_STORED)
        if self._complete is not None:
            self._complete.advance(UpdateEvent.REPLACED)
        self._complete = update
        self._last_completed = update
        self._receiving = None

    def collect(self) -> IncomingUpdate | None:
        """Hand over the complete update, if there is one."""
        update = self._complete
        if update is not None:
            update.advance(UpdateEvent.TAKEN)
            self._complete = None
        return update

    def _decide(self, topic: str, request: bytes, payload: bytes) -> Decision:
        match topic:
            case Topic.REQUEST_MODEL:
                return self._decide_model(ModelRequest.decode(request))
            case Topic.REQUEST_CHUNK:
                return self._decide_chunk(ChunkRequest.decode(request))
            case Topic.OFFER_UPDATE:
                return self._decide_offer(request)
            case Topic.UPLOAD_CHUNK:
                return self._decide_upload(ChunkUpload.decode(request), payload)
        return Violation(f"a request about {topic!r}")

    def _decide_model(self, request: ModelRequest) -> Decision:
        if self._withheld:
            return WITHHELD
        newest = self._newest
        if newest is None or newest.version < request.version:
            return Busy("not there yet")
        if request.version not in (LATEST, newest.version):
            return Refuse(f"version {request.version} is gone, {newest.version} is the newest")

        message = self._terms.sign(
            Kind.MODEL,
            newest.digests,
            owner=self._terms.number,
            visitor=self._visitor,
            round_index=newest.version,
            version=newest.version,
            incarnation=self._terms.incarnation,
            nonce=request.nonce,
        )
        return Announce(message)

    def _decide_chunk(self, request: ChunkRequest) -> Decision:
        chunks = self._terms.chunk_plan.chunks
        if request.index >= chunks:
            return Violation(f"chunk {request.index} of {chunks}")
        purpose: Purpose = "evaluation" if request.for_evaluation else "training"
        return SendChunk(request.digest, request.index, purpose)

    def _decide_offer(self, message: bytes) -> Decision:
        offer = self._terms.verify(
            message,
            self._name,
            kind=Kind.UPDATE,
            owner=self._terms.number,
            visitor=self._visitor,
        )
        known = self._offered_before(offer.header.nonce)
        if known is not None and known.offer == offer:
            return Acknowledge()
        refusal = self._check_offer(offer.header)
        if refusal is not None:
            return refusal
        return MakeRoom(IncomingUpdate(offer))

    def _offered_before(self, nonce: bytes) -> IncomingUpdate | None:
        """The update that is on its way or came last, if it was offered under this nonce."""
        for update in (self._receiving, self._last_completed):
            if update is not None and update.header.nonce == nonce:
                return update
        return None

    def _check_offer(self, header: MessageHeader) -> Refuse | Violation | None:
        """Why an offer that is proven to be the visitor's is not wanted; None if it is."""
        # An update without weight would divide by zero where it is the only one of an average.
        if not 0 < header.coefficient <= self._terms.limits.samples:
            return Violation(
                f"coefficient {header.coefficient:g}: none, or more than anybody's samples",
                signed=True,
            )

        # The model it was computed on must be one that was served, and not too long ago.
        if header.incarnation != self._terms.incarnation:
            return Refuse("made on a model from before a restart")
        if header.version > self._version:
            return Violation(
                f"version: {header.version}, but the newest is {self._version}", signed=True
            )
        if header.version < self._version - self._terms.limits.staleness:
            return Refuse(f"made on version {header.version}, now is {self._version}: too old")

        # One update per version, and versions only go up: nothing can be replayed.
        last = self._last_completed
        if last is not None and header.version <= last.header.version:
            return Refuse(f"an update of version {header.version} or later came before")
        return None

    def _decide_upload(self, upload: ChunkUpload, payload: bytes) -> Decision:
        update = self._offered_before(upload.nonce)
        if update is None:
            return Refuse("no such update was offered")

        plan = self._terms.chunk_plan
        index = upload.index
        if index >= plan.chunks or len(payload) != plan.chunk_bytes(index):
            return Violation(f"chunk {index} of {len(payload)} bytes")
        if index in update.squares:
            return Acknowledge()
        _check_digest(index, payload, update.offer)

        # Nothing is allocated before all of these checks have passed.
        place = plan.chunk(index)
        numbers = np.empty(place.stop - place.start, self._terms.schema.dtype)
        square = unpack(payload, self._terms.schema.wire, numbers)
        return StoreChunk(update, index, numbers, square)


class OwnLengths(NamedTuple):
    """What an owner measures the lengths of others' updates by."""

    last: float
    """Length of the owner's last own update."""
    longest: float
    """Of all its own updates and of its model, the longest: an owner that hardly moves any more
    must not blame those who still do."""


def length_factor(length: float, own: OwnLengths, limits: Limits) -> float:
    """What to multiply an update of this length by: 1, or less.

    Raises a ProtocolError if the update is too long to be an honest one.
    """
    if length > limits.refuse * own.longest:
        raise ProtocolError(
            f"update of length {length:.3g}, one's own are at most {own.longest:.3g}"
        )
    longest = limits.clip * own.last
    if length > longest:
        return longest / length
    return 1.0


# --- The visitor's side -------------------------------------------------------------------------


class VisitorConversation:
    """What a visitor says to one owner about its model, and what it makes of the answers.

    Whatever an answer says that it should not say raises a ProtocolError.
    """

    def __init__(self, terms: Terms, owner: int) -> None:
        """`owner` is the number of the member at the other end."""
        self._terms = terms
        self._owner = owner
        self._name = terms.roster.members[owner]
        self._state = CopyState.ABSENT
        self._here: SignedMessage | None = None
        self._on_its_way: SignedMessage | None = None
        self._missing: set[int] = set()
        self._delivered: tuple[int, int] | None = None
        self._last_announced: MessageHeader | None = None
        self._incarnation: int | None = None
        self._earlier_incarnations: deque[int] = deque(maxlen=REMEMBERED)
        self.is_there_twice = False
        """Whether two processes answer in turn with the owner's key."""
        self.clock_ahead: float | None = None
        """Seconds by which the owner's clock was ahead of this peer's when it last answered."""

    @property
    def whole(self) -> bool:
        """Whether a whole model is here: the one announced last, or an earlier one."""
        return self._state in (CopyState.WHOLE, CopyState.REPLACING)

    @property
    def fetching(self) -> bool:
        """Whether chunks of the model announced last are still to come."""
        return self._state in (CopyState.FETCHING, CopyState.REPLACING)

    @property
    def header(self) -> MessageHeader:
        """The header of the model that is here."""
        return self._require(self._here).header

    @property
    def update_delivered(self) -> bool:
        """Whether the owner has an update on this version of its model; it takes no second one."""
        return self._delivered == (self.header.incarnation, self.header.version)

    def request_model(self, nonce: bytes, version: int) -> bytes:
        """A request for the announcement of this version of the model, or of the latest."""
        return ModelRequest(nonce, version).encode()

    def receive_announcement(self, message: bytes, nonce: bytes, version: int) -> None:
        """Check the answer to such a request; a model that is here already is not fetched again."""
        announced = self._terms.verify(
            message,
            self._name,
            kind=Kind.MODEL,
            owner=self._owner,
            visitor=self._terms.number,
            nonce=nonce,
        )
        if version != LATEST:
            announced.header.require(version=version)
        self._refuse_second_model(announced.header)
        self._note_incarnation(announced.header.incarnation)
        self.clock_ahead = announced.header.sent_at - self._terms.clock()

        if self.whole and self.header.digest == announced.header.digest:
            self._advance(CopyEvent.ANNOUNCED_AGAIN)
            self._here = announced
            self._on_its_way = None
        else:
            self._advance(CopyEvent.ANNOUNCED)
            self._on_its_way = announced
            self._missing = set(range(self._terms.chunk_plan.chunks))

    def _refuse_second_model(self, announced: MessageHeader) -> None:
        """An owner that signs two models under one version shows somebody a wrong one."""
        before = self._last_announced
        self._last_announced = announced
        if before is None or before.digest == announced.digest:
            return
        same_start = before.incarnation == announced.incarnation
        if same_start and before.version == announced.version:
            raise SignedProtocolError(f"two models under version {announced.version}")

    def _note_incarnation(self, incarnation: int) -> None:
        """An owner that starts again has a new one; one that comes back was never gone."""
        if incarnation == self._incarnation:
            return
        self.is_there_twice = incarnation in self._earlier_incarnations
        if self._incarnation is not None:
            self._earlier_incarnations.append(self._incarnation)
        self._incarnation = incarnation

    def request_chunk(self, index: int, purpose: Purpose) -> bytes:
        """A request for one chunk of the announced model."""
        digest = self._require(self._on_its_way).header.digest
        return ChunkRequest(digest, index, purpose == "evaluation").encode()

    def receive_chunk(self, index: int, payload: bytes, row: Array) -> None:
        """Check a chunk and write its numbers into their place in `row`."""
        announced = self._require(self._on_its_way)
        _check_digest(index, payload, announced)
        unpack(payload, self._terms.schema.wire, row[self._terms.chunk_plan.chunk(index)])

        self._missing.discard(index)
        if self._missing:
            self._advance(CopyEvent.CHUNK_RECEIVED)
        else:
            self._advance(CopyEvent.LAST_CHUNK_RECEIVED)
            self._here = announced
            self._on_its_way = None

    def stop_fetching(self) -> None:
        """Wait no more for what is still to come: an earlier model that is here stays."""
        if self.fetching:
            self._advance(CopyEvent.FAILED)
            self._on_its_way = None

    def lose_copy(self) -> None:
        """The room of the copy is needed: it has to be fetched again."""
        self._advance(CopyEvent.LOST)
        self._here = None

    def offer_update(
        self, digests: tuple[bytes, ...], coefficient: float, round_index: int, nonce: bytes
    ) -> bytes:
        """A signed offer of an update that was computed on the model that is here."""
        return self._terms.sign(
            Kind.UPDATE,
            digests,
            owner=self._owner,
            visitor=self._terms.number,
            round_index=round_index,
            version=self.header.version,
            incarnation=self.header.incarnation,
            nonce=nonce,
            coefficient=coefficient,
        )

    def mark_delivered(self) -> None:
        """Note that the owner has acknowledged all of an update on this version."""
        self._delivered = (self.header.incarnation, self.header.version)

    def _advance(self, event: CopyEvent) -> None:
        self._state = COPY_TRANSITIONS[self._state][event]

    def _require(self, announcement: SignedMessage | None) -> SignedMessage:
        if announcement is None:
            raise ValueError(f"nothing is known of the model of {self._name}")
        return announcement


def _check_digest(index: int, payload: bytes, announced: SignedMessage) -> None:
    if hashlib.sha256(payload).digest() != announced.digests[index]:
        raise ProtocolError(f"chunk {index} is not the announced one")
