"""Where a result comes from: what was typed, with which code, on which machine, and when."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path

from federico.runs.results import Provenance

PACKAGES = ("federico", "torch", "numpy")


def provenance(command: str, versions: dict[str, str]) -> Provenance:
    """Where a result comes from that is finished here and now."""
    return Provenance(
        command=command,
        commit=_commit(),
        machine=f"{platform.machine()}, {os.cpu_count()} cores",
        versions=versions,
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def installed_versions() -> dict[str, str]:
    """The versions of Python and of the packages that can change a number."""
    versions = {name: version(name) for name in PACKAGES}
    versions["python"] = platform.python_version()
    return versions


@cache
def _commit() -> str:
    """The commit of the checkout this package is part of, with `-dirty` if the package has changes.

    A package installed into another project's folder has none.
    """
    here = Path(__file__)
    package = here.parents[1]
    try:
        _git(package, "ls-files", "--error-unmatch", str(here))
        head = _git(package, "describe", "--always", "--exclude=*").strip()
        changed = _git(package, "status", "--porcelain", "--", ".")
    except (OSError, subprocess.CalledProcessError):
        return ""
    return f"{head}-dirty" if changed else head


def _git(folder: Path, *words: str) -> str:
    command = ["git", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=True, text=True)
    return done.stdout
