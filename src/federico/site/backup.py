"""Backup and restore of a state folder: one tar file with what a peer needs to resume.

A backup may be made while the peer runs: a checkpoint is whole or not there, and records that are
newer than it are forgotten when the peer resumes. A restored state is older than what the others
have seen of the peer. That does no harm: a peer draws a new incarnation at each start, by which
others recognise that its versions are counted anew. What the peer has sent since then costs privacy
all the same: see `privacy_ledger.py`. Keys are not in a backup.
"""

import hashlib
import io
import json
import os
import shutil
import tarfile
from pathlib import Path
from typing import Any

from federico.errors import RunError
from federico.experiment.best_round import BEST_FILE
from federico.runs.atomic import PARTIAL, disk_errors
from federico.runs.lock import LOCK, locked
from federico.site.privacy_ledger import LEDGER_FILE, note_restored
from federico.site.site_file import Site

MANIFEST = "backup.json"
FIRST = ("federation.json", "checkpoint", BEST_FILE, "clients", "done.json")
"""The personal model comes after the note on which round it is of, so that it is no worse."""
LAST = ("records.jsonl", "timings.jsonl", "status.json", LEDGER_FILE)
"""Records come after the checkpoint, so that they reach at least as far; what is spent comes last.
"""
LARGEST_MANIFEST = 1 << 20
ATTEMPTS = 5
"""How often a backup begins again because a newer checkpoint has taken the place of one."""


def back_up(state_folder: Path, target: Path) -> int:
    """Write a state folder to a new file that only its owner can read; returns its bytes."""
    if not (state_folder / "federation.json").exists():
        raise RunError(f"{state_folder}: no state of a peer is there; nothing to back up")
    if target.exists():
        raise RunError(f"{target.absolute()}: is there already; choose another name")

    partial = target.with_name(target.name + PARTIAL)
    try:
        with disk_errors(target):
            for attempt in range(1, ATTEMPTS + 1):
                try:
                    _write(state_folder, partial)
                    break
                except FileNotFoundError:
                    if attempt == ATTEMPTS:
                        raise
            partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return target.stat().st_size


def restore(backup: Path, site: Site, rounds_since: int | None = None) -> None:
    """Make the state folder of a site from a backup; one that is in use is never overwritten.

    `rounds_since` are the rounds that the peer may have played after the backup was made. They cost
    privacy where the federation limits that; None counts the whole budget as spent.
    """
    state = site.state
    if state.exists() and any(path.name not in (LOCK, "peer.log") for path in state.iterdir()):
        raise RunError(f"{state}: holds a state already; move it away first")

    fresh = state.with_name(state.name + PARTIAL)
    shutil.rmtree(fresh, ignore_errors=True)
    try:
        with disk_errors(state):
            fresh.mkdir(parents=True, mode=0o700)
            _read(backup, fresh)
        _check_owner(backup, fresh, site)
        if site.federation.privacy.epsilon is not None:
            note_restored(fresh, rounds_since)
        with locked(state), disk_errors(state):  # no peer is just starting there
            for path in sorted(fresh.iterdir()):
                path.rename(state / path.name)
            state.chmod(0o700)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _write(state_folder: Path, partial: Path) -> None:
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    digests = {}
    with os.fdopen(descriptor, "wb") as file, tarfile.open(fileobj=file, mode="w") as archive:
        for path in _files(state_folder):
            content = path.read_bytes()
            name = path.relative_to(state_folder).as_posix()
            digests[name] = hashlib.sha256(content).hexdigest()
            _add(archive, name, content)
        manifest = json.dumps({"format": 1, "files": digests})
        _add(archive, MANIFEST, manifest.encode())
        file.flush()
        os.fsync(file.fileno())


def _files(state_folder: Path) -> list[Path]:
    found = []
    for name in (*FIRST, *LAST):
        path = state_folder / name
        if path.is_dir():
            inside = [entry for entry in sorted(path.rglob("*")) if entry.is_file()]
            found += [entry for entry in inside if not entry.name.endswith(PARTIAL)]
        elif path.exists():
            found.append(path)
    return found


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    entry.mode = 0o600
    archive.addfile(entry, io.BytesIO(content))


def _read(backup: Path, fresh: Path) -> None:
    """Unpack plain files below `fresh`, and check each against the manifest."""
    try:
        with tarfile.open(backup, mode="r:") as archive:
            _refuse_what_no_backup_holds(archive, backup.stat().st_size)
            archive.extractall(fresh, filter="data")
        manifest = _manifest(fresh)
    except (OSError, tarfile.TarError, ValueError) as error:
        raise RunError(
            f"{backup.absolute()}: not a whole backup of a state folder ({error})"
        ) from None
    except (MemoryError, OverflowError, RecursionError):
        raise RunError(
            f"{backup.absolute()}: not a whole backup of a state folder: its headers claim more "
            "than a backup holds"
        ) from None

    found = {}
    for path in fresh.rglob("*"):
        if path.is_file():
            name = path.relative_to(fresh).as_posix()
            with path.open("rb") as file:
                found[name] = hashlib.file_digest(file, "sha256").hexdigest()
    if found != manifest["files"]:
        raise RunError(f"{backup}: damaged: its files are not those that were backed up")


def _refuse_what_no_backup_holds(archive: tarfile.TarFile, size: int) -> None:
    """Refuse, before anything is unpacked, what would become larger than the archive is.

    A sparse file takes no place in an archive for the zeros that it says it has, so that a few
    kilobytes could fill a disk. A link to another file could do so as well.
    """
    total = 0
    for entry in archive:
        if entry.issparse() or not entry.isreg():
            raise ValueError(f"{entry.name!r} is no plain file")
        total += entry.size
        if entry.size < 0 or total > size:
            raise ValueError(f"its files claim more than the {size} bytes that it has")


def _manifest(fresh: Path) -> dict[str, Any]:
    path = fresh / MANIFEST
    if path.stat().st_size > LARGEST_MANIFEST:
        raise ValueError(f"{MANIFEST} is too large")
    manifest = json.loads(path.read_text(encoding="utf-8"))
    path.unlink()
    if not isinstance(manifest, dict):
        raise ValueError(f"{MANIFEST} is no table")
    if manifest.get("format") != 1 or "files" not in manifest:
        raise ValueError(f"{MANIFEST} is of another version of federico")
    return manifest


def _check_owner(backup: Path, fresh: Path, site: Site) -> None:
    """Refuse the state of another site, or of another version of the federation file."""
    try:
        owner = json.loads((fresh / "federation.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise RunError(f"{backup}: does not say whose state it is ({error})") from None
    if owner != {"name": site.name, "federation": site.federation.digest.hex()}:
        raise RunError(
            f"{backup}: is of another site, or of another version of the federation file or of "
            "federico"
        )
