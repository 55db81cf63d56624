"""How long a member takes to join while somebody without a certificate holds idle connections.

    python -m benchmarks.strangers
    python -m benchmarks.strangers --held 500 --most 130
    python -m benchmarks.strangers --held 500 --once

The stranger shows no certificate. It holds as many connections as it is told to, at the address at
which a member listens, and opens new ones as they are closed, unless `--once` says otherwise.
"""

import argparse
import resource
import socket
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

from benchmarks.network import ROSTER, credentials
from federico.network.identity import Addresses
from federico.network.links import LinkGuard
from federico.network.session import close, open_session

AHEAD = 8.0
"""Seconds for which the stranger has been there when the member comes."""


class Stranger:
    """Holds idle connections to a port of this machine, in a thread of its own."""

    def __init__(self, port: int, held: int, a_second: float, *, once: bool) -> None:
        self.opened = 0
        self._address = ("127.0.0.1", port)
        self._most = held
        self._a_second = a_second
        self._once = once
        self._held: list[socket.socket] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._hold, daemon=True)
        self._thread.start()

    def leave(self) -> None:
        """Close all connections."""
        self._stop.set()
        self._thread.join()
        for connection in self._held:
            connection.close()

    def _hold(self) -> None:
        began = time.monotonic()
        while not self._stop.wait(0.05):
            self._drop_closed()
            due = self._a_second * (time.monotonic() - began)
            with suppress(OSError):
                while self._wants_another() and self.opened < due:
                    connection = socket.create_connection(self._address, timeout=2)
                    connection.setblocking(False)
                    self._held.append(connection)
                    self.opened += 1

    def _wants_another(self) -> bool:
        so_far = self.opened if self._once else len(self._held)
        return so_far < self._most and not self._stop.is_set()

    def _drop_closed(self) -> None:
        still_open = []
        for connection in self._held:
            try:
                is_closed = not connection.recv(1)
            except BlockingIOError:
                is_closed = False
            except OSError:
                is_closed = True
            if is_closed:
                connection.close()
            else:
                still_open.append(connection)
        self._held = still_open


def joining(held: int, a_second: float, most: float, *, once: bool) -> str:
    """How long the member takes beside the stranger, in words."""
    with tempfile.TemporaryDirectory() as folder:
        identities = credentials(Path(folder))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        listening, member = ROSTER.members[:2]
        here = f"127.0.0.1:{port}"
        session = open_session(identities[listening], Addresses(listen=[here]), ROSTER)
        stranger = Stranger(port, held, a_second, once=once)
        time.sleep(AHEAD)
        with LinkGuard(session, ROSTER):
            began = time.monotonic()
            joined = open_session(identities[member], Addresses(connect=[here]), ROSTER)
            seconds = 0.0
            is_there = False
            while not is_there and seconds < most:
                time.sleep(0.05)
                links = session.info.links()
                is_there = any(link.auth_identifier == member for link in links)
                seconds = time.monotonic() - began
            stranger.leave()
        close(joined)
        close(session)
    after = f"after {seconds:.1f} s" if is_there else f"not after {seconds:.0f} s"
    renewed = "opened once" if once else f"renewed ({stranger.opened} in all)"
    return f"{held} idle connections, {renewed}: a member joins {after}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--held", type=int, default=40, help="connections at a time")
    parser.add_argument("--a-second", type=float, default=1e6, help="new connections at most")
    parser.add_argument("--most", type=float, default=130.0, help="seconds after which to give up")
    parser.add_argument("--once", action="store_true", help="do not renew what is closed")
    chosen = parser.parse_args()
    most_files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))
    print(joining(chosen.held, chosen.a_second, chosen.most, once=chosen.once))


if __name__ == "__main__":
    main()
