"""Answers the questions of others in threads of its own, whatever they ask."""

import logging
import threading
from collections.abc import Callable

import zenoh

from federico.errors import ProtocolError
from federico.wire.talk import RefusedError, later, no

log = logging.getLogger(__name__)
WORKERS = 2
"""Threads per desk: one answers while the other waits for the line."""


class BusyError(Exception):
    """Not now: what is asked for will be there later."""


class Desk:
    """Gives every question under a key to `answer`; a question is never left without a reply."""

    def __init__(self, session: zenoh.Session, key: str, answer: Callable[[zenoh.Query], bytes]) -> None:
        self._answer = answer
        self._queryable = session.declare_queryable(key, zenoh.handlers.FifoChannel(256), complete=True)
        self._workers = [threading.Thread(target=self._work, name=key, daemon=True) for _ in range(WORKERS)]
        for worker in self._workers:
            worker.start()

    def close(self) -> None:
        """Take no more questions, and let those at hand be answered."""
        self._queryable.undeclare()
        for worker in self._workers:
            worker.join(5.0)

    def _work(self) -> None:
        for query in self._queryable:
            with query:
                self._reply(query)

    def _reply(self, query: zenoh.Query) -> None:
        try:
            query.reply(query.key_expr, self._answer(query))
        except BusyError as error:
            query.reply_err(later(error))
        except (ProtocolError, RefusedError) as error:
            query.reply_err(no(error))
        except zenoh.ZError as error:  # the asker is gone, or the session is closing
            log.debug("no reply to %s: %s", query.key_expr, error)
        except Exception:
            log.exception("could not answer %s", query.key_expr)
            query.reply_err(no("internal error"))
