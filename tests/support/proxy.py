"""A line between two peers that can go bad.

Bytes pass through here until a fault is armed and enough of them have passed.
"""

import contextlib
import socket
import threading
import time
from collections.abc import Callable

BLOCK = 1 << 16
"""Bytes that are passed on at a time."""


class Proxy:
    """Passes on to `port` whatever dials `self.port`."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._fault: Callable[[], object] | None = None
        self._left = 0
        self._lock = threading.Lock()
        self._open = threading.Event()
        self._open.set()
        self.delay = 0.0
        """Seconds for each block."""
        threading.Thread(target=self._accept, daemon=True).start()

    def arm(self, after: int, fault: Callable[[], object]) -> None:
        """Let this many bytes pass, in whichever direction, then do that once."""
        with self._lock:
            self._left, self._fault = after, fault

    def cut(self) -> None:
        """End all connections, in the middle of what they carry; one may dial again."""
        for pair in self._pairs:
            hang_up(*pair)

    def halt(self) -> None:
        """Nothing passes any more, and nobody is told."""
        self._open.clear()

    def pause(self, seconds: float) -> None:
        """Nothing passes for a while."""
        self.halt()
        threading.Timer(seconds, self._open.set).start()

    def close(self) -> None:
        self._open.set()
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                try:
                    far = socket.create_connection(("127.0.0.1", self._target))
                except OSError:  # nobody is there any more
                    near.close()
                    continue
                self._pairs.append((near, far))
                for one, other in ((near, far), (far, near)):
                    threading.Thread(target=self._carry, args=(one, other), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        with source, sink, contextlib.ExitStack() as leaving:
            leaving.enter_context(contextlib.suppress(OSError))
            leaving.callback(hang_up, source, sink)
            while block := source.recv(BLOCK):
                self._count(len(block))
                self._open.wait()
                time.sleep(self.delay)
                sink.sendall(block)

    def _count(self, size: int) -> None:
        with self._lock:
            self._left -= size
            due, self._fault = (self._fault, None) if self._left < 0 else (None, self._fault)
        if due is not None:
            due()


def hang_up(*ends: socket.socket) -> None:
    """Both sides are told at once, though somebody may still be reading here."""
    for end in ends:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
