"""A Zenoh session as the peer network needs it: mutual TLS, nothing in the clear, everybody held to its own keys."""

import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import zenoh

from federico.errors import NetworkError
from federico.network.roster import Roster

LARGEST_MESSAGE = 4 << 20
LEASE = 6.0
"""Seconds without a sign of life after which a link is given up: how long a frozen peer goes unnoticed."""
DIALLING = 60.0
"""Seconds that a site which needs a relay waits for it."""
CLOSING = 5.0
"""Seconds that leaving may take; Zenoh's own close can wait for a lost link much longer."""
Mode = Literal["peer", "router"]
Table = dict[str, Any]
SPEAKING = ["declare_queryable", "reply", "liveliness_token"]
WATCHING = ["liveliness_query", "declare_liveliness_subscriber"]


@dataclass(frozen=True)
class Identity:
    """A site's own certificate and key, and the authority of its federation; all of them PEM files."""

    name: str
    certificate: Path
    key: Path
    authority: Path


@dataclass(frozen=True)
class Addresses:
    """`host:port` to listen on and to dial. A site that only dials out listens nowhere."""

    listen: Sequence[str] = ()
    connect: Sequence[str] = ()


def open_session(
    identity: Identity, addresses: Addresses, roster: Roster, mode: Mode = "peer"
) -> zenoh.Session:
    """Join the network: members are found in the background, and again after every cut.

    Returns at once, except at a site that only dials out to a relay: it waits for the relay, for a while.
    """
    try:
        return _open(configuration(identity, addresses, roster, mode))
    except zenoh.ZError as error:
        where = (
            "listening on " + ", ".join(addresses.listen) if addresses.listen else "dialling only"
        )
        raise NetworkError(f"cannot join the network, {where}: {_first_line(error)}") from error


def configuration(
    identity: Identity, addresses: Addresses, roster: Roster, mode: Mode = "peer"
) -> Table:
    """All that Zenoh is told, as it wants it."""
    # Two peers that cannot reach each other get nothing through a router; its clients do.
    relayed = mode == "peer" and bool(roster.relays) and not addresses.listen
    return {
        "mode": "client" if relayed else mode,
        "listen": {"endpoints": [f"tls/{address}" for address in addresses.listen]},
        "connect": _dialling(addresses, wait=relayed),
        "scouting": _scouting("greater-zid" if addresses.listen else "always"),
        "transport": _transport(identity),
        "access_control": relay_rules(roster)
        if mode == "router"
        else access_rules(identity.name, roster),
    }


def open_bus() -> zenoh.Session:
    """A session without sockets: what is declared and asked in it stays in this process."""
    return _open({"mode": "peer", "listen": {"endpoints": []}, "scouting": _scouting(None)})


def close(session: zenoh.Session) -> bool:
    """Leave within bounded time; returns whether the session closed in it."""
    closing = threading.Thread(target=session.close, name="closing", daemon=True)
    closing.start()
    closing.join(CLOSING)
    return not closing.is_alive()


def access_rules(me: str, roster: Roster) -> Table:
    """What messages of others come in: a member may speak for itself alone, a relay for everybody but me."""
    others = [name for name in roster.members if name != me]
    asks = {name: [roster.question(me, name, "**")] for name in others}
    return _rules(roster, asks, {relay: [f"{roster.home(me)}/**"] for relay in roster.relays})


def relay_rules(roster: Roster) -> Table:
    """What a relay takes in from each member: what the addressee itself would take."""
    asks = {name: [roster.question("*", name, "**")] for name in roster.members}
    return _rules(roster, asks, {relay: [f"{roster.root}/**"] for relay in roster.relays})


def _rules(roster: Roster, asks: dict[str, list[str]], relayed: dict[str, list[str]]) -> Table:
    """`asks`, `relayed`: the keys that a member, or a relay, may query."""
    homes = {name: [f"{roster.home(name)}/**"] for name in asks} | {
        relay: [f"{roster.root}/**"] for relay in relayed
    }
    everything, subjects = [f"{roster.root}/**"], [*asks, *relayed]
    rules = [_rule("out", "egress", [*SPEAKING, *WATCHING, "query"], everything)]
    rules += [_rule("watch", "ingress", WATCHING, everything)]
    rules += [_rule(f"speak {name}", "ingress", SPEAKING, keys) for name, keys in homes.items()]
    rules += [
        _rule(f"ask {name}", "ingress", ["query"], keys) for name, keys in (asks | relayed).items()
    ]
    return {
        "enabled": True,
        "default_permission": "deny",
        "rules": rules,
        "subjects": [{"id": name, "cert_common_names": [name]} for name in subjects],
        "policies": [
            {"rules": ["out", "watch", f"speak {name}", f"ask {name}"], "subjects": [name]}
            for name in subjects
        ],
    }


def _rule(name: str, flow: str, messages: list[str], keys: list[str]) -> Table:
    return {
        "id": name,
        "permission": "allow",
        "flows": [flow],
        "messages": messages,
        "key_exprs": keys,
    }


def _dialling(addresses: Addresses, *, wait: bool) -> Table:
    return {
        "endpoints": [f"tls/{address}" for address in addresses.connect],
        "timeout_ms": int(DIALLING * 1000) if wait else -1,
        "exit_on_failure": wait,
        "retry": {"period_init_ms": 500, "period_max_ms": 4000, "period_increase_factor": 2},
    }


def _scouting(dials: Literal["greater-zid", "always"] | None) -> Table:
    """Nobody is looked for by multicast; who is met tells of the others.

    Of a pair that hears of each other one dials, unless this one listens nowhere and has to.
    """
    strategy = {"peer": {"to_router": "always", "to_peer": dials}}
    told = {"enabled": True, "autoconnect_strategy": strategy} if dials else {"enabled": False}
    return {"multicast": {"enabled": False}, "gossip": told}


def _transport(identity: Identity) -> Table:
    certificate, key = str(identity.certificate), str(identity.key)
    return {
        "shared_memory": {"enabled": False},
        "link": {
            "protocols": ["tls"],
            "tx": {
                "lease": int(LEASE * 1000),
                "keep_alive": 4,
                # Acts as a deadline on a message under way: a slow line must not cost the link.
                "queue": {"congestion_control": {"block": {"wait_before_close": 60_000_000}}},
            },
            "rx": {"max_message_size": LARGEST_MESSAGE},
            "tls": {
                "root_ca_certificate": str(identity.authority),
                "enable_mtls": True,
                "verify_name_on_connect": True,
                "close_link_on_expiration": True,
                "listen_certificate": certificate,
                "listen_private_key": key,
                "connect_certificate": certificate,
                "connect_private_key": key,
            },
        },
    }


def _open(table: Table) -> zenoh.Session:
    return zenoh.open(zenoh.Config.from_json5(json.dumps(table)))


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
