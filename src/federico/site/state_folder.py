"""A site's state folder: what a peer needs to resume after anything, and what its people look at.

state/
  federation.json   whose state this is, and under which version of the federation file
  records.jsonl     one line per round
  timings.jsonl     seconds of each round
  checkpoint/       the last saved round
  clients/<name>/   the personal model
  done.json         written after the last round
  status.json       what `federico peer status` shows
  peer.log          a log for people
  report.html       what `federico report` has written
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from federico.errors import RunError
from federico.runs.atomic import disk_errors, publish_text
from federico.runs.lock import locked
from federico.site.site_file import Site

LOCK_PATIENCE = 2.0
"""Seconds to wait for the lock of a state folder."""
STATE_OF = "federation.json"
"""Says whose state a folder holds."""


@contextmanager
def open_state_folder(site: Site) -> Iterator[Path]:
    """The state folder, for as long as the block lasts this process's alone."""
    make_state_folder(site.state)
    # A command that looks whether a peer runs holds the lock for a moment.
    with locked(site.state, LOCK_PATIENCE):
        if not holds_own_state(site):
            publish_text(site.state / STATE_OF, json.dumps(_this(site)))
        yield site.state


def make_state_folder(folder: Path) -> None:
    """Make a state folder that nobody else on this machine can look into, or close an open one."""
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        open_to_others = folder.stat().st_mode & 0o077
        if open_to_others:
            folder.chmod(0o700)


def holds_own_state(site: Site) -> bool:
    """Whether the folder holds a state of this site already; one of another is refused.

    A model that was trained under one federation file must not be resumed under another.
    """
    path = site.state / STATE_OF
    if not path.exists():
        return False
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(
            f"{path}: cannot be read ({error}); restore the state folder from a backup with "
            "`federico peer restore`, or move it away to start over"
        ) from None
    if found != _this(site):
        raise RunError(
            f"{site.state}: holds the state of another site, or of another version of the "
            "federation file or of federico; choose another state folder, or delete this one "
            "to start over"
        )
    return True


def _this(site: Site) -> dict[str, str]:
    return {"name": site.name, "federation": site.federation.digest.hex()}
