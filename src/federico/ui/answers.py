"""What the page asks of a folder, answered as JSON; kept as long as no file behind it changes."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from federico.runs.records import RECORDS, TIMINGS
from federico.site.status import STATUS_FILE
from federico.ui.cell_view import cell_view
from federico.ui.client_view import client_view
from federico.ui.compare_view import compare_view
from federico.ui.folder import (
    Signature,
    files_of_cell,
    files_of_run,
    find_runs,
    find_sites,
    signature,
)
from federico.ui.network_view import broken_site, site_rounds, site_view
from federico.ui.readable import (
    UNREADABLE,
    UnreadableError,
    as_json,
    fault,
    readable,
    refuse_links,
)
from federico.ui.rounds import ShownCell, read_cell
from federico.ui.run_view import run_view
from federico.ui.runs_view import broken_line, run_line

MOST_KEPT = 64
"""Answers that are kept."""
MOST_CELLS = 6
"""Cells whose rounds are kept: a large one takes tens of megabytes."""
T = TypeVar("T")


class NoneOfThatNameError(Exception):
    """What was asked for is not in the folder."""


class Answers:
    """The answers about one folder; from several threads at once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._kept = Kept(folder, MOST_KEPT)
        self._cells = Kept(folder, MOST_CELLS)

    def folder(self) -> bytes:
        """Which folder this is."""
        return as_json({"folder": str(self._folder.resolve())})

    def runs(self) -> bytes:
        """All runs, whole or broken."""
        return _list([self._line(name, path) for name, path in find_runs(self._folder).items()])

    def run(self, name: str) -> bytes:
        """One run without its rounds."""
        path = self._run(name)
        return self._kept.get(
            ("run", name), path, files_of_run(path), lambda _: as_json(run_view(name, path))
        )

    def compare(self, names: Sequence[str]) -> bytes:
        """Several runs side by side."""
        paths = {name: self._run(name) for name in names}
        files = [file for path in paths.values() for file in files_of_run(path)]
        return self._kept.get(
            ("compare", *names), self._folder, files, lambda _: as_json(compare_view(paths))
        )

    def cell(self, run: str, name: str) -> bytes:
        """All rounds of a cell."""
        path = self._cell(run, name)
        shown = self._rounds(path)
        return self._kept.get(
            ("cell", run, name), path, files_of_cell(path), lambda _: as_json(cell_view(shown))
        )

    def client(self, run: str, cell: str, name: str) -> bytes:
        """One client of a cell."""
        path = self._cell(run, cell)
        shown = self._rounds(path)
        if name not in shown.about.clients:
            raise NoneOfThatNameError("no such client")
        return readable(path, lambda: as_json(client_view(shown, name)))

    def network(self) -> bytes:
        """All sites, whole or broken."""
        return _list([self._site(name, path) for name, path in find_sites(self._folder).items()])

    def site(self, name: str) -> bytes:
        """What each round of a site cost it."""
        path = find_sites(self._folder).get(name)
        if path is None:
            raise NoneOfThatNameError("no such site")
        files = [path / RECORDS, path / TIMINGS]
        return self._kept.get(("site", name), path, files, lambda _: as_json(site_rounds(path)))

    def _line(self, name: str, path: Path) -> bytes:
        files = files_of_run(path)
        try:
            return self._kept.get(
                ("line", name), path, files, lambda _: as_json(run_line(name, path))
            )
        except UnreadableError as error:
            return as_json(broken_line(name, str(error), error.advice))

    def _site(self, name: str, path: Path) -> bytes:
        try:
            refuse_links(self._folder, [path / STATUS_FILE])
            return as_json(site_view(name, path))
        except UNREADABLE as error:
            return as_json(broken_site(name, fault(path, error)))

    def _rounds(self, path: Path) -> ShownCell:
        """The rounds of a cell; of one that goes on only the new ones are read."""
        read: Callable[[ShownCell | None], ShownCell] = partial(read_cell, path)
        return self._cells.get((str(path),), path, files_of_cell(path), read)

    def _run(self, name: str) -> Path:
        """The run of this name; only names that a scan of the folder found are known."""
        path = find_runs(self._folder).get(name)
        if path is None:
            raise NoneOfThatNameError("no such run")
        return path

    def _cell(self, run: str, name: str) -> Path:
        """The folder of a cell; only names that a scan of the run found are known."""
        for file in self._run(run).glob("*/cell.json"):
            if file.parent.name == name:
                return file.parent
        raise NoneOfThatNameError("no such cell")


class Kept:
    """What was read of some files, as long as none of them changes."""

    def __init__(self, folder: Path, most: int) -> None:
        """Nothing outside of `folder` is read; at most this many things are kept."""
        self._folder = folder
        self._most = most
        self._found: OrderedDict[tuple[str, ...], Known] = OrderedDict()
        self._lock = threading.Lock()

    def get(
        self,
        key: tuple[str, ...],
        path: Path,
        files: list[Path],
        read: Callable[[T | None], T],
    ) -> T:
        """What is known under this key if these files are as they were, or else read now.

        `read` is given what was read before, if anything was; `path` is the folder that errors are
        about. Of two who ask at once only one reads.
        """
        with self._lock:
            known = self._found.pop(key, None) or Known()
            self._found[key] = known
            while len(self._found) > self._most:
                self._found.popitem(last=False)
        with known.lock:
            now = signature(files)
            if known.signature != now:
                self._read(known, path, files, read)
                known.signature = now
            if known.fault is not None:
                raise known.fault
            found: T = known.value
            return found

    def _read(
        self, known: "Known", path: Path, files: list[Path], read: Callable[[T | None], T]
    ) -> None:
        def read_here() -> T:
            refuse_links(self._folder, files)
            return read(known.value)

        known.fault = None
        try:
            known.value = readable(path, read_here)
        except UnreadableError as error:
            known.fault = error
            known.value = None


class Known:
    """One thing that was read, or why it cannot be, and what its files looked like then."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.signature: Signature | None = None
        self.value: Any = None
        self.fault: UnreadableError | None = None


def _list(parts: Sequence[bytes]) -> bytes:
    return b"[" + b",".join(parts) + b"]"
