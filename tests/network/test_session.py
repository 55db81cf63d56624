"""Real sockets, real certificates: who gets in, and what who is in may do."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
import zenoh
from torch import nn

from federico.errors import NetworkError
from federico.exchange.protocol import Updates
from federico.learning.layout import ModelLayout
from federico.learning.rows import Rows
from federico.learning.visits import Visits
from federico.network.presence import Presence
from federico.network.roster import Roster
from federico.network.session import (
    Addresses,
    Identity,
    Mode,
    close,
    configuration,
    open_bus,
    open_session,
)
from tests.support.neighborhood import DIGEST, free_port, join, names, seals

ROSTER = Roster("test", DIGEST, names(3))
RELAYED = Roster("test", DIGEST, names(2), relays=("relay",))
SECONDS = 60.0


@pytest.fixture
def identity(authority, tmp_path: Path) -> Callable[..., Identity]:
    """Papers on disk: of the test's authority unless another is given."""

    def make(name: str, issuer=authority, days: float = 7) -> Identity:
        folder = tmp_path / f"{name}-{id(issuer)}-{days}"
        folder.mkdir(exist_ok=True)
        paths = [folder / file for file in ("certificate.pem", "key.pem", "authority.pem")]
        for path, content in zip(paths, (*issuer.issue(name, days), issuer.pem), strict=True):
            path.write_bytes(content)
        return Identity(name, *paths)

    return make


@pytest.fixture
def opened() -> Iterator[Callable[[zenoh.Session], zenoh.Session]]:
    """Keeps sessions, and closes them after the test."""
    sessions: list[zenoh.Session] = []

    def keep(session: zenoh.Session) -> zenoh.Session:
        sessions.append(session)
        return session

    yield keep
    for session in reversed(sessions):
        close(session)


@pytest.fixture
def address(identity, opened) -> str:
    """Where site0 listens."""
    here = f"127.0.0.1:{free_port()}"
    opened(open_session(identity("site0"), Addresses(listen=[here]), ROSTER))
    return here


def insist(
    identity: Identity, address: str, seconds: float = SECONDS, change: Callable[[dict], None] = id
) -> zenoh.Session:
    """A session that is connected when it opens, or an error."""
    table = configuration(identity, Addresses(connect=[address]), ROSTER)
    table["connect"] |= {"timeout_ms": int(1000 * seconds), "exit_on_failure": True}
    change(table)
    return zenoh.open(zenoh.Config.from_json5(json.dumps(table)))


def without_certificate(table: dict) -> None:
    for key in ("connect_certificate", "connect_private_key"):
        del table["transport"]["link"]["tls"][key]
    table["transport"]["link"]["tls"]["enable_mtls"] = False


def in_the_clear(table: dict) -> None:
    table["transport"]["link"]["protocols"] = ["tcp"]
    table["connect"]["endpoints"] = [
        endpoint.replace("tls/", "tcp/") for endpoint in table["connect"]["endpoints"]
    ]


def test_a_member_gets_in(identity, address: str, opened) -> None:
    session = opened(insist(identity("site1"), address))
    assert len(list(session.info.peers_zid())) == 1


@pytest.mark.parametrize(
    "change", [without_certificate, in_the_clear], ids=["no certificate", "plain TCP"]
)
def test_who_shows_no_certificate_does_not_get_in(identity, address: str, change) -> None:
    with pytest.raises(zenoh.ZError):
        insist(identity("site1"), address, 2, change)


def test_papers_of_another_authority_do_not_get_in(
    identity, address: str, new_authority, authority
) -> None:
    other = identity("site1", new_authority("test authority"))
    trusting = Identity("site1", other.certificate, other.key, identity("site2").authority)
    for stranger in (other, trusting):
        with pytest.raises(zenoh.ZError):
            insist(stranger, address, 2)


def test_expired_papers_do_not_get_in(identity, address: str) -> None:
    with pytest.raises(zenoh.ZError):
        insist(identity("site1", days=-1), address, 2)


def test_an_address_in_use_is_named(identity, address: str) -> None:
    with pytest.raises(NetworkError, match=f"listening on {address}"):
        open_session(identity("site1"), Addresses(listen=[address]), ROSTER)


@pytest.fixture
def trio(identity, address: str, opened) -> tuple[zenoh.Session, zenoh.Session]:
    """Sessions of site1 and site2; site0 listens to both, and site1 to site2 as well."""
    here = f"127.0.0.1:{free_port()}"
    site1 = opened(
        open_session(identity("site1"), Addresses(listen=[here], connect=[address]), ROSTER)
    )
    site2 = opened(open_session(identity("site2"), Addresses(connect=[address, here]), ROSTER))
    memberships = [Presence(site1, ROSTER, "site1"), Presence(site2, ROSTER, "site2")]
    assert memberships[0].wait(["site2"], SECONDS)
    assert memberships[1].wait(["site1"], SECONDS)
    return site1, site2


def eventually(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def answer(query: zenoh.Query) -> None:
    with query:
        query.reply(query.key_expr, b"")


def answered(asker: zenoh.Session, key: str) -> bool:
    return any(reply.ok is not None for reply in asker.get(key, timeout=5.0))


@pytest.mark.parametrize(
    ("key", "allowed"),
    [
        (ROSTER.question("site2", "site1", "ask"), True),
        (ROSTER.question("site0", "site1", "ask"), False),
        (ROSTER.question("site2", "site0", "offer"), False),
        ("elsewhere/ask", False),
    ],
    ids=["itself", "answering for another", "pushing under another's name", "outside"],
)
def test_a_member_speaks_for_itself_alone(trio, key: str, allowed: bool) -> None:
    """site2 answers under a key, site1 asks; a second key tells when what site2 declared has reached site1."""
    site1, site2 = trio
    last = ROSTER.question("site2", "site1", "last")
    with site2.declare_queryable(key, answer), site2.declare_queryable(last, answer):
        eventually(lambda: answered(site1, last))
        assert answered(site1, key) is allowed


def test_nobody_raises_the_token_of_another(trio) -> None:
    site1, site2 = trio
    watch = Presence(site1, ROSTER, "site1")
    forged = site2.liveliness().declare_token(ROSTER.alive("site0"))
    true = site2.liveliness().declare_token(ROSTER.finished("site2", 5))
    assert watch._wait(lambda: watch._finished.get("site2") == 5, SECONDS), "tokens arrive in order"
    assert "site0" not in watch._here
    forged.undeclare()
    true.undeclare()


def test_models_and_updates_pass_a_relay_between_sites_that_only_dial(
    identity, opened, authority
) -> None:
    here = f"127.0.0.1:{free_port()}"
    opened(open_session(identity("relay"), Addresses(listen=[here]), RELAYED, mode="router"))
    members = RELAYED.members
    sessions = [
        opened(open_session(identity(name), Addresses(connect=[here]), RELAYED)) for name in members
    ]
    model = ModelLayout(lambda: nn.Linear(2, 1))
    peers = join(model, sessions, seals(authority, members), relays=RELAYED.relays, lockstep=False)
    try:
        for peer in peers:
            peer.pull(Visits.of([]))
        assert peers[0].pull(Visits.of([(0, 1)])).pairs == [(0, 1)]
        peers[0].push(Updates(np.array([1]), np.array([0]), np.ones(1), Rows.of(torch.ones(1, 3))))
        assert peers[1].collect().contributors.tolist() == [0]
    finally:
        for peer in peers:
            peer.close()


@pytest.mark.parametrize("mode", ["peer", "router"])
def test_nothing_is_looked_for_or_left_open(identity, mode: Mode) -> None:
    table = configuration(identity("site0"), Addresses(), ROSTER, mode)
    assert table["scouting"]["multicast"] == {"enabled": False}
    assert table["transport"]["link"]["protocols"] == ["tls"]
    assert table["transport"]["shared_memory"] == {"enabled": False}
    assert table["access_control"]["default_permission"] == "deny"
    assert table["listen"]["endpoints"] == []


def test_a_site_that_only_dials_is_a_client_of_the_relay(identity) -> None:
    dialling = configuration(identity("site0"), Addresses(connect=["relay:7447"]), RELAYED)
    assert dialling["mode"] == "client"
    assert dialling["connect"]["exit_on_failure"]
    assert (
        configuration(identity("site0"), Addresses(listen=["here:7447"]), RELAYED)["mode"] == "peer"
    )
    assert (
        configuration(identity("site0"), Addresses(connect=["seed:7447"]), ROSTER)["mode"] == "peer"
    )


def test_closing_is_bounded() -> None:
    session = open_bus()
    assert close(session)
    assert session.is_closed()
