"""Sends requests to other members: fetches their models and delivers updates for them.

What to send and what to make of the answers is decided in `protocol.py`; here requests go out
through Zenoh, and are repeated until they are answered, refused, or too late.
"""

import logging
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from weakref import WeakSet

import zenoh

from federico.exchange.protocol import COEFFICIENT_BYTES, Purpose, Traffic
from federico.learning.rows import RowFile
from federico.network.limits import Limits
from federico.network.presence import Presence
from federico.network.protocol import Terms, Topic, VisitorConversation
from federico.network.wire.encoding import chunk_digests, pack
from federico.network.wire.messages import (
    NONCE_BYTES,
    ChunkUpload,
    RefusedError,
    decode_refusal,
)
from federico.types import Array

log = logging.getLogger(__name__)

FIRST_PAUSE = 0.02
"""Seconds before the first repetition; each pause is twice the one before."""
LONGEST_PAUSE = 2.0
MOST_VERSIONS = 3
"""How often a model may change while it is being fetched before it is left out of this round."""


class Request(NamedTuple):
    """A key, and what goes to whoever answers there."""

    key: str
    attachment: bytes
    payload: bytes | None = None


class PendingAnswer:
    """An answer that may come."""

    def __init__(self, replies: "zenoh.Handler[zenoh.Reply] | None") -> None:
        """`replies` is None where the request could not even be sent."""
        self._replies = replies

    def wait(self) -> bytes | None:
        """The answer, or None if none came in time. Raises RefusedError if it is a refusal.

        Only the first reply counts: a member that sends thousands keeps nobody busy.
        """
        reply: zenoh.Reply | None = next(iter(self._replies or ()), None)
        if reply is None:
            return None
        if reply.ok is not None:
            answer: bytes = reply.ok.payload.to_bytes()
            return answer
        if reply.err is not None:
            refused = decode_refusal(reply.err.payload.to_bytes())
            if refused is not None:
                raise refused
        return None


class Deadline:
    """A moment after which nobody is waited for, and who was heard of before it."""

    def __init__(self, seconds: float, stopped: threading.Event) -> None:
        """`stopped` brings the moment forward to now."""
        self._end = time.monotonic() + seconds
        self._stopped = stopped
        self._last_heard: dict[str, float] = {}
        self._have_spoken: set[str] = set()
        self.cancel = zenoh.CancellationToken()
        """Ends the requests under way once nobody is waited for."""

    def begin(self, member: str) -> None:
        """From now on something is awaited of this member."""
        self._last_heard[member] = time.monotonic()

    def heard(self, member: str) -> None:
        """Note that this member has answered."""
        self._last_heard[member] = time.monotonic()
        self._have_spoken.add(member)

    def is_mute(self, member: str, at_first: float, later: float) -> bool:
        """Whether nothing was heard of a member for so long: at first, or after it had spoken."""
        if member not in self._last_heard:
            return False  # its turn has not come yet
        allowed = later if member in self._have_spoken else at_first
        return time.monotonic() - self._last_heard[member] > allowed

    def end_now(self) -> None:
        """Wait for nobody any more."""
        self._end = time.monotonic()
        self.cancel.cancel()

    @property
    def left(self) -> float:
        """Seconds until then, never less than 0."""
        if self._stopped.is_set():
            return 0.0
        return max(0.0, self._end - time.monotonic())

    @property
    def over(self) -> bool:
        """Whether the moment has passed."""
        return self.left == 0

    def sleep(self, seconds: float) -> None:
        """Wait that long, but not beyond the deadline."""
        self._stopped.wait(min(seconds, self.left))


class Repetition:
    """Decides whether to try again: after longer and longer pauses, until nobody is waited for."""

    def __init__(self, deadline: Deadline, gone: Callable[[float], bool]) -> None:
        """`gone` tells whether a member last heard of at that moment is no longer waited for."""
        self._deadline = deadline
        self._gone = gone
        self.progress()

    def progress(self) -> None:
        """Something came: the next pause is short again."""
        self._pause = FIRST_PAUSE
        self._last_heard = time.monotonic()

    def again(self) -> bool:
        """Wait for the length of a pause; returns whether to try once more."""
        if self._deadline.over or self._gone(self._last_heard):
            return False
        self._deadline.sleep(self._pause)
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
        return not self._deadline.over


class RequestSender:
    """Sends requests through a session, each until it is answered, refused, or too late."""

    def __init__(self, session: zenoh.Session, limits: Limits) -> None:
        """The limits say how long to wait, and how many requests are under way at a time."""
        self._session = session
        self._limits = limits
        self._stopped = threading.Event()
        self._deadlines: WeakSet[Deadline] = WeakSet()
        self._lock = threading.Lock()

    @property
    def stopped(self) -> bool:
        """Whether nobody is waited for any more."""
        return self._stopped.is_set()

    def stop_waiting(self) -> None:
        """Send nothing and wait for nothing from now on."""
        with self._lock:
            self._stopped.set()
            for deadline in self._deadlines:
                deadline.end_now()

    def deadline(self) -> Deadline:
        """The deadline of what begins now."""
        deadline = Deadline(self._limits.deadline, self._stopped)
        with self._lock:
            self._deadlines.add(deadline)
            if self.stopped:
                deadline.end_now()
        return deadline

    def send(self, request: Request, deadline: Deadline, repetition: Repetition) -> bytes | None:
        """The answer to one request, repeated until there is one; None if it does not come."""
        while True:
            answer = self._send_once(request, deadline).wait()
            if answer is not None or not repetition.again():
                return answer

    def send_all(
        self,
        count: int,
        request: Callable[[int], Request],
        answered: Callable[[int, bytes], None],
        deadline: Deadline,
        repetition: Repetition,
    ) -> bool:
        """Send requests 0 to count - 1, a window of them at a time.

        Returns whether all succeeded.
        """
        waiting = deque(range(count))
        under_way: deque[tuple[int, PendingAnswer]] = deque()
        lost = False

        def fill_window() -> None:
            while waiting and len(under_way) < self._limits.window and not lost:
                index = waiting.popleft()
                under_way.append((index, self._send_once(request(index), deadline)))

        while waiting or under_way:
            fill_window()
            index, pending = under_way.popleft()
            answer = pending.wait()
            if answer is None:
                waiting.append(index)
                lost = True
            else:
                fill_window()  # the link is not to be idle while the answer is looked at
                answered(index, answer)
                repetition.progress()

            # One pause for all that were lost together.
            if lost and not under_way:
                if not repetition.again():
                    return False
                lost = False
        return True

    def _send_once(self, request: Request, deadline: Deadline) -> PendingAnswer:
        """Send a request without waiting for its answer."""
        timeout = max(0.001, min(deadline.left, self._limits.patience))
        try:
            replies = self._session.get(
                request.key,
                payload=request.payload,
                attachment=request.attachment,
                timeout=timeout,
                consolidation=zenoh.ConsolidationMode.NONE,
                congestion_control=zenoh.CongestionControl.BLOCK,
                cancellation_token=deadline.cancel,
            )
        except zenoh.ZError:  # cancelled, or the session is closed
            return PendingAnswer(None)
        return PendingAnswer(replies)


class OwnerClient:
    """Fetches the model of one owner, and delivers updates for it."""

    def __init__(
        self,
        terms: Terms,
        owner: int,
        sender: RequestSender,
        presence: Presence,
        traffic: Traffic,
        folder: Path | None = None,
    ) -> None:
        """`owner` is the number of the member whose model it is.

        A large model lies in a file in `folder` until all of it is there.
        """
        self._terms = terms
        self._name = terms.roster.members[owner]
        self._sender = sender
        self._presence = presence
        self._traffic = traffic
        self._folder = folder
        self._conversation = VisitorConversation(terms, owner)

    @property
    def has_model(self) -> bool:
        """Whether the row that was last fetched into holds a whole model, if an earlier one."""
        return self._conversation.whole

    @property
    def has_update(self) -> bool:
        """Whether the owner has an update on that model already; it takes no second one."""
        return self._conversation.update_delivered

    @property
    def is_there_twice(self) -> bool:
        """Whether two processes answer in turn with the owner's key."""
        return self._conversation.is_there_twice

    @property
    def clock_ahead(self) -> float | None:
        """Seconds by which the owner's clock was ahead when it last answered, if it ever did."""
        return self._conversation.clock_ahead

    def lose_copy(self) -> None:
        """The row that was last fetched into is needed for something else."""
        self._conversation.lose_copy()

    def fetch(
        self, version: int, row: Array, deadline: Deadline, *, patient: bool, purpose: Purpose
    ) -> bool:
        """Bring a version of the model into `row`; returns whether all of it is there.

        `patient` waits for an owner that is away. What is in the row already is not sent again, and
        stays there if the new version does not come whole.
        """
        deadline.begin(self._name)
        try:
            return self._fetch(version, row, deadline, patient, purpose)
        finally:
            self._conversation.stop_fetching()

    def deliver(
        self, row: RowFile, coefficient: float, round_index: int, deadline: Deadline
    ) -> bool:
        """Give the owner an update that was computed on the model that was fetched last.

        Returns whether the owner has acknowledged all of it.
        """
        deadline.begin(self._name)
        nonce = secrets.token_bytes(NONCE_BYTES)
        chunks = (pack(row[chunk], self._terms.schema.wire) for chunk in self._terms.chunk_plan)
        offer = self._conversation.offer_update(
            chunk_digests(chunks), coefficient, round_index, nonce
        )
        repetition = self._repetition(deadline)
        request = self._request(Topic.OFFER_UPDATE, offer)
        accepted = self._sender.send(request, deadline, repetition)
        if accepted is None:
            return False
        deadline.heard(self._name)
        self._traffic.sends(self._terms.number, COEFFICIENT_BYTES)

        uploaded = self._upload_chunks(row, nonce, deadline, repetition)
        if uploaded:
            self._conversation.mark_delivered()
        return uploaded

    def _fetch(
        self, version: int, row: Array, deadline: Deadline, patient: bool, purpose: Purpose
    ) -> bool:
        for _ in range(MOST_VERSIONS):
            if not self._announced(version, deadline, patient):
                return False
            if not self._conversation.fetching:
                return True
            try:
                if self._fetch_chunks(row, deadline, purpose):
                    return True
            except RefusedError as error:
                # A newer version has taken its place meanwhile: start again with that one.
                log.info("%s: %s", self._name, error)
                continue
            return False
        return False

    def _announced(self, version: int, deadline: Deadline, patient: bool) -> bool:
        """Have the owner announce this version of its model; returns whether it did."""

        def gone(_: float) -> bool:
            return not patient and not self._presence.here(self._name)

        nonce = secrets.token_bytes(NONCE_BYTES)
        request = self._conversation.request_model(nonce, version)
        answer = self._sender.send(
            self._request(Topic.REQUEST_MODEL, request), deadline, Repetition(deadline, gone)
        )
        if answer is None:
            return False
        deadline.heard(self._name)
        self._conversation.receive_announcement(answer, nonce, version)
        return True

    def _fetch_chunks(self, row: Array, deadline: Deadline, purpose: Purpose) -> bool:
        """Fetch all chunks of the announced model, then write it over the one that is in `row`."""
        arriving = RowFile.somewhere(row.size, row.dtype, self._folder).look()

        def request(index: int) -> Request:
            chunk_request = self._conversation.request_chunk(index, purpose)
            return self._request(Topic.REQUEST_CHUNK, chunk_request)

        def received(index: int, chunk: bytes) -> None:
            deadline.heard(self._name)
            self._conversation.receive_chunk(index, chunk, arriving)
            self._traffic.receives(self._terms.number, len(chunk), purpose)

        chunks = self._terms.chunk_plan.chunks
        repetition = self._repetition(deadline)
        whole = self._sender.send_all(chunks, request, received, deadline, repetition)
        if whole:
            row[:] = arriving
        return whole

    def _upload_chunks(
        self, row: RowFile, nonce: bytes, deadline: Deadline, repetition: Repetition
    ) -> bool:
        def request(index: int) -> Request:
            place = self._terms.chunk_plan.chunk(index)
            packed = pack(row[place], self._terms.schema.wire)
            chunk = packed.tobytes()
            self._traffic.sends(self._terms.number, len(chunk))

            upload = ChunkUpload(nonce, index)
            return self._request(Topic.UPLOAD_CHUNK, upload.encode(), chunk)

        def acknowledged(_: int, __: bytes) -> None:
            """An acknowledgement says nothing but that the chunk is there."""
            deadline.heard(self._name)

        chunks = self._terms.chunk_plan.chunks
        return self._sender.send_all(chunks, request, acknowledged, deadline, repetition)

    def _request(self, topic: Topic, request: bytes, payload: bytes | None = None) -> Request:
        key = self._terms.roster.request_key(self._name, self._terms.name, topic)
        return Request(key, request, payload)

    def _repetition(self, deadline: Deadline) -> Repetition:
        grace = self._terms.limits.grace

        def gone(last_heard: float) -> bool:
            return self._presence.gone(self._name, last_heard, grace)

        return Repetition(deadline, gone)
