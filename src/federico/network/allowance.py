"""How much of one member is answered: enough for any honest one, and not a flood.

Each kind of request has allowances of its own, of requests and of the bytes that they move. What is
over one is dropped before anything is looked at; an honest member would ask again.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from federico.network.protocol import Topic
from federico.network.wire.schema import ChunkPlan

log = logging.getLogger(__name__)

AT_ONCE = 64
"""Requests beyond the chunks of models and updates that are answered at once, of each kind."""
COPIES = 4
"""How many times the chunks of a whole model may pass at once in each direction, repetitions
counted."""
A_SECOND: Mapping[Topic, float] = {
    Topic.REQUEST_MODEL: 20.0,
    Topic.REQUEST_CHUNK: 20.0,
    Topic.OFFER_UPDATE: 2.0,
    Topic.UPLOAD_CHUNK: 20.0,
}
"""Requests of each kind that are answered each second, however long it goes on."""
BYTES_A_SECOND = float(4 << 20)
"""Bytes of chunks that are sent, and as many that are taken, each second, however long it goes on.
"""
DROPPED_AT_ONCE = 1000
"""Requests of one member that are dropped before it counts as a flood; no window is as large."""


def log_flood(name: str) -> None:
    """What a peer does about a flood that cannot cut links."""
    log.debug("%s sends far more than is answered", name)


class Allowance:
    """A stock of something: it fills up slowly with time, and wholly when there is reason to."""

    def __init__(
        self, most: float, a_second: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """At most this much is in stock, as at first; `clock` gives seconds, tests set it."""
        self._most = most
        self._a_second = a_second
        self._left = most
        self._clock = clock
        self._looked_at = clock()
        self._lock = threading.Lock()

    def take(self, amount: float = 1.0) -> bool:
        """Use up so much; returns whether it was there, and takes nothing if it was not."""
        with self._lock:
            now = self._clock()
            self._left = min(self._most, self._left + self._a_second * (now - self._looked_at))
            self._looked_at = now
            if self._left < amount:
                return False
            self._left -= amount
            return True

    def renew(self) -> None:
        """Fill up the stock."""
        with self._lock:
            self._left = self._most


class Share(NamedTuple):
    """What one member may have of one kind of request."""

    requests: Allowance
    volume: Allowance
    """Bytes of the chunks that are moved."""


class Allowances:
    """What is answered of one member, by kind of request."""

    def __init__(self, plan: ChunkPlan, clock: Callable[[], float] = time.monotonic) -> None:
        """`plan` says how models travel; `clock` gives seconds, tests set it."""
        self._chunk_bytes = plan.chunk_numbers * plan.width
        self._shares: dict[str, Share] = {}
        for topic, a_second in A_SECOND.items():
            moves_chunks = topic in (Topic.REQUEST_CHUNK, Topic.UPLOAD_CHUNK)
            chunks = COPIES * plan.chunks if moves_chunks else 0
            most_bytes = COPIES * plan.bytes + AT_ONCE * self._chunk_bytes
            self._shares[topic] = Share(
                Allowance(AT_ONCE + chunks, a_second, clock),
                Allowance(most_bytes, BYTES_A_SECOND, clock),
            )
        # What belongs to no kind is refused, and costs no less than the rest.
        self._unknown = Share(Allowance(AT_ONCE, 1.0, clock), Allowance(most_bytes, 0.0, clock))
        self._dropped = Allowance(DROPPED_AT_ONCE, A_SECOND[Topic.REQUEST_CHUNK], clock)

    def take(self, topic: str, size: int) -> bool:
        """Use up a request that brings this many bytes; returns whether it is to be answered."""
        share = self._shares.get(topic, self._unknown)
        moved = float(size)
        if topic == Topic.REQUEST_CHUNK:
            moved += self._chunk_bytes  # the answer
        return share.requests.take() and share.volume.take(moved)

    def is_flood(self) -> bool:
        """Note that a request was dropped; returns whether too many were."""
        return not self._dropped.take()

    def renew(self) -> None:
        """There is a new version to ask for."""
        for share in self._shares.values():
            share.requests.renew()
            share.volume.renew()
