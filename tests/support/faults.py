"""A session whose owner answers badly: the seam at which faults are injected."""

import threading
import time
from collections.abc import Callable
from enum import Enum, auto
from typing import Any

import zenoh


class Fault(Enum):
    """What goes wrong between an owner and its visitor."""

    BEFORE = auto()
    """The owner fails before anything is transferred."""
    MIDWAY = auto()
    """The owner is gone in the middle of a transfer."""
    SLOW = auto()
    """Everything takes much longer."""
    CUT = auto()
    """What is sent ends in the middle."""
    HALF_OPEN = auto()
    """Nothing is answered any more, and nobody is told."""
    NINE_SECONDS = auto()
    """Nothing passes for so long: both sides give the connection up, and dial again."""
    FROZEN = auto()
    """The owner stops for a while, then resumes."""
    STOPPED = auto()
    """The visitor itself is told to stop while it receives."""


OF_ANSWERS = [fault for fault in Fault if fault is not Fault.NINE_SECONDS]
"""What an owner in the same process can do wrong."""
OF_LINES = [fault for fault in Fault if fault is not Fault.STOPPED]
"""What can happen to another process and the line to it."""


class FaultySession:
    """A session that is as it should be, but for the requests about one topic that come in."""

    def __init__(self, session: zenoh.Session, topic: str) -> None:
        self._session = session
        self._topic = topic
        self.fault: Fault | None = None
        """What goes wrong from now on."""
        self.leave: Callable[[], None] = lambda: None
        """Ends the owner."""
        self.stop_visitor: Callable[[], None] = lambda: None
        """Tells the visitor to wait for nobody."""
        self.over = threading.Event()
        """Frees whoever a fault holds up."""
        self.requests = 0
        """Requests about the topic since something goes wrong."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def declare_queryable(
        self, key: str, handler: Callable[[Any], None], **options: Any
    ) -> zenoh.Queryable[None]:
        def with_fault(query: zenoh.Query) -> None:
            about = str(query.key_expr).rpartition("/")[2]
            handler(FaultyQuery(query, self) if about == self._topic else query)

        return self._session.declare_queryable(key, with_fault, **options)

    def happens(self, content: bytes) -> bytes:
        """Called where the owner reads a request; returns what it reads."""
        if self.fault is not None:
            self.requests += 1
        match self.fault:
            case Fault.BEFORE:
                raise RuntimeError("it fell over")
            case Fault.MIDWAY if self.requests > 2:
                threading.Thread(target=self.leave).start()
            case Fault.SLOW:
                time.sleep(0.03)
            case Fault.HALF_OPEN:
                self.over.wait(60)
            case Fault.FROZEN if self.requests == 2:
                self.over.wait(1.0)
            case Fault.STOPPED if self.requests > 2:
                self.stop_visitor()
        return self.cut(content)

    def cut(self, content: bytes) -> bytes:
        if self.fault is Fault.CUT:
            return content[: len(content) // 2]
        return content


class FaultyQuery:
    """A request under a fault."""

    def __init__(self, query: zenoh.Query, session: FaultySession) -> None:
        self._query = query
        self._session = session
        self.key_expr = query.key_expr
        self.attachment = FaultyBytes(query.attachment, session.happens)
        self.payload = None
        if query.payload is not None:
            self.payload = FaultyBytes(query.payload, session.cut)

    def __enter__(self) -> "FaultyQuery":
        return self

    def __exit__(self, *_: object) -> None:
        self._query.drop()

    def reply(self, key: zenoh.KeyExpr, payload: bytes) -> None:
        self._query.reply(key, self._session.cut(payload))

    def reply_err(self, payload: bytes) -> None:
        self._query.reply_err(payload)

    def drop(self) -> None:
        self._query.drop()


class FaultyBytes:
    """Bytes of a request, read under a fault."""

    def __init__(self, content: Any, read: Callable[[bytes], bytes]) -> None:
        self._content = content.to_bytes()
        self._read = read

    def __len__(self) -> int:
        return len(self._content)

    def to_bytes(self) -> bytes:
        return self._read(self._content)
