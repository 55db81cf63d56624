"""Which Python code this user has said yes to: a file of hashes in the user's own folder.

It is `$XDG_CONFIG_HOME/federico/trusted-code.txt`, below `~/.config` where that is not set. Each
line is the SHA-256 of a file's content, and where it was when it was trusted. Deleting a line takes
the yes back.
"""

import hashlib
import os
import stat
from pathlib import Path

FILE = "trusted-code.txt"
WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
DIGITS = 64
"""Hexadecimal digits of a SHA-256."""


def code_hash(content: bytes) -> str:
    """What a file of code is remembered by."""
    return hashlib.sha256(content).hexdigest()


def is_remembered(digest: str) -> bool:
    """Whether the user has said yes to code of this content."""
    try:
        with _file().open(encoding="utf-8", errors="replace") as file:
            if not _belongs_to_user(os.fstat(file.fileno())):
                return False
            return any(line[:DIGITS] == digest for line in file)
    except (OSError, RuntimeError):
        return False


def remember(code: Path, digest: str) -> None:
    """Note the yes, if there is a folder to note it in; else the user is asked again next time."""
    try:
        file = _file()
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
            opened.write(f"{digest} {str(code)!a}\n")
    except (OSError, RuntimeError):
        return


def _file() -> Path:
    """Where it is noted; an error of the system where the user has no folder."""
    named = os.environ.get("XDG_CONFIG_HOME", "")
    folder = Path(named) if named else Path.home() / ".config"
    return folder / "federico" / FILE


def _belongs_to_user(about: os.stat_result) -> bool:
    """Whether nobody else can have written it."""
    if not hasattr(os, "getuid"):  # Windows, where each user's folder is closed to others
        return True
    return about.st_uid == os.getuid() and not about.st_mode & WRITABLE_BY_OTHERS
