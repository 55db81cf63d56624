"""Whether a peer lives, and how it ended: said in its status by the peer, or found by looking.

A peer that is killed cannot say so. But the lock of its state folder is free then, so whoever looks
at the status sees that nobody is there any more. Nothing here imports torch.
"""

import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from federico.errors import FedericoError, RunError
from federico.runs.atomic import publish_bytes
from federico.runs.lock import is_locked
from federico.site.status import ENDED_WELL, Phase, Status, read_status, write_status

log = logging.getLogger(__name__)
SILENCE_SECONDS = 60.0
"""A peer that runs writes its status every few seconds; after so long without one it hangs."""
LONGEST_ERROR = 500
RESERVE_FILE = "reserve"
RESERVE_BYTES = 64 << 10
"""Room that is kept for the last status, so that a peer which a full disk ends can say so."""


@contextmanager
def reported_life(state_folder: Path, federation: str, name: str, rounds: int) -> Iterator[None]:
    """Say in the status that the peer has started, and later how it ended."""
    _begin(state_folder, federation, name, rounds)
    try:
        yield
    except BaseException as error:
        exit_code = error.exit_code if isinstance(error, FedericoError) else 1
        message = str(error) or type(error).__name__
        _end(state_folder, exit_code, "failed", message[:LONGEST_ERROR])
        raise
    _end(state_folder, exit_code=0)


@contextmanager
def leaving_in_time(state_folder: Path, stop: threading.Event, seconds: float) -> Iterator[None]:
    """Once told to stop, leave after this many seconds at the latest.

    The round at hand is given up then, as in a crash: all that is saved is whole, and the next
    start resumes from it.
    """
    done = threading.Event()

    def watch() -> None:
        stop.wait()
        if done.wait(seconds):
            return
        log.warning("not ready to stop after %g s: the round at hand is given up", seconds)
        _end(state_folder, 0, "stopped", "the round at hand was given up")
        os._exit(0)  # nothing else ends a computation that goes on in another thread

    threading.Thread(target=watch, name="leave in time", daemon=True).start()
    try:
        yield
    finally:
        done.set()


def peer_fault(state_folder: Path, status: Status, now: float | None = None) -> str:
    """Why the peer of this status does not do what it should; empty if it does.

    A peer that has finished, or was told to stop, does what it should.
    """
    if not is_locked(state_folder):
        if status.phase in ENDED_WELL and status.exit_code in (0, None):
            return ""
        if status.exit_code is not None:
            return f"not running: it ended with exit code {status.exit_code}: {status.error}"
        return "not running: it ended without a word, as a process does that is killed"
    silent = (now or time.time()) - status.updated
    if silent > SILENCE_SECONDS:
        return f"running, but without a sign of life for {silent:.0f} s"
    return ""


def _begin(state_folder: Path, federation: str, name: str, rounds: int) -> None:
    """Keep what an earlier process said of its rounds, but nothing that was true only then."""
    now = time.time()
    pid = os.getpid()
    try:
        before = read_status(state_folder)
    except RunError:  # there is none, or another version of federico wrote it
        before = Status(federation, name, pid, "starting", now, round=0, rounds=rounds)

    members = {}
    for other, known in before.members.items():
        last_seen = before.updated if known.here else known.last_seen
        members[other] = replace(known, here=False, last_seen=last_seen)
    status = replace(
        before,
        pid=pid,
        phase="starting",
        started=now,
        updated=now,
        members=members,
        waits=[],
        exit_code=None,
        error="",
    )
    write_status(state_folder, status)
    publish_bytes(state_folder / RESERVE_FILE, bytes(RESERVE_BYTES))


def _end(state_folder: Path, exit_code: int, phase: Phase | None = None, error: str = "") -> None:
    """Change the last status; where it cannot be written, the error that ends the peer says why."""
    with suppress(RunError, OSError):
        (state_folder / RESERVE_FILE).unlink(missing_ok=True)
        last = read_status(state_folder)
        ended = replace(
            last,
            phase=phase or last.phase,
            updated=time.time(),
            waits=[],
            exit_code=exit_code,
            error=error,
        )
        write_status(state_folder, ended)
