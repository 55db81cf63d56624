"""Real sockets, real certificates: who gets in, and what who is in may do."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zenoh
from torch import nn

from federico.errors import NetworkError
from federico.learning.layout import ModelLayout
from federico.network.identity import Addresses, Identity
from federico.network.presence import Presence
from federico.network.roster import Roster
from federico.network.session import Mode, close, configuration, open_session
from federico.network.wire.messages import DIGEST_BYTES
from federico.network.wire.schema import MOST_CHUNKS
from federico.network.wire.signing import LARGEST_CERTIFICATE
from tests.support.bus import open_bus
from tests.support.neighborhood import (
    DIGEST,
    SECONDS,
    eventually,
    free_port,
    join,
    names,
    signers_of,
    write_identity,
)

ROSTER = Roster("test", DIGEST, names(3))
RELAYED = Roster("test", DIGEST, names(2), relays=("relay",))


@pytest.fixture
def identity(authority, tmp_path: Path) -> Callable[..., Identity]:
    """Certificate and key on disk: of the test's authority unless another is given."""

    def make(name: str, issuer=authority, days: float = 7) -> Identity:
        folder = tmp_path / f"{name}-{id(issuer)}-{days}"
        folder.mkdir(exist_ok=True)
        return write_identity(issuer, folder, name, days)

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


def answer(query: zenoh.Query) -> None:
    with query:
        query.reply(query.key_expr, b"")


def answered(asker: zenoh.Session, key: str) -> bool:
    return any(reply.ok is not None for reply in asker.get(key, timeout=5.0))


@pytest.mark.parametrize(
    ("key", "allowed"),
    [
        (ROSTER.request_key("site2", "site1", "request-model"), True),
        (ROSTER.request_key("site0", "site1", "request-model"), False),
        (ROSTER.request_key("site2", "site0", "offer-update"), False),
        (ROSTER.request_key("site2", "site1", "anything-else"), False),
        ("elsewhere/request-model", False),
    ],
    ids=["itself", "for another", "in another's name", "no request of the protocol", "outside"],
)
def test_a_member_speaks_for_itself_alone(trio, key: str, allowed: bool) -> None:
    """site2 answers under a key, site1 sends a request.

    A second key tells when what site2 declared has reached site1.
    """
    site1, site2 = trio
    last = ROSTER.request_key("site2", "site1", "upload-chunk")
    with site2.declare_queryable(key, answer), site2.declare_queryable(last, answer):
        eventually(lambda: answered(site1, last))
        assert answered(site1, key) is allowed


def test_the_largest_announcement_passes_both_ways(trio) -> None:
    """As an answer and as a request: digests of so many chunks are one message."""
    site1, site2 = trio
    size = MOST_CHUNKS * DIGEST_BYTES + LARGEST_CERTIFICATE
    got: list[int] = []

    def announce(query: zenoh.Query) -> None:
        with query:
            got.append(len(query.attachment.to_bytes()))
            query.reply(query.key_expr, bytes(size))

    key = ROSTER.request_key("site2", "site1", "offer-update")
    with site2.declare_queryable(key, announce):
        eventually(lambda: [len(r.ok.payload) for r in ask_with(site1, key, size)] == [size])
    assert set(got) == {size}


def ask_with(session: zenoh.Session, key: str, size: int) -> list[zenoh.Reply]:
    return [reply for reply in session.get(key, attachment=bytes(size), timeout=5.0) if reply.ok]


def test_nobody_raises_the_token_of_another(trio) -> None:
    site1, site2 = trio
    watch = Presence(site1, ROSTER, "site1")
    forged = site2.liveliness().declare_token(ROSTER.alive_key("site0"))
    true = site2.liveliness().declare_token(ROSTER.finished_key("site2", 5))
    eventually(lambda: watch.furthest_round("site2") == 5)  # tokens arrive in order
    assert not watch.here("site0")
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
    signers = signers_of(authority, members)
    peers = join(model, sessions, signers, relays=RELAYED.relays, lockstep=False)
    try:
        for peer in peers:
            peer.publish(1)
        assert peers[0].pulls(1, 1) == [1]
        peers[0].push(1, 1)
        assert peers[1].exchange.collect(1).contributors.tolist() == [0]
    finally:
        for peer in peers:
            peer.exchange.close()


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
