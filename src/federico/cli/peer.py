"""`federico peer run`, `check`, `status`, `drain`, `backup` and `restore`."""

import os
import signal
import time
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

from federico.cli.console import PLAIN, for_tables, out, print_json
from federico.cli.logs import Log, LogStyle, logging_to
from federico.cli.options import Json, Quiet, Trust
from federico.cli.private_files import private_files
from federico.cli.signals import stop_on_signals
from federico.errors import PeerDownError
from federico.runs.comparison import (
    Comparison,
    describe_comparison,
    share_in_words,
    trusts_only_itself,
)
from federico.runs.lock import is_locked
from federico.site.clocks import describe_clock
from federico.site.life import peer_fault
from federico.site.status import (
    TWO_PROCESSES,
    MemberStatus,
    Status,
    describe_phase,
    describe_privacy,
    describe_refusals,
    describe_refused,
    describe_renewal,
    describe_score,
    describe_waits,
    find_state_folder,
    read_status,
)

if TYPE_CHECKING:
    from federico.site.preflight import Finding

DRAIN_POLL_SECONDS = 0.1
LEAST_MEGABYTES = 100_000
"""Bytes from which on traffic is given in megabytes."""
GRADE_COLORS = {"ok": "green", "wait": "yellow", "wrong": "bold red"}


class PeerCommands(TyperGroup):
    """`federico peer site.toml` is short for `federico peer run site.toml`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put in the command that was left out."""
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            args = ["run", *args]
        return super().parse_args(ctx, args)


peer_app = typer.Typer(
    cls=PeerCommands, help="Run, check or inspect the peer of one site.", no_args_is_help=True
)
SiteFile = Annotated[Path, typer.Argument(help="Site file (TOML).")]
SiteOrState = Annotated[Path, typer.Argument(help="Site file (TOML), or the site's state folder.")]


@peer_app.command("run")
def run(
    file: SiteFile,
    quiet: Quiet = False,
    log: Log = LogStyle.TEXT,
    metrics: Annotated[
        int | None,
        typer.Option(help="Serve figures for Prometheus at this port of 127.0.0.1.", max=65535),
    ] = None,
    trust: Trust = False,
) -> None:
    """Join, train and serve.

    Resumes if interrupted. SIGTERM or Ctrl-C: finish the round, save, leave.
    """
    from federico.own_code import trust_if, trusting
    from federico.site.runner import run_peer
    from federico.site.site_file import load_site
    from federico.site.state_folder import make_state_folder

    site = load_site(file)
    if metrics is not None:
        changed = site.options.model_copy(update={"metrics": f"127.0.0.1:{metrics}"})
        site = replace(site, options=changed)
    make_state_folder(site.state)
    logged = logging_to(site.state / "peer.log", quiet=quiet, style=log)
    with private_files(), logged, trusting(trust_if(trust)):
        run_peer(site, stop_on_signals())


@peer_app.command("drain")
def drain(
    file: SiteOrState,
    within: Annotated[float, typer.Option(help="Seconds to wait for its end.", min=0)] = 90.0,
) -> None:
    """Stop the peer as SIGTERM does, and wait until it has saved and left."""
    state_folder = find_state_folder(file)
    pid = read_status(state_folder).pid
    if is_locked(state_folder):
        _terminate(pid)
        deadline = time.monotonic() + within
        while is_locked(state_folder):
            if time.monotonic() > deadline:
                raise PeerDownError(
                    f"{file}: process {pid} has not ended within {within:g} s; "
                    "`stop_within` in the site file bounds that"
                )
            time.sleep(DRAIN_POLL_SECONDS)
    ended = read_status(state_folder)
    out.print(f"{ended.name}: {ended.phase} after round {ended.round} of {ended.rounds}", **PLAIN)


def _terminate(pid: int) -> None:
    """Tell the process that holds the lock of a state folder to stop."""
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        raise PeerDownError(
            f"process {pid} is not to be seen from here: the peer runs in a container or on "
            "another machine; drain it there"
        ) from None
    except PermissionError:
        raise PeerDownError(
            f"process {pid} belongs to another user; drain it as that user"
        ) from None


@peer_app.command("backup")
def backup(
    file: SiteOrState,
    target: Annotated[Path, typer.Argument(help="The file to write, such as monday.tar.")],
) -> None:
    """Save the state folder in one file, even while the peer runs; keys are not in it."""
    from federico.site.backup import back_up

    size = back_up(find_state_folder(file), target)
    out.print(f"{target}: {size / 1e6:.1f} MB", **PLAIN)


@peer_app.command("restore")
def restore(
    file: SiteFile,
    backup: Annotated[Path, typer.Argument(help="A file of `peer backup`.")],
    rounds_since: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="With privacy.epsilon: rounds that may have been played after the backup was "
            "made, those that a restart has repeated counted again; their privacy counts as spent. "
            "If not given, the whole budget does, and the site only pulls from then on.",
        ),
    ] = None,
) -> None:
    """Make the state folder again from a backup; the peer then resumes from there."""
    from federico.site.backup import restore as restore_state
    from federico.site.site_file import load_site

    site = load_site(file)
    restore_state(backup, site, rounds_since)
    out.print(f"{site.state}: restored; start the peer to resume", **PLAIN)
    if site.federation.privacy.epsilon is not None and rounds_since is None:
        out.print(
            "the whole privacy budget counts as spent, as nobody knows what was sent after the "
            "backup: this site will only pull; --rounds-since counts less",
            **PLAIN,
        )


@peer_app.command("check")
def check(file: SiteFile, trust: Trust = False, json: Json = False) -> None:
    """Find problems before anything is started."""
    from federico.own_code import trust_if, trusting
    from federico.site.preflight import check_site
    from federico.site.site_file import load_site

    findings = []
    with trusting(trust_if(trust)):
        for finding in check_site(load_site(file)):
            findings.append(finding)
            if not json:
                _print_finding(finding)  # as soon as it is known: some take seconds
    if json:
        print_json([_finding_as_json(finding) for finding in findings])
    _raise_first_error(file, findings)


def _print_finding(finding: "Finding") -> None:
    grade = Text(f"{finding.grade:<6}", GRADE_COLORS[finding.grade])
    out.print(grade, Text(f"{finding.subject}: {finding.message}"), sep="", soft_wrap=True)


def _finding_as_json(finding: "Finding") -> dict[str, str]:
    return {"what": finding.subject, "grade": finding.grade, "message": finding.message}


def _raise_first_error(file: Path, findings: "list[Finding]") -> None:
    """End with the exit code with which `federico peer run` would end."""
    wrong = [finding for finding in findings if finding.grade == "wrong"]
    if not wrong:
        return
    error = wrong[0].error
    assert error is not None, "what is wrong has an error"
    subjects = ", ".join(finding.subject for finding in wrong)
    raise error(f"{file}: would not work yet: {subjects}")


@peer_app.command("status")
def status(file: SiteOrState, json: Json = False) -> None:
    """Show how the peer is doing: round, score, alone or together, who is away or waited for.

    Suitable for a health check: the exit code is 0 as long as the peer runs and gives signs of
    life, and after it has finished or was told to stop; it is 8 for a peer that has died or hangs.
    """
    state_folder = find_state_folder(file)
    current = read_status(state_folder)
    running = is_locked(state_folder)
    fault = peer_fault(state_folder, current)
    if json:
        print_json(asdict(current) | {"running": running, "fault": fault})
    else:
        _print_status(current, running=running)
    if fault:
        raise PeerDownError(f"{current.name}: {fault}")


def _print_status(status: Status, *, running: bool) -> None:
    now = time.time()
    out.print(_headline(status, running=running), **PLAIN)
    if status.comparison is not None:
        out.print(_worth(status, status.comparison), **PLAIN)
    if running and status.waits:
        out.print(f"Waits for {describe_waits(status.waits, now)}", **PLAIN)
    if running and status.has_double:
        out.print(TWO_PROCESSES[0].upper() + TWO_PROCESSES[1:], **PLAIN)
    if running and status.clock_ahead != 0:
        ahead = describe_clock(status.clock_ahead)
        out.print(f"This site's clock is {ahead} of those of most members: set it right", **PLAIN)
    if describe_privacy(status):
        out.print(describe_privacy(status).capitalize(), **PLAIN)
    if status.certificate_ends is not None:
        renewal = describe_renewal(status.certificate_ends, now)
        out.print(renewal[0].upper() + renewal[1:], **PLAIN)
    for_tables().print(_member_table(status, running=running))


def _headline(status: Status, *, running: bool) -> str:
    where = f"{status.name} in {status.federation}"
    phase = describe_phase(status, running=running)
    progress = f"{phase}, round {status.round} of {status.rounds}{_score(status)}"
    training = _traffic(status.sent, status.received)
    evaluation = _traffic(status.evaluation_sent, status.evaluation_received)
    age = time.time() - status.updated
    return (
        f"{where}: {progress}; {training} to train, {evaluation} to evaluate; "
        f"written {age:.0f} s ago"
    )


def _traffic(sent: int, received: int) -> str:
    return f"{_size(sent)} sent and {_size(received)} received"


def _size(count: int) -> str:
    """In megabytes, or in kilobytes where that would be next to nothing."""
    if count < LEAST_MEGABYTES:
        return f"{count / 1e3:.1f} kB"
    return f"{count / 1e6:.1f} MB"


def _score(status: Status) -> str:
    score = describe_score(status.figures)
    if not score:
        return ""
    when = ""
    if status.evaluated != status.round:
        when = f" after round {status.evaluated}"
    return f", {score} on its own test data{when}"


def _worth(status: Status, comparison: Comparison) -> str:
    """What the site would be without the others, and what it uses."""
    only_itself = trusts_only_itself(status.posterior, status.name)
    worth = f"Is it worth it? {describe_comparison(comparison, only_itself=only_itself)}"
    if only_itself:
        return worth
    return f"{worth}; {status.name} predicts {share_in_words(comparison.together_share)}"


def _member_table(status: Status, *, running: bool) -> Table:
    weights = {name: f"{weight:.1%}" for name, weight in status.posterior.items()}

    table = Table("member", "here", "trust", "reputation")
    here = "yes" if running else "not running"
    table.add_row(f"{status.name} (this site)", here, weights.get(status.name, ""), "")
    for name, member in status.members.items():
        table.add_row(
            name,
            _presence(member, running=running),
            weights.get(name, "not met yet"),
            Text(_reputation(member)),  # may quote the member: no markup
        )
    return table


def _presence(member: MemberStatus, *, running: bool) -> str:
    if member.here and member.twice:
        return "twice: two processes with one key"
    if member.here:
        return "yes" if running else "when this site ended"
    if not member.same_protocol:
        return "with another version of federico"
    if not member.same_file:
        return "with another federation file"
    if member.last_seen is None:
        return "not seen yet"
    return f"away since {datetime.fromtimestamp(member.last_seen).astimezone():%F %T}"


def _reputation(member: MemberStatus) -> str:
    parts: list[str] = [member.reputation]
    if member.clock_ahead != 0:
        parts.append(f"its clock is {describe_clock(member.clock_ahead)}")
    refusals = describe_refusals(member)
    if refusals:
        parts.append(refusals)
    if member.reputation != "good" or member.strikes:
        parts.append(f"{member.strikes} strikes: {member.reason}")
    if member.refused:
        parts.append(f"messages refused: {describe_refused(member)}")
    return ", ".join(parts)
