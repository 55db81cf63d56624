"""What lies in the folder that the page shows: run directories and sites' state folders.

Runs and sites are known by names that a scan found. A request can ask for these names only, so no
path from outside is ever opened.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from federico.runs.table import TABLE
from federico.site.status import STATUS_FILE

MOST_LEVELS = 3
"""Folders inside each other that are looked through."""
WATCHED = ("table.json", "results.jsonl", "*/cell.json", "*/records.jsonl", "*/done.json")
"""Files of a run that change while it goes on."""


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


def signature(path: Path) -> tuple[tuple[str, int, int], ...]:
    """Changes whenever a file changes that the page is made from."""
    files = [path / STATUS_FILE]
    for pattern in WATCHED:
        files += sorted(path.glob(pattern))
    found = []
    for file in files:
        try:
            about = file.stat()
        except OSError:
            continue  # removed since it was listed
        found.append((str(file), about.st_mtime_ns, about.st_size))
    return tuple(found)


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
