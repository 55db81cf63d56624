"""Answers the questions of others, whatever they ask; each visitor has a lane of its own and holds up nobody."""

import logging
import threading
from collections.abc import Callable, Iterable
from queue import SimpleQueue

import zenoh

from federico.errors import ProtocolError
from federico.wire.talk import RefusedError, later, no

log = logging.getLogger(__name__)
LANE = 64
"""Questions of one visitor that may wait: as many as the largest window. More are dropped, to be asked again."""
CLOSING = 1.0
"""Seconds that an answer under way gets when the desk closes."""
Answer = Callable[[str, str, zenoh.Query], bytes]


class BusyError(Exception):
    """Not now: what is asked for will be there later."""


class Desk:
    """Gives every question `<key>/<visitor>/<what>` to `answer(visitor, what, question)`, one at a time per visitor."""

    def __init__(self, session: zenoh.Session, key: str, visitors: Iterable[str], answer: Answer) -> None:
        self._answer = answer
        self._lanes = {visitor: SimpleQueue[zenoh.Query | None]() for visitor in visitors}
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
            lane.put(None)
        for worker in self._workers:
            worker.join(CLOSING)

    def _sort(self, query: zenoh.Query) -> None:
        *_, visitor, _ = str(query.key_expr).split("/")
        lane = self._lanes.get(visitor)
        if lane is None or lane.qsize() >= LANE:
            query.drop()
        else:
            lane.put(query)

    def _work(self, visitor: str, lane: "SimpleQueue[zenoh.Query | None]") -> None:
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
