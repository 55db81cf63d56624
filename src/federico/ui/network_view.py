"""Is the network well? What the peers of the sites in a folder say about themselves."""

import re
import time
from pathlib import Path

from federico.report.text import percent
from federico.runs.comparison import describe_comparison, trusts_only_itself
from federico.runs.records import iterate_parts, read_spent
from federico.site.clocks import describe_clock
from federico.site.status import (
    EXPIRES_SOON_DAYS,
    SECONDS_A_DAY,
    SMALLEST_SHOWN_WEIGHT,
    Status,
    describe_refusals,
    describe_refused,
    describe_renewal,
    describe_score,
    describe_waits,
    read_status,
)
from federico.ui import plain
from federico.ui.cell_view import phases
from federico.ui.plain import Plain
from federico.ui.rounds import ROUND_BYTES, shown_rounds

ENDED = ("finished", "stopped", "failed")
"""Phases after which a peer does nothing more."""
MOST_TRUSTED = 4
"""Models that are named in the line of a site."""
SHARE = re.compile(r"(\d)%")
SIGN_OF_LIFE = 10.0
"""Seconds after which a peer that has not ended is thought to be gone: it writes every two."""


def site_view(name: str, state_folder: Path) -> Plain:
    """One site, as its peer has last said."""
    status = read_status(state_folder)
    now = time.time()
    gone = _is_gone(status, now - status.updated)
    return {
        "site": name,
        "error": "",
        "name": status.name,
        "federation": status.federation,
        "phase": f"no sign of life (was {status.phase})" if gone else status.phase,
        "well": not gone and status.phase != "failed",
        "ended": status.phase in ENDED,
        "failure": status.error,
        "waits": "" if gone else describe_waits(status.waits, now),
        "certificate": _certificate(status, now),
        "days": _days_left(status, now),
        "renew": ends_soon(status, now),
        "clock": _clock(status.clock_ahead),
        "updated": status.updated,
        "round": status.round,
        "rounds": status.rounds,
        "score": plain.typeset(describe_score(status.figures)),
        "worth": _spaced(_worth(status)),
        "trusts": _trusts(status),
        "sent": status.sent,
        "received": status.received,
        "evaluation_sent": status.evaluation_sent,
        "evaluation_received": status.evaluation_received,
        "up": max(0.0, status.updated - status.started),
        "members": _members(status),
    }


def site_rounds(state_folder: Path) -> Plain:
    """What every round of a site cost it: bytes, and seconds by phase."""
    traffic = list(iterate_parts(state_folder, ROUND_BYTES))
    spent = read_spent(state_folder)
    rounds = shown_rounds(len(traffic), clients=1)
    costs = [traffic[each - 1] for each in rounds]
    seconds = []
    if len(spent) >= len(traffic):
        seconds = [spent[each - 1].seconds for each in rounds]
    # A peer counts its own bytes only: those of all others are nothing in its records.
    return {
        "rounds": rounds,
        "sent": [sum(each.sent) for each in costs],
        "received": [sum(each.received) for each in costs],
        "evaluation_sent": [sum(each.evaluation_sent) for each in costs],
        "evaluation_received": [sum(each.evaluation_received) for each in costs],
        "phases": phases(seconds),
    }


def broken_site(name: str, error: str) -> Plain:
    """A site whose status cannot be read, and why."""
    return {"site": name, "name": name, "error": error}


def _is_gone(status: Status, age: float) -> bool:
    """Whether the peer was killed: then it could not say that it has ended."""
    return status.phase not in ENDED and age > SIGN_OF_LIFE


def _certificate(status: Status, now: float) -> str:
    """How long the site's certificate is valid; empty where it has none."""
    if status.certificate_ends is None:
        return ""
    return describe_renewal(status.certificate_ends, now)


def _days_left(status: Status, now: float) -> float | None:
    """Days until the certificate ends; None where the site has none."""
    if status.certificate_ends is None:
        return None
    days = (status.certificate_ends - now) / SECONDS_A_DAY
    return round(days, 1) if days < EXPIRES_SOON_DAYS else round(days)


def ends_soon(status: Status, now: float) -> bool:
    """Whether the site's certificate has to be renewed now."""
    if status.certificate_ends is None:
        return False
    return status.certificate_ends - now < EXPIRES_SOON_DAYS * SECONDS_A_DAY


def _clock(ahead: float) -> str:
    """How far a clock is from those of most members; empty where it is right."""
    return describe_clock(ahead) if ahead else ""


def _worth(status: Status) -> str:
    """What the site would be without the others, and what it uses; empty where unknown."""
    comparison = status.comparison
    if comparison is None:
        return ""
    only_itself = trusts_only_itself(status.posterior, status.name)
    return describe_comparison(comparison, only_itself=only_itself)


def _trusts(status: Status) -> str:
    """The models that the site trusts most, with their weights."""
    by_weight = sorted(status.posterior.items(), key=lambda item: -item[1])
    shown = []
    for name, weight in by_weight[:MOST_TRUSTED]:
        if weight >= SMALLEST_SHOWN_WEIGHT:
            shown.append(f"{name} ({percent(weight)})")
    return ", ".join(shown)


def _spaced(text: str) -> str:
    """A share as the page writes it: 25 %, which lines for terminals write 25%."""
    return SHARE.sub(r"\1 %", text)


def _members(status: Status) -> list[Plain]:
    found = []
    for name, member in status.members.items():
        found.append(
            {
                "name": name,
                "here": member.here,
                "last_seen": member.last_seen,
                "same_file": member.same_file,
                "same_protocol": member.same_protocol,
                "reputation": member.reputation,
                "strikes": member.strikes,
                "refused": describe_refused(member),
                "refused_updates": _spaced(describe_refusals(member)),
                "twice": member.twice,
                "clock": _clock(member.clock_ahead),
            }
        )
    return found
