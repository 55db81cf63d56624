"""What would fail, told before anything starts."""

import errno
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Literal

import zenoh

from federico.errors import FedericoError, NetworkError
from federico.experiment.build import Setup
from federico.network.presence import members_seen
from federico.network.session import Addresses, close, open_session
from federico.site import certificates as pki
from federico.site.build import prepare
from federico.site.memory_plan import outlook
from federico.site.probe import NobodyThereError, probe
from federico.site.site_file import Site

SOON = timedelta(days=14)
JOINING = 4.0
"""Seconds for the session to find the others, and for their answers."""


Grade = Literal["ok", "wait", "wrong"]
"""`wait` is what will be ok once others are started."""


@dataclass(frozen=True)
class Finding:
    """One thing looked at."""

    what: str
    grade: Grade
    message: str
    fault: type[FedericoError] | None = None
    """Of what is wrong: as what `federico peer` would report it."""


def check(site: Site) -> Iterator[Finding]:
    """Everything a peer needs, one finding each, in the order in which it would need it."""
    yield Finding("federation", "ok", _agreement(site))
    yield _look("certificate", partial(_papers, site))
    yield from _preparation(site)
    for address in site.addresses.listen:
        yield _look(f"listen {address}", partial(_listen, address))
    for address in site.addresses.connect:
        yield _look(f"connect {address}", partial(_connect, site, address))
    if site.addresses.connect:
        yield from _members(site)


def _members(site: Site) -> Iterator[Finding]:
    """Who is there, as far as one can see from here; absence is no fault, another federation file is."""
    roster = site.agreement.roster
    session = open_session(site.identity, Addresses(connect=site.addresses.connect), roster)
    try:
        seen = _seen(session, site)
    finally:
        close(session)
    for name in site.agreement.members:
        if name != site.name:
            yield _member(name, seen.get(name), roster.version)


def _seen(session: zenoh.Session, site: Site) -> dict[str, str]:
    """Until all are, or for long enough to find them."""
    roster, seen, until = site.agreement.roster, dict[str, str](), time.monotonic() + JOINING
    while seen.keys() != set(roster.members) - {site.name} and time.monotonic() < until:
        time.sleep(0.2)
        seen = members_seen(session, roster, JOINING)
        seen.pop(site.name, None)
    return seen


def _member(name: str, version: str | None, agreed: str) -> Finding:
    if version is None:
        return Finding(f"member {name}", "wait", "not there now")
    if version == agreed:
        return Finding(f"member {name}", "ok", "here")
    fault = f"here with version {version} of the federation file; make both files the same"
    return Finding(f"member {name}", "wrong", fault, NetworkError)


def _look(what: str, find: Callable[[], str]) -> Finding:
    try:
        return Finding(what, "ok", find())
    except NobodyThereError as error:
        return Finding(what, "wait", str(error))
    except FedericoError as error:
        return _wrong(what, error)


def _wrong(what: str, error: FedericoError) -> Finding:
    return Finding(what, "wrong", str(error), type(error))


def _agreement(site: Site) -> str:
    agreed = site.agreement
    return f"{agreed.name}, {len(agreed.members)} members, version {agreed.roster.version} (the same at every site)"


def _papers(site: Site) -> str:
    papers, now = site.identity, datetime.now(UTC)
    mine = pki.check_own(papers.certificate, papers.key, papers.authority, site.name, now)
    soon = "; renew it soon" if mine.last - now < SOON else ""
    return f"{mine.name}, issued by {mine.issuer}, valid until {mine.last:%F %H:%M} UTC{soon}"


def _preparation(site: Site) -> Iterator[Finding]:
    """The data is read once, and memory planned for what there is."""
    try:
        setup = prepare(site)
    except FedericoError as error:
        yield _wrong("data and model", error)
        return
    yield Finding("data and model", "ok", _data(site, setup))
    yield _look("memory", partial(outlook, site, setup))


def _data(site: Site, setup: Setup) -> str:
    own = setup.clients[site.place]
    warnings = "".join(f"; {warning}" for warning in setup.warnings)
    numbers = f"{len(own.train)} samples to train on, {len(own.test)} to test on"
    return f"{numbers}, a model of {setup.layout.parameters:,} parameters{warnings}"


def _listen(address: str) -> str:
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((host, int(port)))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise NetworkError(
                    "the port is in use: by this very peer, if it is running already"
                ) from None
            raise NetworkError(f"cannot be listened on: {error.strerror or error}") from None
    return "free"


def _connect(site: Site, address: str) -> str:
    expected = {*site.agreement.members, *site.agreement.relays} - {site.name}
    return f"{probe(address, site.identity, expected)} answers"
