"""What lies in the folder that the page shows: run directories and sites' state folders.

Runs and sites are known by names that a scan found. A request can ask for these names only, so no
path from outside is ever opened.
"""

import math
import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from federico.runs.table import TABLE
from federico.site.status import STATUS_FILE

MOST_LEVELS = 3
"""Folders inside each other that are looked through."""
WATCHED = (
    "table.json",
    "results.jsonl",
    "figure.png",
    "figure-dark.png",
    "*/cell.json",
    "*/records.jsonl",
    "*/timings.jsonl",
    "*/done.json",
)
"""Files of a run that the page is made from."""
Signature: TypeAlias = tuple[tuple[str, int, int, int], ...]


def find_runs(folder: Path) -> dict[str, Path]:
    """All run directories in the folder by their name in it, whole or broken."""
    found = {}
    for path in _folders(folder.resolve(), MOST_LEVELS):
        if (path / TABLE).is_file() or (path / "config.toml").is_file():
            found[_name(folder, path)] = path
    return dict(sorted(found.items()))


def find_sites(folder: Path) -> dict[str, Path]:
    """All state folders of sites in the folder by their name in it."""
    found = {}
    for path in _folders(folder.resolve(), MOST_LEVELS):
        if (path / STATUS_FILE).is_file():
            found[_name(folder, path)] = path
    return dict(sorted(found.items()))


def files_of_run(path: Path) -> list[Path]:
    """The files of a run, or of a site's state, that the page is made from."""
    files = [path / STATUS_FILE]
    for pattern in WATCHED:
        files += sorted(path.glob(pattern))
    return files


def files_of_cell(path: Path) -> list[Path]:
    """The files of a cell that the page is made from."""
    return [path / name for name in ("cell.json", "records.jsonl", "timings.jsonl", "done.json")]


def signature(files: Iterable[Path]) -> Signature:
    """Changes whenever one of these files changes."""
    found = []
    for file in files:
        try:
            about = file.lstat()
        except OSError:
            continue  # not there, or removed since it was listed
        found.append((str(file), about.st_ino, about.st_mtime_ns, about.st_size))
    return tuple(found)


class Watch:
    """Looks for changes in the folder, once for all who ask within a moment."""

    def __init__(self, folder: Path, every: float) -> None:
        """`every` is for how many seconds an answer counts as new."""
        self._folder = folder
        self._every = every
        self._lock = threading.Lock()
        self._looked = -math.inf
        self._found: dict[str, Signature] = {}

    def look(self) -> dict[str, Signature]:
        """The signature of every run and site, by name."""
        with self._lock:
            if time.monotonic() - self._looked >= self._every:
                places = find_runs(self._folder) | find_sites(self._folder)
                self._found = {name: signature(files_of_run(path)) for name, path in places.items()}
                self._looked = time.monotonic()
            return self._found


def changed(before: Mapping[str, Signature], now: Mapping[str, Signature]) -> list[str]:
    """The names of runs and sites that are new, gone or not as they were."""
    names = before.keys() | now.keys()
    return sorted(name for name in names if before.get(name) != now.get(name))


def _folders(folder: Path, levels: int) -> Iterator[Path]:
    """The folder and those inside it; hidden ones and links that lead elsewhere are left out."""
    yield folder
    if levels == 0:
        return
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False):
            yield from _folders(Path(entry.path), levels - 1)


def _name(folder: Path, path: Path) -> str:
    """The path inside the folder; for the folder itself its own name."""
    name = path.relative_to(folder.resolve()).as_posix()
    if name == ".":
        return path.name
    return name
