"""Answers the requests of other members; one thread per member, so that nobody holds up another.

What is answered is decided in `protocol.py`; here requests come in from Zenoh, wait for their turn,
and decisions are carried out with the model store and the update store.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import zenoh

from federico.errors import ProtocolError
from federico.exchange.protocol import COEFFICIENT_BYTES, Traffic
from federico.learning.rows import RowFile
from federico.network.allowance import Allowances, log_flood
from federico.network.model_store import ModelStore
from federico.network.protocol import (
    GONE,
    NO_ROOM,
    Acknowledge,
    Announce,
    Busy,
    Decision,
    IncomingUpdate,
    MakeRoom,
    OwnerConversation,
    OwnLengths,
    Refuse,
    SendChunk,
    StoreChunk,
    Terms,
    Violation,
    length_factor,
)
from federico.network.reputation import Reputation
from federico.network.update_store import UpdateStore
from federico.network.wire.messages import encode_busy, encode_refusal
from federico.types import Array

log = logging.getLogger(__name__)

MOST_WAITING = 64
"""Requests of one member that may wait: as many as the largest window. More are dropped."""
TRANSFER_TIMES = 1.5
"""An update that takes this many times as long as its sender waits for anybody is dropped."""
CLOSING = 1.0
"""Seconds that an answer under way gets when the server closes."""
ACKNOWLEDGED = b""


class RequestQueue:
    """The waiting requests of one member, in the order they came, within bounds."""

    def __init__(self, most_bytes: int, allowances: Allowances) -> None:
        """`most_bytes` may wait at a time; the allowances bound what is taken in the long run."""
        self._most_bytes = most_bytes
        self._allowances = allowances
        self._waiting: deque[tuple[zenoh.Query, int]] = deque()
        self._bytes = 0
        self._closed = False
        self._changed = threading.Condition()

    def put(self, query: zenoh.Query) -> bool:
        """Let a request wait; returns whether it may. A single one always has room."""
        size = len(query.payload or b"") + len(query.attachment or b"")
        _, _, topic = str(query.key_expr).rpartition("/")
        with self._changed:
            full = len(self._waiting) >= MOST_WAITING or self._bytes + size > self._most_bytes
            if full and self._waiting:
                return False
            if not self._allowances.take(topic, size):
                return False
            self._waiting.append((query, size))
            self._bytes += size
            self._changed.notify()
        return True

    def get(self, seconds: float | None) -> zenoh.Query | None:
        """The next request; None if none comes for so long, or the queue is closed and empty."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed, seconds)
            if not self._waiting:
                return None
            query, size = self._waiting.popleft()
            self._bytes -= size
        return query

    @property
    def ended(self) -> bool:
        """Whether nothing waits, and nothing more will come."""
        with self._changed:
            return self._closed and not self._waiting

    def close(self) -> None:
        """Nothing more will come."""
        with self._changed:
            self._closed = True
            self._changed.notify()


class MemberServer:
    """Answers the requests of one member in a thread of its own."""

    def __init__(
        self,
        terms: Terms,
        visitor: int,
        models: ModelStore,
        updates: UpdateStore,
        reputation: Reputation,
        traffic: Traffic,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`visitor` is the number of the member; `clock` gives seconds, tests set it."""
        self._terms = terms
        self._visitor = visitor
        self._name = terms.roster.members[visitor]
        self._models = models
        self._updates = updates
        self._reputation = reputation
        self._traffic = traffic
        self._clock = clock
        self._conversation = OwnerConversation(terms, visitor)
        self._late_from: float | None = None
        """When an update of which chunks are still to come has taken too long; None without one."""
        self._lock = threading.Lock()

        # An honest member has a window of chunks under way, and what it repeats because it is slow.
        most_bytes = 2 * terms.limits.window * terms.limits.chunk_bytes
        self.allowances = Allowances(terms.chunk_plan, clock)
        self.queue = RequestQueue(most_bytes, self.allowances)
        self._thread = threading.Thread(target=self._work, name=f"serve {self._name}", daemon=True)
        self._thread.start()

    @contextmanager
    def conversation(self) -> Iterator[OwnerConversation]:
        """The conversation, for one thread at a time."""
        with self._lock:
            yield self._conversation

    def collect(self, own: OwnLengths) -> tuple[IncomingUpdate, RowFile] | None:
        """The complete update of this member, shortened where it is much longer than one's own."""
        with self.conversation() as conversation:
            update = conversation.collect()
        if update is None:
            return None
        try:
            factor = length_factor(update.length, own, self._terms.limits)
        except ProtocolError as error:
            self._reputation.strike(self._name, str(error))
            return None
        if factor != 1.0:
            log.info("%s: update of length %.3g shortened", self._name, update.length)
        return update, self._updates.take(update, factor)

    def join(self) -> None:
        """Wait a moment for the answer under way, once the queue is closed."""
        self._thread.join(CLOSING)

    def _work(self) -> None:
        while not self.queue.ended:
            query = self.queue.get(self._seconds_to_late())
            self._end_late_transfer()
            if query is None:
                continue
            with query:
                try:
                    self._answer(query)
                except zenoh.ZError as error:  # the visitor is gone, or the session is closing
                    log.debug("no reply to %s: %s", query.key_expr, error)

    def _answer(self, query: zenoh.Query) -> None:
        """Reply, whatever happens: a request without a reply keeps its sender waiting."""
        try:
            decision = self._decide(query)
            answer = self._carry_out(decision)
        except Exception:
            log.exception("could not answer %s", query.key_expr)
            answer = Refuse("internal error")

        match answer:
            case bytes():
                query.reply(query.key_expr, answer)
            case Busy(reason):
                query.reply_err(encode_busy(reason))
            case Violation(reason):
                query.reply_err(encode_refusal(reason))
            case Refuse(reason):
                self._reputation.note_refusal(self._name, reason)
                query.reply_err(encode_refusal(reason))

    def _seconds_to_late(self) -> float | None:
        """Seconds until the update on its way has taken too long; None if there is none."""
        if self._late_from is None:
            return None
        return max(0.0, self._late_from - self._clock())

    def _end_late_transfer(self) -> None:
        """Drop an update of which chunks are still to come, once its sender has given up."""
        if self._late_from is None or self._clock() < self._late_from:
            return
        self._late_from = None
        with self.conversation() as conversation:
            conversation.give_up()

    def _decide(self, query: zenoh.Query) -> Decision:
        if not self._reputation.trusts(self._name):
            return Refuse(f"{self._name} is not heard now")
        *_, topic = str(query.key_expr).split("/")
        request = _content(query.attachment)
        payload = _content(query.payload)
        with self.conversation() as conversation:
            return conversation.receive(topic, request, payload)

    def _carry_out(self, decision: Decision) -> bytes | Busy | Refuse | Violation:
        """Do what was decided; returns the answer."""
        match decision:
            case Announce(message):
                return message
            case SendChunk():
                return self._send_chunk(decision)
            case MakeRoom(update):
                return self._make_room(update)
            case StoreChunk():
                return self._store_chunk(decision)
            case Acknowledge():
                return ACKNOWLEDGED
            case Violation(reason, signed) if self._terms.blames(signed=signed):
                self._reputation.strike(self._name, reason)
        return decision

    def _send_chunk(self, wanted: SendChunk) -> bytes | Refuse:
        chunk = self._models.chunk(wanted.digest, self._visitor, wanted.index)
        if chunk is None:
            return GONE
        self._traffic.sends(self._terms.number, len(chunk), wanted.purpose)
        return chunk

    def _make_room(self, update: IncomingUpdate) -> bytes | Refuse:
        if not self._updates.make_room(update):
            return NO_ROOM
        with self.conversation() as conversation:
            conversation.room_made(update)
        self._late_from = self._clock() + TRANSFER_TIMES * self._terms.limits.deadline
        self._traffic.receives(self._terms.number, COEFFICIENT_BYTES)
        return ACKNOWLEDGED

    def _store_chunk(self, chunk: StoreChunk) -> bytes | Refuse:
        if not self._updates.store(chunk):
            return NO_ROOM
        with self.conversation() as conversation:
            conversation.chunk_stored(chunk)
        received = self._terms.chunk_plan.chunk_bytes(chunk.index)
        self._traffic.receives(self._terms.number, received)
        return ACKNOWLEDGED


class PeerServer:
    """Answers for one peer's model from its first publication until it is closed."""

    def __init__(
        self,
        session: zenoh.Session,
        terms: Terms,
        models: ModelStore,
        updates: UpdateStore,
        reputation: Reputation,
        traffic: Traffic,
        flooded: Callable[[str], object] = log_flood,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """The stores hold what is served and what arrives; the others keep the books.

        `flooded` is called with the name of a member that sends far more than is answered.
        """
        self._terms = terms
        self._models = models
        self._flooded = flooded
        self._members: dict[str, MemberServer] = {}
        for number, name in enumerate(terms.roster.members):
            if name != terms.name:
                self._members[name] = MemberServer(
                    terms, number, models, updates, reputation, traffic, clock
                )
        requests = f"{terms.roster.requests_key(terms.name)}/*/*"
        self._queryable = session.declare_queryable(requests, self._enqueue, complete=True)

    def publish(self, version: int, row: Array) -> None:
        """Serve this row as this version from now on, and take updates computed on it."""
        publication = self._models.publish(version, row)
        for member in self._members.values():
            with member.conversation() as conversation:
                conversation.publish(publication)
            member.allowances.renew()

    def withhold(self) -> None:
        """Refuse everybody the model from now on; nothing is published."""
        for member in self._members.values():
            with member.conversation() as conversation:
                conversation.withhold()

    def release_row(self) -> None:
        """The row is about to change: serve it only to those in the middle of fetching it."""
        remaining = self._models.release_row()
        for member in self._members.values():
            with member.conversation() as conversation:
                conversation.withdraw(remaining)

    def collect(self, own: OwnLengths) -> list[tuple[int, float, RowFile]]:
        """The complete updates as (contributor, coefficient, row), ordered by contributor."""
        arrived = []
        for member in self._members.values():
            collected = member.collect(own)
            if collected is not None:
                update, row = collected
                arrived.append((update.header.visitor, update.header.coefficient, row))
        return arrived

    def close(self) -> None:
        """Take no more requests."""
        self._queryable.undeclare()
        for member in self._members.values():
            member.queue.close()
        for member in self._members.values():
            member.join()

    def _enqueue(self, query: zenoh.Query) -> None:
        """Runs in a thread of Zenoh: must not wait. What is dropped will be sent again."""
        visitor = self._terms.roster.visitor_of(str(query.key_expr), self._terms.name)
        member = None if visitor is None else self._members.get(visitor)
        if visitor is None or member is None:
            query.drop()
            return

        taken = member.queue.put(query)
        if not taken:
            query.drop()
            if member.allowances.is_flood():
                self._flooded(visitor)


def _content(content: "zenoh.ZBytes | None") -> bytes:
    """The bytes of what may have been left out."""
    if content is None:
        return b""
    return content.to_bytes()
