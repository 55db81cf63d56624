"""Links that a peer does not want are cut: real sockets, real certificates."""

import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import zenoh

from federico.network.identity import Addresses, Identity
from federico.network.links import MOST_LINKS, Ends, LinkGuard, cut, is_id_of, new_id
from federico.network.roster import Roster
from federico.network.session import close, configuration, open_session
from tests.support.neighborhood import (
    DIGEST,
    eventually,
    free_port,
    names,
    names_linked,
    write_identity,
)

ROSTER = Roster("test", DIGEST, names(3))

Open = Callable[..., zenoh.Session]


@pytest.fixture
def here() -> str:
    return f"127.0.0.1:{free_port()}"


@pytest.fixture
def open_as(authority, tmp_path: Path, here: str) -> Iterator[Open]:
    """Opens a session with the certificate of a member that dials the victim, site0."""
    with ExitStack() as leaving:
        identities: dict[str, Identity] = {}

        def start(name: str, **changed: object) -> zenoh.Session:
            if name not in identities:
                identities[name] = write_identity(authority, tmp_path, name)
            table = configuration(identities[name], Addresses(connect=[here]), ROSTER)
            session = zenoh.open(zenoh.Config.from_json5(json.dumps(table | changed)))
            leaving.callback(close, session)
            return session

        yield start


@pytest.fixture
def victim(authority, tmp_path: Path, here: str) -> Iterator[zenoh.Session]:
    identity = write_identity(authority, tmp_path, "site0")
    session = open_session(identity, Addresses(listen=[here]), ROSTER)
    yield session
    close(session)


@pytest.fixture
def guard(victim: zenoh.Session) -> Iterator[LinkGuard]:
    with LinkGuard(victim, ROSTER) as guarding:
        yield guarding


def test_an_id_shows_whose_it_is_and_is_new_at_every_start() -> None:
    assert new_id("site1") != new_id("site1")
    assert is_id_of("site1", new_id("site1"))
    assert not is_id_of("site2", new_id("site1"))
    assert len(new_id("site1")) == 32


def test_a_session_has_the_id_that_it_was_given(victim: zenoh.Session) -> None:
    assert is_id_of("site0", str(victim.info.zid()))


def test_a_member_with_the_id_of_another_does_not_keep_it_out(
    victim: zenoh.Session, guard: LinkGuard, open_as: Open
) -> None:
    taken = new_id("site1")
    open_as("site2", id=taken)
    open_as("site1", id=taken)
    eventually(lambda: names_linked(victim).count("site1") == 1)
    eventually(lambda: names_linked(victim) == ["site1"])


def test_an_id_that_is_no_members_own_gets_no_link(
    victim: zenoh.Session, guard: LinkGuard, open_as: Open, caplog: pytest.LogCaptureFixture
) -> None:
    open_as("site2", id="12345678")
    eventually(
        lambda: (
            "site2: the link is cut: it uses an id of the engine that is not its own" in caplog.text
        )
    )
    eventually(lambda: names_linked(victim).count("site2") == 0)


def test_one_certificate_has_a_few_links_at_a_time_and_others_have_theirs(
    victim: zenoh.Session, guard: LinkGuard, open_as: Open
) -> None:
    open_as("site1")
    for _ in range(5 * MOST_LINKS):
        open_as("site2")
    eventually(lambda: names_linked(victim).count("site2") <= MOST_LINKS)
    assert names_linked(victim).count("site1") == 1


@pytest.fixture
def narrow(authority, tmp_path: Path, here: str) -> Iterator[zenoh.Session]:
    """A victim whose engine has room for twelve sessions in all, which are soon taken."""
    identity = write_identity(authority, tmp_path, "site0")
    table = configuration(identity, Addresses(listen=[here]), ROSTER)
    table["transport"]["unicast"]["max_sessions"] = 12
    session = zenoh.open(zenoh.Config.from_json5(json.dumps(table)))
    yield session
    close(session)


@pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "as the engine is"])
def test_one_certificate_cannot_take_all_sessions(
    narrow: zenoh.Session, open_as: Open, guarded: bool
) -> None:
    with ExitStack() as block:
        if guarded:
            block.enter_context(LinkGuard(narrow, ROSTER))
        for _ in range(16):
            open_as("site2")
        open_as("site1")
        if guarded:
            eventually(lambda: names_linked(narrow).count("site1") == 1)
        else:
            time.sleep(3)
            assert names_linked(narrow) == ["site2"] * 12, "what the guard is for"


def test_a_certificate_of_no_member_gets_no_link(
    victim: zenoh.Session, guard: LinkGuard, open_as: Open, caplog: pytest.LogCaptureFixture
) -> None:
    open_as("left-last-year")
    eventually(
        lambda: "left-last-year: the link is cut: it is no member of this federation" in caplog.text
    )
    eventually(lambda: names_linked(victim).count("left-last-year") == 0)


def test_who_is_shut_out_gets_no_link_for_a_while(
    victim: zenoh.Session, open_as: Open, caplog: pytest.LogCaptureFixture
) -> None:
    now = [100.0]
    with LinkGuard(victim, ROSTER, clock=lambda: now[0]) as guard:
        open_as("site2")
        eventually(lambda: names_linked(victim).count("site2") == 1)
        guard.shut_out("site2", "floods")
        eventually(lambda: names_linked(victim).count("site2") == 0)
        assert "it floods, and gets no other for 60 s" in caplog.text
        time.sleep(2)
        eventually(lambda: names_linked(victim) == [])  # it comes back, and is cut again
        now[0] += 61
        eventually(lambda: names_linked(victim) == ["site2"])


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_only_the_line_that_is_meant_is_cut(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with ExitStack() as lines:
        listener = lines.enter_context(socket.socket(family))
        try:
            listener.bind((host, 0))
        except OSError:
            pytest.skip(f"no {host} here")
        listener.listen()
        pairs = []
        for _ in range(2):
            dialled = lines.enter_context(socket.create_connection(listener.getsockname()[:2]))
            accepted = lines.enter_context(listener.accept()[0])
            accepted.settimeout(5)
            pairs.append((dialled, accepted))
        (cut_here, noticed), (kept, working) = pairs
        ends = Ends(cut_here.getsockname()[:2], cut_here.getpeername()[:2])
        assert cut([ends]) == 1
        assert noticed.recv(1) == b""
        kept.sendall(b"x")
        assert working.recv(1) == b"x"
        assert cut([Ends((host, 1), (host, 2))]) == 0
