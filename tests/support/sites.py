"""State folders of sites, written by hand as their peers leave them."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from federico.runs.comparison import Comparison
from federico.runs.records import Journal, Record
from federico.site.status import MemberStatus, Status, write_status
from federico.stopwatch import Spent
from tests.support.run_folders import QUIET_ROUND

DAY = 24 * 3600
AHEAD = 2 * 3600
NOW = time.time() + AHEAD
"""When the sites that are well have written last: no peer is there to do it again. It is this far
ahead because tests may start long after this file was imported."""


def member(**changes: Any) -> MemberStatus:
    """A member that is here and behaves."""
    quiet = MemberStatus(
        here=True, last_seen=None, same_file=True, reputation="good", strikes=0, reason=""
    )
    return replace(quiet, **changes)


def write_site(folder: Path, name: str, members: dict[str, MemberStatus], **changes: Any) -> Path:
    """A site in the midst of training, that was heard of just now."""
    now = NOW
    status = Status(
        federation="hospitals",
        name=name,
        pid=1,
        phase="training",
        updated=now,
        round=3,
        rounds=9,
        figures={"accuracy": 0.8, "loss": 0.5},
        evaluated=3,
        comparison=Comparison(
            alone={"accuracy": 0.7, "loss": 0.9},
            together={"accuracy": 0.8, "loss": 0.5},
            used={"accuracy": 0.8, "loss": 0.5},
            together_share=0.9,
        ),
        posterior={name: 0.6} | dict.fromkeys(members, 0.4 / max(len(members), 1)),
        sent=1_200_000,
        received=900_000,
        members=members,
        started=now - 60,
        certificate_ends=now + 300 * DAY,
    )
    state = folder / name / "state"
    state.mkdir(parents=True)
    write_status(state, replace(status, **changes))
    return state


def write_rounds(state: Path, place: int, rounds: int) -> None:
    """The records of a site that is the member at this place of three: more bytes every round."""
    journal = Journal(state)
    for number in range(1, rounds + 1):
        counts = {}
        for many, name in enumerate(("sent", "received", "evaluation_sent", "evaluation_received")):
            counts[name] = [0, 0, 0]
            counts[name][place] = (4 - many) * number * 1000
        journal.append(Record(**(QUIET_ROUND | {"round": number} | counts)))
        spent = Spent({"train": 0.5 * number, "pull": 0.25}, {"train": 0.4, "pull": 0.1})
        journal.append_spent(number, spent)
