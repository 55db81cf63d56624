"""What `federico peer check` does: finds what would fail before anything is started."""

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
from federico.experiment.memory_plan import peer_outlook
from federico.network.identity import Addresses
from federico.network.presence import members_seen
from federico.network.session import close, open_session
from federico.site.certificates import check_certificate
from federico.site.prepare import prepare_site
from federico.site.probe import NobodyThereError, probe, split_address
from federico.site.site_file import Site
from federico.site.state_folder import holds_own_state
from federico.site.status import EXPIRES_SOON_DAYS

SEARCH_SECONDS = 4.0
"""Seconds for the session to find the other members, and for their answers."""
Grade = Literal["ok", "wait", "wrong"]
"""`wait` is what will be ok once others are started."""


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    subject: str
    """What was checked."""
    grade: Grade
    message: str
    error: type[FedericoError] | None = None
    """The error with which `federico peer run` would end; None unless the grade is `wrong`."""


def check_site(site: Site) -> Iterator[Finding]:
    """Check everything that a peer needs, in the order in which it would need it."""
    yield Finding("federation", "ok", _describe_federation(site))
    yield _find("certificate", partial(_check_own_certificate, site))
    yield from _check_data_and_memory(site)
    yield _find("state", partial(_check_state, site))
    for address in site.addresses.listen:
        yield _find(f"listen {address}", partial(_check_listen, address))
    for address in site.addresses.connect:
        yield _find(f"connect {address}", partial(_check_connect, site, address))
    if site.addresses.connect:
        yield from _check_members(site)


def _find(subject: str, check: Callable[[], str]) -> Finding:
    """The finding of a check, which returns a message or raises an error."""
    try:
        return Finding(subject, "ok", check())
    except NobodyThereError as error:
        return Finding(subject, "wait", str(error))
    except FedericoError as error:
        return Finding(subject, "wrong", str(error), type(error))


def _describe_federation(site: Site) -> str:
    federation = site.federation
    members = len(federation.members)
    version = federation.roster.version
    return f"{federation.name}, {members} members, version {version} (the same at every site)"


def _check_own_certificate(site: Site) -> str:
    now = datetime.now(UTC)
    certificate = check_certificate(site.identity, now)
    message = (
        f"{certificate.name}, issued by {certificate.issuer}, "
        f"valid until {certificate.last:%F %H:%M} UTC"
    )
    if certificate.last - now < timedelta(days=EXPIRES_SOON_DAYS):
        message += "; renew it soon"
    return message


def _check_data_and_memory(site: Site) -> Iterator[Finding]:
    """Read the data once, and plan the memory for what it holds."""
    try:
        setup = prepare_site(site)
    except FedericoError as error:
        yield Finding("data and model", "wrong", str(error), type(error))
        return
    yield Finding("data and model", "ok", _describe_data(site, setup))
    yield _find("memory", partial(peer_outlook, setup, site.federation.limits, site.state))


def _describe_data(site: Site, setup: Setup) -> str:
    own = setup.clients[site.member_index]
    facts = (
        f"{len(own.train)} samples to train on, {len(own.test)} to test on, "
        f"a model of {setup.layout.parameters:,} parameters"
    )
    return "; ".join([facts, *setup.warnings])


def _check_state(site: Site) -> str:
    """Whether the peer can resume from what its state folder holds."""
    if holds_own_state(site):
        return f"{site.state}: the peer resumes"
    return f"{site.state}: nothing there yet; the peer starts with round 1"


def _check_listen(address: str) -> str:
    """Whether the address can be listened on: it is, for a moment."""
    host, port = split_address(address)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as listener:
        # A peer that has just ended leaves its port in a state in which it can be used again.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise NetworkError(
                    "the port is in use: by this very peer, if it is running already"
                ) from None
            raise NetworkError(f"cannot be listened on: {error.strerror or error}") from None
    return "free"


def _check_connect(site: Site, address: str) -> str:
    """Whether a member or a relay answers at an address that this site dials."""
    expected = {*site.federation.members, *site.federation.relays} - {site.name}
    name = probe(address, site.identity, expected)
    return f"{name} answers"


def _check_members(site: Site) -> Iterator[Finding]:
    """Which members can be seen from here. Absence is no fault; another federation file is."""
    roster = site.federation.roster
    dialling_only = Addresses(connect=site.addresses.connect)
    session = open_session(site.identity, dialling_only, roster)
    try:
        versions = _search_members(session, site)
    finally:
        close(session)

    for name in roster.members:
        if name != site.name:
            yield _check_version(name, versions.get(name), roster.version)


def _search_members(session: zenoh.Session, site: Site) -> dict[str, str]:
    """The members found, each with its version of the federation file."""
    roster = site.federation.roster
    others = set(roster.members) - {site.name}
    versions: dict[str, str] = {}
    deadline = time.monotonic() + SEARCH_SECONDS
    while versions.keys() != others and time.monotonic() < deadline:
        time.sleep(0.2)
        versions = members_seen(session, roster, SEARCH_SECONDS)
        versions.pop(site.name, None)
    return versions


def _check_version(name: str, version: str | None, own_version: str) -> Finding:
    subject = f"member {name}"
    if version is None:
        return Finding(subject, "wait", "not there now")
    if version == own_version:
        return Finding(subject, "ok", "here")
    if version.startswith("protocol "):
        message = f"here, but speaks {version}; upgrade the federico of the older of the two"
        return Finding(subject, "wrong", message, NetworkError)
    message = f"here with version {version} of the federation file; make both files the same"
    return Finding(subject, "wrong", message, NetworkError)
