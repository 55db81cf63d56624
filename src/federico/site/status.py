"""A peer's status: what it last said about itself, in `status.json` in its state folder.

Showing a status must be quick, so nothing here imports torch: of the site file only the line is
read that says where the state folder is.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from federico.bounded_files import read_bounded
from federico.errors import ConfigError, RunError
from federico.network.waits import Wait
from federico.runs.atomic import publish_text
from federico.runs.comparison import Comparison
from federico.runs.metric import metric_in

STATUS_FILE = "status.json"
SMALLEST_SHOWN_WEIGHT = 0.01
Phase = Literal["starting", "joining", "training", "serving", "finished", "stopped", "failed"]
ENDED_WELL: tuple[Phase, ...] = ("finished", "stopped")
ENDED: tuple[Phase, ...] = (*ENDED_WELL, "failed")
EXPIRES_SOON_DAYS = 14
"""A certificate that ends within this many days should be renewed now."""
SECONDS_A_DAY = 24 * 3600


@dataclass(frozen=True)
class MemberStatus:
    """Another member of the federation, as this peer sees it."""

    here: bool
    last_seen: float | None
    """Seconds since 1970; None if the member is here now or never was."""
    same_file: bool
    """False if the member is there, but with another version of the federation file."""
    reputation: Literal["good", "paused", "quarantined"]
    strikes: int
    """How often the member has broken the rules of the protocol since its last pause."""
    reason: str
    """What the member's last strike was for."""
    refused: dict[str, int] = field(default_factory=dict)
    """How many of the member's messages were refused for each reason since this process was
    started, those within the rules among them."""
    same_protocol: bool = True
    """False if the member is there, but with a version of federico that speaks another protocol."""
    twice: bool = False
    """Whether two processes answer with the member's key, such as a restored one beside the lost
    one: one of them is to be stopped."""
    standing: float = 1.0
    """What is left to the member of what its updates may count for here, from 0 to 1: less after
    updates that had to be refused."""
    refusals: int = 0
    """How many of its updates had to be refused so far: far from this site's own, or harmful on
    held-out samples."""
    clock_ahead: float = 0.0
    """Seconds by which the member's clock is ahead of those of most members; 0 if it is not wrong.
    """


@dataclass(frozen=True)
class Status:
    """What a peer says about itself to whoever may read its state folder."""

    federation: str
    name: str
    pid: int
    phase: Phase
    updated: float
    """When this was written, in seconds since 1970."""
    round: int
    """The last round that was completed; 0 before the first."""
    rounds: int
    """Rounds that each member plays."""
    figures: dict[str, float | None] = field(default_factory=dict)
    """By metric, on the site's own test data, at the last evaluation; empty before the first. A
    figure that is undefined or not finite is None."""
    evaluated: int = 0
    """The round of the last evaluation; 0 before the first."""
    comparison: Comparison | None = None
    """Is it worth it? What the site is alone, with its collaborators and as used, at the last
    evaluation; None before the first, or where the peer trains no model alone."""
    neighbors: list[str] = field(default_factory=list)
    """The members whose models were sampled in the last round."""
    posterior: dict[str, float] = field(default_factory=dict)
    """The weight of every model met so far, after the last round."""
    sent: int = 0
    """Bytes sent to train: models that others pulled, and updates of their models."""
    received: int = 0
    """Bytes received to train."""
    evaluation_sent: int = 0
    """Bytes sent so that others could evaluate or predict with this peer's model."""
    evaluation_received: int = 0
    """Bytes received to evaluate, and for the personal model."""
    members: dict[str, MemberStatus] = field(default_factory=dict)
    """All other members by name."""
    started: float = 0.0
    """When the process was started, in seconds since 1970."""
    exit_code: int | None = None
    """How the process ended; None as long as it runs, and for one that was killed."""
    error: str = ""
    """What ended the process, if it failed."""
    waits: list[Wait] = field(default_factory=list)
    """The members that the peer waits for now."""
    certificate_ends: float | None = None
    """When the site's certificate expires, in seconds since 1970."""
    epsilon: float | None = None
    """What all that the site has sent costs in differential privacy of its samples; None where
    training is not private."""
    epsilon_budget: float | None = None
    """What it may cost at most: then the site sends nothing more."""
    delta: float | None = None
    """The probability with which the bound of `epsilon` may fail."""
    clock_ahead: float = 0.0
    """Seconds by which this site's clock is ahead of those of most members; 0 if it is not wrong.
    """
    has_double: bool = False
    """Whether another process runs with this site's key, on this machine or elsewhere."""
    train_samples: int | None = None
    """Samples that the site trains on."""
    test_samples: int | None = None
    """Samples that its figures are about."""
    judged: Literal["held_out", "training", ""] = ""
    """What the posterior is made of: gains on held-out samples, or losses on training samples."""


TWO_PROCESSES = (
    "another process runs with this site's key, here or on another machine: stop one of the two, "
    "as others cannot tell them apart"
)


def find_state_folder(site_file: Path) -> Path:
    """The state folder that a site file names, whatever else is in it, or that this is."""
    if site_file.is_dir():
        if not (site_file / STATUS_FILE).exists():
            raise RunError(
                f"{site_file.absolute()}: is not the state folder of a site that was started (it "
                f"has no {STATUS_FILE}); name the site file, or the folder that it calls state"
            )
        return site_file
    # Takes longer to import than all else here, and the help of commands does not need it.
    from federico.config_file import read_tables

    state = read_tables(site_file, "site file").get("state", "state")
    if not isinstance(state, str):
        raise ConfigError(f"{site_file}: state = {state!r}: must be the path of a folder")
    return site_file.parent / state


def write_status(state_folder: Path, status: Status) -> None:
    """Replace the status in one step, so that whoever reads it finds a whole one."""
    text = json.dumps(asdict(status), indent=1, allow_nan=False)
    publish_text(state_folder / STATUS_FILE, text)


def read_status(state_folder: Path) -> Status:
    """The last status that the peer of this state folder wrote."""
    path = state_folder / STATUS_FILE
    try:
        return _parse(read_bounded(path).decode())
    except FileNotFoundError:
        raise RunError(
            f"{path.absolute()}: no such file: no peer has been started with this state folder"
        ) from None
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise RunError(f"{path}: cannot be read: {error}") from error


def _parse(text: str) -> Status:
    fields: dict[str, Any] = json.loads(text)
    members = {}
    for name, member in fields.pop("members").items():
        members[name] = MemberStatus(**member)
    comparison = fields.pop("comparison")
    if comparison is not None:
        comparison = Comparison(**comparison)
    waits = [Wait(**wait) for wait in fields.pop("waits")]
    return Status(**fields, comparison=comparison, members=members, waits=waits)


def describe_phase(status: Status, *, running: bool) -> str:
    """What the peer does; what a dead one did last is not what it does."""
    if running or status.phase in ENDED:
        return status.phase
    return f"not running (was {status.phase})"


def describe_privacy(status: Status) -> str:
    """What the site has spent of its privacy, in one line; empty where training is not private."""
    if status.epsilon is None or status.epsilon_budget is None or status.delta is None:
        return ""
    return (
        f"privacy spent: epsilon {status.epsilon:.2f} of {status.epsilon_budget:g} "
        f"at delta {status.delta:g}"
    )


def describe_waits(waits: Iterable[Wait], now: float) -> str:
    """For whom a peer waits and how long, in one line; empty if for nobody."""
    parts = []
    for wait in waits:
        waited = max(0.0, now - wait.since)
        left = max(0.0, wait.until - now)
        parts.append(
            f"{wait.member} ({wait.wanted}, for {waited:.0f} s, at most {left:.0f} s more)"
        )
    return ", ".join(parts)


def describe_renewal(certificate_ends: float, now: float) -> str:
    """When a certificate has to be renewed."""
    days = (certificate_ends - now) / SECONDS_A_DAY
    if days < 0:
        return "the certificate has expired; renew it with `federico pki renew`"
    if days < EXPIRES_SOON_DAYS:
        return (
            f"the certificate ends in {days:.1f} days; renew it now with `federico pki renew`, "
            "and put the new one in its place"
        )
    return f"the certificate is valid for {days:.0f} more days"


def describe_refused(member: MemberStatus) -> str:
    """Why a member's messages were refused, and how often, in one line; empty if none were."""
    by_count = sorted(member.refused.items(), key=lambda item: item[1], reverse=True)
    return "; ".join(f"{reason} ({_times(count)})" for reason, count in by_count)


def describe_refusals(member: MemberStatus) -> str:
    """How many updates of a member were refused, and what that costs it; empty if none were."""
    if member.refusals == 0:
        return ""
    updates = "1 update" if member.refusals == 1 else f"{member.refusals:,} updates"
    return f"{updates} refused, counts for {member.standing:.0%}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def describe_score(figures: Mapping[str, float | None]) -> str:
    """The figure that the task is judged by, with its name; empty where it is not known."""
    metric = metric_in(figures)
    value = figures.get(metric.recorded_as)
    if value is None:
        return ""
    return f"{metric.name} {metric.text(value)}"


def describe_posterior(posterior: Mapping[str, float], at_most: int | None = None) -> str:
    """The collaborators in one line: all whose weight is worth mentioning, the heaviest first."""
    by_weight = sorted(posterior.items(), key=lambda item: item[1], reverse=True)
    shown = []
    for name, weight in by_weight[:at_most]:
        if weight >= SMALLEST_SHOWN_WEIGHT:
            shown.append(f"{name} {weight:.0%}")
    return ", ".join(shown)
