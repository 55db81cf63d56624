"""`federico peer` and `federico relay`."""

import logging
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path

from rich.table import Table
from rich.text import Text

from federico.cli.console import PLAIN, out, print_json
from federico.runs.atomic import disk_errors
from federico.site.preflight import check
from federico.site.relay import run_relay
from federico.site.runner import run_peer
from federico.site.site_file import load_site
from federico.site.state import Member, Status, read_status

FORMAT = "%(asctime)s %(levelname)-7s %(message)s"
LOG_BYTES = 1 << 20
COLORS = {"ok": "green", "wait": "yellow", "wrong": "bold red"}


def run(file: Path, *, quiet: bool) -> None:
    """Live until the rounds are over or somebody says stop."""
    site = load_site(file)
    with disk_errors(site.state):
        site.state.mkdir(parents=True, exist_ok=True)
    with _log(site.state / "peer.log", quiet=quiet), _stopped_by_signals() as stop:
        run_peer(site, stop)


def relay(federation: Path, name: str, keys: Path, listen: list[str], *, quiet: bool) -> None:
    """Pass messages on until somebody says stop."""
    with _log(None, quiet=quiet), _stopped_by_signals() as stop:
        run_relay(federation, name, keys, listen, stop)


def check_site(file: Path, *, as_json: bool) -> None:
    """Print what was found; anything wrong is an error."""
    findings = []
    for finding in check(load_site(file)):
        findings.append(finding)
        if not as_json:
            mark = Text(f"{finding.grade:<6}", COLORS[finding.grade])
            out.print(mark, Text(f"{finding.what}: {finding.message}"), sep="", soft_wrap=True)
    if as_json:
        print_json(
            [
                {"what": found.what, "grade": found.grade, "message": found.message}
                for found in findings
            ]
        )
    wrong = {finding.what: finding.fault for finding in findings if finding.fault is not None}
    for fault in wrong.values():  # the first is what `federico peer` would leave with
        raise fault(f"{file}: would not work yet: {', '.join(wrong)}")


def show_status(file: Path, *, as_json: bool) -> None:
    """What the peer of this site last said."""
    status = read_status(load_site(file).state)
    if as_json:
        print_json(asdict(status))
        return
    out.print(_headline(status), **PLAIN)
    table = Table("member", "here", "trust", "reputation")
    row = {name: f"{weight:.1%}" for name, weight in status.posterior.items()}
    runs = _runs(status)
    table.add_row(
        f"{status.name} (this site)", "yes" if runs else "not running", row.get(status.name, ""), ""
    )
    for name, member in status.members.items():
        table.add_row(
            name, _presence(member, runs=runs), row.get(name, "not met yet"), _conduct(member)
        )
    out.print(table)


def _headline(status: Status) -> str:
    score = (
        "" if status.accuracy is None else f", accuracy {status.accuracy:.1%} on its own test data"
    )
    if not score and status.loss is not None:
        score = f", loss {status.loss:.4g} on its own test data"
    moved = f"{status.sent / 1e6:.1f} MB sent, {status.received / 1e6:.1f} MB received"
    said = f"said {time.time() - status.updated:.0f} s ago"
    where = f"{status.name} in {status.federation}: {status.phase}, round {status.round} of {status.rounds}"
    return f"{where}{score}; {moved}; {said}"


def _runs(status: Status) -> bool:
    """Whether it goes on; a peer that was killed could not say so."""
    if status.phase in ("finished", "stopped"):
        return False
    try:
        os.kill(status.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it is somebody else's process
    return True


def _presence(member: Member, *, runs: bool) -> str:
    if member.here:
        return "yes" if runs else "when this site ended"
    if not member.same_file:
        return "with another federation file"
    if member.last_seen is None:
        return "not seen yet"
    return f"away since {datetime.fromtimestamp(member.last_seen).astimezone():%F %T}"


def _conduct(member: Member) -> str:
    if member.reputation == "good" and not member.strikes:
        return "good"
    return f"{member.reputation}, {member.strikes} strikes: {member.reason}"


@contextmanager
def _stopped_by_signals() -> Iterator[threading.Event]:
    """An event that SIGTERM and Ctrl-C set: the round at hand is finished and saved."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    yield stop


@contextmanager
def _log(file: Path | None, *, quiet: bool) -> Iterator[None]:
    """What a person can read: to standard error, and to the state folder."""
    handlers: list[logging.Handler] = [] if quiet else [logging.StreamHandler()]
    if file is not None:
        handlers.append(
            RotatingFileHandler(file, maxBytes=LOG_BYTES, backupCount=3, encoding="utf-8")
        )
    logger = logging.getLogger("federico")
    logger.setLevel(logging.INFO)
    for handler in handlers:
        handler.setFormatter(logging.Formatter(FORMAT))
        logger.addHandler(handler)
    try:
        yield
    finally:
        for handler in handlers:
            logger.removeHandler(handler)
            handler.close()
