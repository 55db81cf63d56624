"""A Zenoh session as peers need it: mutual TLS, and each member held to its own keys."""

import json
import threading
from typing import Any, Literal, TypeAlias

import zenoh

from federico.errors import NetworkError
from federico.network.identity import Addresses, Identity
from federico.network.links import new_id
from federico.network.protocol import Topic
from federico.network.roster import Roster
from federico.network.wire.messages import LARGEST_MESSAGE

LEASE = 6.0
"""Seconds without a sign of life after which a link is given up: a frozen peer goes unnoticed."""
RELAY_TIMEOUT = 60.0
"""Seconds that a site which needs a relay waits for it."""
HANDSHAKE = 4.0
"""Seconds that whoever connects has to show a certificate."""
MOST_ARRIVING = 1000
"""Links with a certificate that may be opening at a time."""
LEAST_SESSIONS = 1000
SESSIONS_PER_MEMBER = 8
"""Room for the sessions of each member; `links.py` cuts those that are too many."""
CLOSING = 5.0
"""Seconds that leaving may take; Zenoh's own close can wait for a lost link much longer."""
WAIT_BEFORE_CLOSE = 60_000_000
"""Microseconds after which a message that cannot be sent costs the link. Zenoh's default of 5 s is
shorter than a large message takes on a slow line."""

ANSWER_MESSAGES = ["declare_queryable", "reply", "liveliness_token"]
"""Kinds of Zenoh messages by which a member answers and shows that it is there."""
WATCH_MESSAGES = ["liveliness_query", "declare_liveliness_subscriber"]
"""Kinds of Zenoh messages by which a member finds out who is there."""

Mode: TypeAlias = Literal["peer", "router"]
ConfigTable: TypeAlias = dict[str, Any]
"""A table of Zenoh's configuration."""


def open_session(
    identity: Identity, addresses: Addresses, roster: Roster, mode: Mode = "peer"
) -> zenoh.Session:
    """Join the network: members are found in the background, and again after every cut.

    Returns at once, except at a site that only dials out to a relay, which waits for the relay.
    """
    try:
        return _open(configuration(identity, addresses, roster, mode))
    except zenoh.ZError as error:
        where = "dialling only"
        if addresses.listen:
            where = "listening on " + ", ".join(addresses.listen)
        reason = str(error).splitlines()[0]
        raise NetworkError(f"cannot join the network, {where}: {reason}") from error


def close(session: zenoh.Session) -> bool:
    """Leave within bounded time; returns whether the session closed in it."""
    closing = threading.Thread(target=session.close, name="close session", daemon=True)
    closing.start()
    closing.join(CLOSING)
    return not closing.is_alive()


def configuration(
    identity: Identity, addresses: Addresses, roster: Roster, mode: Mode = "peer"
) -> ConfigTable:
    """The whole configuration of a session."""
    # Two peers that cannot reach each other get nothing through a router; its clients do.
    needs_relay = mode == "peer" and bool(roster.relays) and not addresses.listen
    access = access_rules(identity.name, roster)
    if mode == "router":
        access = relay_rules(roster)
    return {
        "id": new_id(identity.name),
        "mode": "client" if needs_relay else mode,
        "listen": {"endpoints": [_listening(address) for address in addresses.listen]},
        "connect": _connect(addresses, needs_relay),
        "scouting": _scouting(bool(addresses.listen)),
        "transport": _transport(identity, roster),
        "access_control": access,
    }


def access_rules(me: str, roster: Roster) -> ConfigTable:
    """What a member takes in: others may speak for themselves alone, a relay for all but me."""
    requests = {}
    for name in roster.members:
        if name != me:
            requests[name] = _request_keys(roster, me, name)
    relayed = dict.fromkeys(roster.relays, _request_keys(roster, me, "*"))
    rules = _rules(roster, requests, relayed)
    _let_in_double(rules, me, roster)
    return rules


def relay_rules(roster: Roster) -> ConfigTable:
    """What a relay takes in from each member: what the member it is for would take in."""
    requests = {}
    for name in roster.members:
        requests[name] = _request_keys(roster, "*", name)
    relayed = dict.fromkeys(roster.relays, _request_keys(roster, "*", "*"))
    return _rules(roster, requests, relayed)


def _request_keys(roster: Roster, owner: str, visitor: str) -> list[str]:
    """The keys of all that a visitor may request of an owner.

    Each is named: a rule for `**` would let a visitor send a key with wildcards in it, which other
    visitors' names fit as well.
    """
    return [roster.request_key(owner, visitor, topic) for topic in Topic]


def _answer_keys(roster: Roster, member: str) -> list[str]:
    """The keys under which a member answers and shows that it is there."""
    return [
        f"{roster.requests_key(member)}/**",
        f"{roster.member_key(member)}/alive/*/*",
        roster.process_key(member, "*"),
        roster.finished_key(member, "*"),
    ]


def _rules(
    roster: Roster, requests: dict[str, list[str]], relayed: dict[str, list[str]]
) -> ConfigTable:
    """Rules by which each member, and each relay, may send requests under some keys."""
    everything = [f"{roster.root}/**"]
    rules = [
        _rule("send", "egress", [*ANSWER_MESSAGES, *WATCH_MESSAGES, "query"], everything),
        _rule("watch", "ingress", WATCH_MESSAGES, everything),
    ]
    subjects = []
    policies = []
    for name, request_keys in (requests | relayed).items():
        answer_keys = everything if name in relayed else _answer_keys(roster, name)
        answers = _rule(f"answers of {name}", "ingress", ANSWER_MESSAGES, answer_keys)
        queries = _rule(f"requests of {name}", "ingress", ["query"], request_keys)
        rules += [answers, queries]
        subjects.append({"id": name, "cert_common_names": [name]})
        allowed = ["send", "watch", answers["id"], queries["id"]]
        policies.append({"rules": allowed, "subjects": [name]})
    return {
        "enabled": True,
        "default_permission": "deny",
        "rules": rules,
        "subjects": subjects,
        "policies": policies,
    }


def _let_in_double(rules: ConfigTable, me: str, roster: Roster) -> None:
    """Let another process with one's own certificate say that it is there, and nothing else."""
    token = _rule(
        f"process of {me}", "ingress", ["liveliness_token"], [roster.process_key(me, "*")]
    )
    rules["rules"].append(token)
    rules["subjects"].append({"id": me, "cert_common_names": [me]})
    rules["policies"].append({"rules": ["send", "watch", token["id"]], "subjects": [me]})


def _rule(name: str, flow: str, messages: list[str], keys: list[str]) -> ConfigTable:
    return {
        "id": name,
        "permission": "allow",
        "flows": [flow],
        "messages": messages,
        "key_exprs": keys,
    }


def _listening(address: str) -> str:
    return f"tls/{address}#tls_handshake_timeout_ms={int(HANDSHAKE * 1000)}"


def _connect(addresses: Addresses, needs_relay: bool) -> ConfigTable:
    return {
        "endpoints": [f"tls/{address}" for address in addresses.connect],
        "timeout_ms": int(RELAY_TIMEOUT * 1000) if needs_relay else -1,
        "exit_on_failure": needs_relay,
        "retry": {"period_init_ms": 500, "period_max_ms": 4000, "period_increase_factor": 2},
    }


def _scouting(listens: bool) -> ConfigTable:
    """Nobody is looked for by multicast; the peers that are met tell of the others.

    Of two that hear of each other one dials, unless this one listens nowhere and has to.
    """
    dials = "greater-zid" if listens else "always"
    strategy = {"peer": {"to_router": "always", "to_peer": dials}}
    return {
        "multicast": {"enabled": False},
        "gossip": {"enabled": True, "autoconnect_strategy": strategy},
    }


def _transport(identity: Identity, roster: Roster) -> ConfigTable:
    certificate = str(identity.certificate)
    key = str(identity.key)
    congestion = {"block": {"wait_before_close": WAIT_BEFORE_CLOSE}}
    return {
        "shared_memory": {"enabled": False},
        "unicast": {
            "accept_timeout": int(HANDSHAKE * 1000),
            "accept_pending": MOST_ARRIVING,
            "max_sessions": max(LEAST_SESSIONS, SESSIONS_PER_MEMBER * len(roster.members)),
        },
        "link": {
            "protocols": ["tls"],
            "tx": {
                "lease": int(LEASE * 1000),
                "keep_alive": 4,
                "queue": {"congestion_control": congestion},
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


def _open(table: ConfigTable) -> zenoh.Session:
    return zenoh.open(zenoh.Config.from_json5(json.dumps(table)))
