"""What a site has spent of its privacy, kept in its state folder before anything is sent.

A site that is killed plays its last rounds again. What it had sent in them is spent all the same,
and new noise is drawn: with the same noise twice, the difference would have none.
"""

import json
import secrets
from pathlib import Path

import numpy as np

from federico.errors import RunError
from federico.experiment.build import Setup
from federico.learning.privacy import PrivacyAccount
from federico.runs.atomic import publish_text
from federico.types import IntArray

LEDGER_FILE = "privacy.json"
SECRET_BITS = 256


def open_account(setup: Setup, member: int, state_folder: Path) -> PrivacyAccount | None:
    """The account of a site, whose noise nobody can foresee; None where training is not private."""

    def keep(steps: IntArray) -> None:
        text = json.dumps({"steps": steps[member].tolist()})
        publish_text(state_folder / LEDGER_FILE, text)

    return setup.account("federico", secret=secrets.randbits(SECRET_BITS), keep=keep)


def recall_spent(account: PrivacyAccount, member: int, state_folder: Path) -> None:
    """Continue the account where an earlier process of this site has left it."""
    path = state_folder / LEDGER_FILE
    if not path.exists():
        return
    try:
        steps = np.array(json.loads(path.read_text(encoding="utf-8"))["steps"], dtype=np.int64)
        account.restore(np.array([member]), steps.reshape(1, 2))
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise RunError(
            f"{path}: cannot be read ({error}), and without it nobody knows how much privacy this "
            "site has spent; restore it from a backup, or begin with a new state folder"
        ) from error
