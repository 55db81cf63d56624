"""What a site has spent of its privacy, kept in its state folder before anything is sent.

A site that is killed plays its last rounds again. What it had sent in them is spent all the same,
and new noise is drawn: with the same noise twice, the difference would have none.

A ledger that comes out of a backup does not know what was spent after that. Until somebody says how
many rounds have been played since, the whole budget counts as spent, and nothing more is sent.
"""

import json
import logging
import secrets
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from federico.errors import RunError
from federico.experiment.build import Setup
from federico.learning.privacy import PrivacyAccount
from federico.runs.atomic import publish_text
from federico.types import IntArray

log = logging.getLogger(__name__)

LEDGER_FILE = "privacy.json"
SECRET_BITS = 256
RESTORED = "rounds_since_backup"
"""The key of a ledger out of a backup: rounds played since then, or null if nobody knows."""


def open_account(setup: Setup, member: int, state_folder: Path) -> PrivacyAccount | None:
    """The account of a site, whose noise nobody can foresee; None where training is not private."""

    def keep(steps: IntArray) -> None:
        _write(state_folder, {"steps": steps[member].tolist()})

    return setup.account("federico", secret=secrets.randbits(SECRET_BITS), keep=keep)


def recall_spent(account: PrivacyAccount, member: int, rounds: int, state_folder: Path) -> None:
    """Continue the account where an earlier process of this site has left it.

    `rounds` are those of the federation, for which the account was planned.
    """
    path = state_folder / LEDGER_FILE
    if not path.exists():
        return
    try:
        ledger = _read(state_folder)
        steps = np.array(ledger["steps"], dtype=np.int64).reshape(1, 2)
        account.restore(np.array([member]), steps)
        if RESTORED in ledger:
            _charge_since_backup(account, member, rounds, ledger[RESTORED])
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise RunError(
            f"{path}: cannot be read ({error}), and without it nobody knows how much privacy this "
            "site has spent; restore it from a backup, or begin with a new state folder"
        ) from error


def note_restored(state_folder: Path, rounds_since: int | None) -> None:
    """Note that this ledger came out of a backup, and how many rounds were played after that.

    None if nobody knows: then the whole budget will count as spent.
    """
    try:
        ledger = _read(state_folder)
    except FileNotFoundError:  # nothing had been sent when the backup was made
        ledger = {"steps": [0, 0]}
    except ValueError as error:
        raise RunError(f"{LEDGER_FILE}: cannot be read ({error})") from error
    _write(state_folder, ledger | {RESTORED: rounds_since})


def _charge_since_backup(
    account: PrivacyAccount, member: int, rounds: int, rounds_since: int | None
) -> None:
    """Add the most that can have been spent since a backup, and keep that."""
    if rounds_since is None:
        log.warning(
            "this state was restored from a backup, and nobody knows what was sent after that: "
            "the whole privacy budget counts as spent, and this site only pulls from now on. "
            "`federico peer restore --rounds-since` counts less"
        )
        account.use_up(member)
        return
    visits_a_round = ceil(account.rules.planned_visits / rounds)
    log.warning(
        "this state was restored from a backup: the privacy of %d rounds with %d visits each "
        "counts as spent since then",
        rounds_since,
        visits_a_round,
    )
    account.charge_at_most(member, rounds_since * visits_a_round)


def _read(state_folder: Path) -> dict[str, Any]:
    ledger: dict[str, Any] = json.loads((state_folder / LEDGER_FILE).read_text(encoding="utf-8"))
    return ledger


def _write(state_folder: Path, ledger: dict[str, Any]) -> None:
    publish_text(state_folder / LEDGER_FILE, json.dumps(ledger))
