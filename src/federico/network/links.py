"""Cuts links that the engine takes and this peer does not want.

The engine checks certificates, and nothing that takes more than one link to see. So whoever has one
certificate could hold all of its sessions, take the id under which another member is known to it,
or send more than this process can drop. Here every link is looked at as it opens, by the name in
its certificate, and what is too much is closed below the engine, which notices a line that has
ended. That needs a list of open files as Linux and macOS have it; elsewhere links are only named in
the log.
"""

import hashlib
import logging
import os
import secrets
import socket
import stat
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import NamedTuple

import zenoh

from federico.network.roster import Roster

log = logging.getLogger(__name__)

MOST_LINKS = 4
"""Links of one certificate at a time: a peer, its `peer check`, and some that have ended unnoticed.
"""
SHUT_OUT = 60.0
"""Seconds for which a member that floods gets no link."""
BETWEEN_WARNINGS = 60.0
"""Seconds between two lines of the log about the same member."""
ID_DIGITS = 32
OPEN_FILES = "/dev/fd"
"""Where the open files of this process are listed."""


class Ends(NamedTuple):
    """Address and port of both ends of a line; an address that is not known is empty."""

    own: tuple[str, int]
    other: tuple[str, int]


class LinkGuard:
    """Looks at every link of a session for as long as its `with` block lasts."""

    def __init__(
        self,
        session: zenoh.Session,
        roster: Roster,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`clock` gives seconds; tests set it."""
        self._session = session
        self._known = frozenset([*roster.members, *roster.relays])
        self._clock = clock
        self._lock = threading.Lock()
        self._links: dict[str, list[zenoh.Link]] = {}
        """By the name in the certificate, the oldest first, without those that are to be cut."""
        self._shut_out_until: dict[str, float] = {}
        self._warned: dict[str, float] = {}
        self._unwanted: SimpleQueue[zenoh.Link | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._cut_unwanted, name="cut links", daemon=True)

    def __enter__(self) -> "LinkGuard":
        """Begin with the links that are open already."""
        self._thread.start()
        self._listener = self._session.info.declare_link_events_listener(self._note, history=True)
        return self

    def __exit__(self, *_: object) -> None:
        """Look at no more links; the session stays open."""
        self._listener.undeclare()
        self._unwanted.put(None)
        self._thread.join()

    def shut_out(self, name: str, reason: str) -> None:
        """Cut all links of a member, and those that it opens in the next while."""
        with self._lock:
            self._shut_out_until[name] = self._clock() + SHUT_OUT
            open_now = list(self._links.get(name, ()))
        self._warn(name, f"{reason}, and gets no other for {SHUT_OUT:g} s")
        for link in open_now:
            self._unwanted.put(link)

    def _note(self, event: zenoh.LinkEvent) -> None:
        """A link opened or closed. Runs in a thread of Zenoh: must not wait."""
        link = event.link
        name = link.auth_identifier
        if name is None:
            return  # no certificate: a session inside this process

        if event.kind == zenoh.SampleKind.DELETE:
            with self._lock:
                ends = (link.src, link.dst)
                left = [each for each in self._links.get(name, ()) if (each.src, each.dst) != ends]
                self._links[name] = left
            return

        with self._lock:
            links = self._links.setdefault(name, [])
            links.append(link)
            too_many = links[:-MOST_LINKS]
            self._links[name] = links[-MOST_LINKS:]
            shut_out = self._clock() < self._shut_out_until.get(name, 0.0)
        if shut_out:
            self._unwanted.put(link)
        elif name not in self._known:
            self._refuse(name, link, "is no member of this federation")
        elif not is_id_of(name, str(link.zid)):
            self._refuse(name, link, "uses an id of the engine that is not its own")
        for old in too_many:
            self._refuse(name, old, f"has more than {MOST_LINKS} links at a time")

    def _refuse(self, name: str, link: zenoh.Link, reason: str) -> None:
        self._unwanted.put(link)
        self._warn(name, reason)

    def _warn(self, name: str, reason: str) -> None:
        now = self._clock()
        if now - self._warned.get(name, -BETWEEN_WARNINGS) >= BETWEEN_WARNINGS:
            self._warned[name] = now
            log.warning("%s: the link is cut: it %s", name, reason)

    def _cut_unwanted(self) -> None:
        while (first := self._unwanted.get()) is not None:
            # All that have come meanwhile are cut together: to find one takes as long.
            unwanted = [first]
            with suppress(Empty):
                while (link := self._unwanted.get_nowait()) is not None:
                    unwanted.append(link)
                self._unwanted.put(None)  # the end, for the next look
            cut([ends for link in unwanted if (ends := _ends_of(link)) is not None])


def new_id(name: str) -> str:
    """An id for the engine, new at every start, that shows whose it is."""
    mark = _mark(name)
    return mark + secrets.token_hex((ID_DIGITS - len(mark)) // 2)


def is_id_of(name: str, engine_id: str) -> bool:
    """Whether an id of the engine is one that whoever has this name in its certificate may use."""
    return engine_id.startswith(_mark(name))


def cut(unwanted: Collection[Ends]) -> int:
    """End lines of this process from below; returns how many were found."""
    try:
        listed = [int(file.name) for file in Path(OPEN_FILES).iterdir()]
    except OSError:
        log.warning("links cannot be cut here: there is no %s", OPEN_FILES)
        return 0
    return sum(_cut_if(number, unwanted) for number in listed)


def _mark(name: str) -> str:
    """The first half of an id. It must not begin with a zero, which the engine leaves out."""
    return "f" + hashlib.sha256(name.encode()).hexdigest()[: ID_DIGITS // 2 - 1]


def _cut_if(number: int, unwanted: Collection[Ends]) -> bool:
    """End the line behind this open file if it is one of these."""
    with suppress(OSError):  # closed meanwhile, or no line
        if not stat.S_ISSOCK(os.fstat(number).st_mode):
            return False
        # A copy of one's own cannot become another file while it is looked at.
        with socket.socket(fileno=os.dup(number)) as line:
            own, other = line.getsockname(), line.getpeername()
            if not isinstance(own, tuple) or not isinstance(other, tuple):
                return False
            found = Ends((own[0], own[1]), (other[0], other[1]))
            if any(_fit(ends, found) for ends in unwanted):
                line.shutdown(socket.SHUT_RDWR)
                return True
    return False


def _fit(wanted: Ends, found: Ends) -> bool:
    for (address, port), (there, port_there) in zip(wanted, found, strict=True):
        if port != port_there or (address and address != _plain(there)):
            return False
    return True


def _ends_of(link: zenoh.Link) -> Ends | None:
    """Both ends of a link, as the engine writes them: `tls/host:port`."""
    try:
        return Ends(_address(str(link.src)), _address(str(link.dst)))
    except ValueError:
        return None


def _address(locator: str) -> tuple[str, int]:
    bare = locator.partition("/")[2].partition("#")[0].partition("?")[0]
    host, _, port = bare.rpartition(":")
    return _plain(host.strip("[]")), int(port)


def _plain(host: str) -> str:
    """An address in the one way to write it; empty for the name of a machine."""
    try:
        return str(ip_address(host.partition("%")[0]))
    except ValueError:
        return ""
