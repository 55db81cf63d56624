"""A site's state folder: what a peer needs to go on after anything, and what its people look at.

<state>/ federation.json  records.jsonl  timings.jsonl  checkpoint/  clients/<name>/  done.json  status.json  peer.log
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from federico.errors import RunError
from federico.runs.atomic import publish_text
from federico.runs.layout import RunDir
from federico.site.site_file import Site

STATUS = "status.json"
Phase = Literal["joining", "training", "serving", "finished", "stopped"]


@dataclass(frozen=True)
class Member:
    """Another member, as this peer sees it."""

    here: bool
    last_seen: float | None
    """Seconds since 1970; None if it is here or never was."""
    same_file: bool
    """False if it is there, but with another version of the federation file."""
    reputation: Literal["good", "paused", "quarantined"]
    strikes: int
    reason: str
    """Of its last strike."""


@dataclass(frozen=True)
class Status:
    """What a peer says of itself, to whoever may read its state folder."""

    federation: str
    name: str
    pid: int
    phase: Phase
    updated: float
    round: int
    rounds: int
    accuracy: float | None = None
    """On the site's own test data; None before the first evaluation, and for regression."""
    loss: float | None = None
    neighbors: list[str] = field(default_factory=list)
    """Whom it visited in its last round."""
    posterior: dict[str, float] = field(default_factory=dict)
    sent: int = 0
    """Bytes, since the first round."""
    received: int = 0
    members: dict[str, Member] = field(default_factory=dict)


@contextmanager
def opened(site: Site) -> Iterator[Path]:
    """The state folder, kept to one process and to one federation."""
    folder = RunDir(site.state)
    with folder.locked():
        _refuse_other(site)
        yield folder.path


def write_status(folder: Path, status: Status) -> None:
    """In one step: whoever reads it finds a whole one."""
    publish_text(folder / STATUS, json.dumps(asdict(status), indent=1, allow_nan=False))


def read_status(folder: Path) -> Status:
    """What the peer of this folder last said."""
    path = folder / STATUS
    try:
        raw: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        members = {name: Member(**member) for name, member in raw.pop("members").items()}
        return Status(**raw, members=members)
    except FileNotFoundError:
        raise RunError(
            f"{path}: there is none: no peer has been started with this state folder"
        ) from None
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise RunError(f"{path}: cannot be read: {error}") from error


def _refuse_other(site: Site) -> None:
    """A model trained under one agreement does not go on under another."""
    path, mine = (
        site.state / "federation.json",
        {"name": site.name, "federation": site.agreement.digest.hex()},
    )
    if not path.exists():
        publish_text(path, json.dumps(mine))
        return
    if json.loads(path.read_text(encoding="utf-8")) != mine:
        raise RunError(
            f"{site.state}: holds the state of another site, or of another version of the federation file or of "
            "federico; choose another state folder, or delete this one to start anew"
        )
