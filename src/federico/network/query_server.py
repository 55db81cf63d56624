"""Answers the questions of others, whatever they ask; each visitor has a lane of its own and holds up nobody."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable

import zenoh

from federico.errors import ProtocolError
from federico.network.wire.messages import RefusedError, later, no

log = logging.getLogger(__name__)
LANE = 64
"""Questions of one visitor that may wait: as many as the largest window. More are dropped, to be asked again."""
CLOSING = 1.0
"""Seconds that an answer under way gets when the desk closes."""
Answer = Callable[[str, str, zenoh.Query], bytes]


class BusyError(Exception):
    """Not now: what is asked for will be there later."""


class MemberQueue:
    """The questions of one visitor that wait, in the order they came, with a bound on what they take."""

    def __init__(self, room: int) -> None:
        """`room`: bytes that may wait."""
        self._room = room
        self._waiting: deque[tuple[zenoh.Query, int]] = deque()
        self._bytes = 0
        self._closed = False
        self._changed = threading.Condition()

    def put(self, query: zenoh.Query, size: int) -> bool:
        """Whether there is room for it; a single one always has room."""
        with self._changed:
            if self._waiting and (len(self._waiting) >= LANE or self._bytes + size > self._room):
                return False
            self._waiting.append((query, size))
            self._bytes += size
            self._changed.notify()
        return True

    def get(self) -> zenoh.Query | None:
        """The next one, waited for; none once the lane is closed and empty."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)
            if not self._waiting:
                return None
            query, size = self._waiting.popleft()
            self._bytes -= size
        return query

    def close(self) -> None:
        """Nothing more will come."""
        with self._changed:
            self._closed = True
            self._changed.notify()


def weight(query: zenoh.Query) -> int:
    """Bytes that come with a question."""
    return sum(len(part) for part in (query.payload, query.attachment) if part is not None)


class QueryServer:
    """Gives every question `<key>/<visitor>/<what>` to `answer(visitor, what, question)`, one at a time per visitor."""

    def __init__(
        self, session: zenoh.Session, key: str, visitors: Iterable[str], answer: Answer, room: int
    ) -> None:
        """`room`: bytes of one visitor's questions that may wait; more are dropped, to be asked again."""
        self._answer = answer
        self._lanes = {visitor: MemberQueue(room) for visitor in visitors}
        self._workers = [
            threading.Thread(target=self._work, args=lane, name=f"desk {lane[0]}", daemon=True)
            for lane in self._lanes.items()
        ]
        for worker in self._workers:
            worker.start()
        self._queryable = session.declare_queryable(f"{key}/*/*", self._sort, complete=True)

    def close(self) -> None:
        """Take no more questions."""
        self._queryable.undeclare()
        for lane in self._lanes.values():
            lane.close()
        for worker in self._workers:
            worker.join(CLOSING)

    def _sort(self, query: zenoh.Query) -> None:
        *_, visitor, _ = str(query.key_expr).split("/")
        lane = self._lanes.get(visitor)
        if lane is None or not lane.put(query, weight(query)):
            query.drop()

    def _work(self, visitor: str, lane: MemberQueue) -> None:
        while (query := lane.get()) is not None:
            with query:
                try:
                    self._reply(visitor, query)
                except zenoh.ZError as error:  # the asker is gone, or the session is closing
                    log.debug("no reply to %s: %s", query.key_expr, error)

    def _reply(self, visitor: str, query: zenoh.Query) -> None:
        try:
            answer = self._answer(visitor, str(query.key_expr).rpartition("/")[2], query)
        except BusyError as error:
            query.reply_err(later(error))
        except (ProtocolError, RefusedError) as error:
            query.reply_err(no(error))
        except Exception:
            log.exception("could not answer %s", query.key_expr)
            query.reply_err(no("internal error"))
        else:
            query.reply(query.key_expr, answer)
