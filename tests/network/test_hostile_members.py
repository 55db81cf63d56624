"""Members with a valid certificate that turn hostile, against real peers over mutual TLS."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
import zenoh
from torch import nn

from federico.exchange.protocol import Updates
from federico.learning.layout import ModelLayout
from federico.learning.rows import Rows
from federico.network.identity import Addresses, Identity
from federico.network.limits import Limits
from federico.network.presence import LINES_AT_ONCE, TOKENS_AT_ONCE
from federico.network.protocol import Topic
from federico.network.roster import Roster
from federico.network.session import close, open_session
from tests.support.neighborhood import (
    DIGEST,
    Neighbor,
    connect,
    eventually,
    free_port,
    join,
    meet,
    names,
    signers_of,
    write_identity,
)

ROSTER = Roster("test", DIGEST, names(3))
LAYOUT = ModelLayout(lambda: nn.Linear(2, 1))
LIMITS = Limits(deadline=20, patience=20, clip=1e9, refuse=1e9)
RELAYED = ("relay",)


@dataclass
class Village:
    """Two honest peers, and the session of a third member that does what it likes."""

    victim: Neighbor
    honest: Neighbor
    hostile: zenoh.Session
    victim_session: zenoh.Session
    flooders: list[str]
    """Whom the victim has found to send far too much, again and again."""


@pytest.fixture
def identities(authority, tmp_path: Path) -> list[Identity]:
    return [write_identity(authority, tmp_path, name) for name in ROSTER.members]


@pytest.fixture
def village(identities: list[Identity]) -> Iterator[Village]:
    here = f"127.0.0.1:{free_port()}"
    flooders: list[str] = []
    victim, first = connect(
        identities[0],
        Addresses(listen=[here]),
        ROSTER,
        LAYOUT,
        LIMITS,
        flooded=flooders.append,
    )
    honest, second = connect(identities[1], Addresses(connect=[here]), ROSTER, LAYOUT, LIMITS)
    hostile = open_session(identities[2], Addresses(connect=[here]), ROSTER)
    token = hostile.liveliness().declare_token(ROSTER.alive_key("site2"))
    meet([victim], ROSTER)
    victim.publish(1)
    yield Village(victim, honest, hostile, first, flooders)
    token.undeclare()
    for peer in (victim, honest):
        peer.exchange.close()
    for session in (first, second, hostile):
        close(session)


def framing_keys(requests: str) -> list[str]:
    """Keys that begin with the hostile member's own name, but end with an honest one's."""
    return [
        f"{requests}/site2/**/site1/**",
        f"{requests}/site2/**/site1/request-model",
        f"{requests}/*/request-model",
        f"{requests}/site$*/offer-update",
        f"{requests}/site2/**",
    ]


def send_nonsense(session: zenoh.Session, keys: list[str]) -> None:
    for key in keys:
        list(session.get(key, attachment=b"nonsense", timeout=0.5))


def test_nobody_is_framed_by_keys_with_wildcards(village: Village) -> None:
    send_nonsense(village.hostile, framing_keys(ROSTER.requests_key("site0")))
    assert village.victim.exchange.reputation.all_offences() == {}
    assert village.honest.pulls(1, 0) == [0]


def test_nonsense_in_the_own_name_counts(village: Village) -> None:
    own = ROSTER.request_key("site0", "site2", Topic.REQUEST_MODEL)
    send_nonsense(village.hostile, [own])
    assert list(village.victim.exchange.reputation.all_offences()) == ["site2"]


def greedy_update(sender: Neighbor) -> Updates:
    """An update of the model of site0 that claims more samples than anybody may have."""
    rows = Rows.of(torch.ones(1, LAYOUT.size))
    return Updates(np.array([0]), np.array([sender.number]), np.array([1e5]), rows)


@pytest.fixture
def on_a_bus(authority, bus: zenoh.Session) -> Iterator[list[Neighbor]]:
    """Two peers of a federation with a relay; whoever holds the bus stands for the relay."""
    signers = signers_of(authority, names(2))
    peers = join(LAYOUT, [bus, bus], signers, LIMITS, lockstep=False, relays=RELAYED)
    for peer in peers:
        peer.publish(1)
    yield peers
    for peer in peers:
        peer.exchange.close()


def test_even_what_passes_the_rules_of_access_frames_nobody(
    on_a_bus: list[Neighbor], bus: zenoh.Session
) -> None:
    roster = Roster("test", DIGEST, names(2), RELAYED)
    send_nonsense(bus, framing_keys(roster.requests_key("site0")))
    assert on_a_bus[0].exchange.reputation.all_offences() == {}


def test_a_relay_frames_nobody(on_a_bus: list[Neighbor], bus: zenoh.Session) -> None:
    """What is not signed could be the relay's own: it is refused, and held against nobody."""
    victim, honest = on_a_bus
    roster = Roster("test", DIGEST, names(2), RELAYED)
    requests = [roster.request_key("site0", "site1", topic) for topic in Topic]
    send_nonsense(bus, requests)
    assert victim.exchange.reputation.all_offences() == {}

    def forge(query: zenoh.Query) -> None:
        with query:
            query.reply(query.key_expr, b"a forged announcement")

    honest.exchange.close()
    with bus.declare_queryable(f"{roster.requests_key('site1')}/**", forge):
        token = bus.liveliness().declare_token(roster.alive_key("site1"))
        meet([victim], roster)
        assert victim.pulls(1, 1) == []
        token.undeclare()
    assert victim.exchange.reputation.all_offences() == {}


def test_what_a_member_signed_counts_behind_a_relay_too(authority, bus: zenoh.Session) -> None:
    limits = LIMITS.model_copy(update={"samples": 10.0})
    signers = signers_of(authority, names(2))
    victim, hostile = join(LAYOUT, [bus, bus], signers, limits, lockstep=False, relays=RELAYED)
    try:
        victim.publish(1)
        assert hostile.pulls(1, 0) == [0]
        hostile.exchange.push(1, greedy_update(hostile))
        assert "more than anybody" in victim.exchange.reputation.offences("site1").reason
    finally:
        for peer in (victim, hostile):
            peer.exchange.close()


@pytest.fixture
def beside_a_mute_one(village: Village) -> Iterator[Village]:
    """The hostile member takes every question and answers none."""
    village.honest.publish(1)
    held: list[zenoh.Query] = []
    requests = f"{ROSTER.requests_key('site2')}/*/*"
    with village.hostile.declare_queryable(requests, held.append):
        key = ROSTER.request_key("site2", "site0", Topic.REQUEST_MODEL)
        eventually(lambda: bool(village.victim_session.get(key, timeout=0.2)) and bool(held))
        yield village
        for query in held:
            query.drop()


def test_a_mute_member_is_not_waited_for_once_the_others_have_come(
    beside_a_mute_one: Village,
) -> None:
    victim = beside_a_mute_one.victim
    began = time.monotonic()
    assert victim.pulls(1, 1, 2) == [1]
    first = time.monotonic() - began
    assert first < LIMITS.deadline / 2

    began = time.monotonic()
    assert victim.pulls(2, 1, 2) == [1]
    assert time.monotonic() - began < 1, "it is left alone ten times as long as it was waited for"
    assert victim.exchange.pace.left_alone("site2") > 5 * (first - 1)
    assert victim.exchange.reputation.all_offences() == {}, "to be slow is no offence"


def test_a_storm_of_tokens_is_bounded_and_fills_no_log(
    village: Village, caplog: pytest.LogCaptureFixture
) -> None:
    """The engine remembers every token, and a peer looks at each that comes or goes."""
    caplog.set_level("INFO", logger="federico.network.presence")
    held = []
    for number in range(2 * TOKENS_AT_ONCE):
        key = f"{ROSTER.member_key('site2')}/alive/{number:016x}/1"
        held.append(village.hostile.liveliness().declare_token(key))
    eventually(lambda: "site2" in village.flooders)
    assert set(village.flooders) == {"site2"}
    assert len(caplog.records) <= 2 * LINES_AT_ONCE
    assert village.honest.pulls(1, 0) == [0]
    assert village.victim.exchange.presence.here("site1")
