"""The state after a round, in one file whose name holds its hash: whole, or not there at all.

The two newest are kept. A file that does not match its name is put aside and the one before it is
used.
"""

import re
import shutil
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from safetensors import SafetensorError, safe_open
from torch import Tensor

from federico.runs.atomic import PARTIAL, disk_errors, sync
from federico.runs.tensor_file import digest, save_tensors

KEPT = 2
PAUSE = 10.0
"""Seconds between the end of one checkpoint and the begin of the next, where nobody asks for
certain rounds."""
SHOWN = 32
"""Digits of the hash that are in a name."""
NAME = re.compile(rf"round-(\d+)-([0-9a-f]{{{SHOWN}}})\.safetensors")


@dataclass(frozen=True)
class Checkpoint:
    """A state and where the records stood when it was taken."""

    path: Path
    round_index: int
    records_bytes: int
    state: dict[str, Tensor]


class Writer:
    """Saves in the background, one checkpoint at a time, while the next round is played.

    What goes wrong there is raised by the next `wait`, or at the end of the `with` block.
    """

    def __init__(self, folder: Path, records: Path) -> None:
        """Save into `folder`, each time after the records that the state goes with are on disk."""
        self._folder = folder
        self._records = records
        self._thread = ThreadPoolExecutor(max_workers=1)
        self._pending: Future[None] | None = None
        self._written = time.monotonic()

    @property
    def rested(self) -> bool:
        """Whether nothing is being written and the last checkpoint is old enough for another."""
        idle = self._pending is None or self._pending.done()
        return idle and time.monotonic() - self._written >= PAUSE

    def save(self, round_index: int, records_bytes: int, state: Mapping[str, Tensor]) -> None:
        """Begin to save a state that nobody will change any more."""
        self.wait()
        self._pending = self._thread.submit(self._save, round_index, records_bytes, state)

    def wait(self) -> None:
        """Until the last save is on the disk."""
        if self._pending is not None:
            self._pending.result()

    def __enter__(self) -> Self:
        """Ready to save."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Wait for the last save."""
        self._thread.shutdown()
        if kind is None:
            self.wait()

    def _save(self, round_index: int, records_bytes: int, state: Mapping[str, Tensor]) -> None:
        with disk_errors(self._records):
            sync(self._records)
        save(self._folder, round_index, records_bytes, state)
        self._written = time.monotonic()


def save(folder: Path, round_index: int, records_bytes: int, state: Mapping[str, Tensor]) -> None:
    """Publish a checkpoint, then drop those older than the two newest."""
    with disk_errors(folder):
        folder.mkdir(exist_ok=True)
        partial = folder / f"round{PARTIAL}"
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in state.items()}
        written = save_tensors(
            partial, tensors, {"round": str(round_index), "records": str(records_bytes)}
        )
        sync(partial)
        partial.replace(folder / f"round-{round_index:06d}-{written[:SHOWN]}.safetensors")
        sync(folder)
        _drop_old(folder)


def load_latest(folder: Path, say: Callable[[str], None]) -> Checkpoint | None:
    """The newest checkpoint that is whole, or None; what had to be put aside is said."""
    for leftover in folder.glob(f"*{PARTIAL}"):
        leftover.unlink()
    _drop_old(folder)  # where the last save got no further
    for path in _newest_first(folder):
        damage = "its content does not match its hash"
        if digest(path)[:SHOWN] == _parts(path)[1]:
            try:
                return read(path)
            except (SafetensorError, TypeError, KeyError, ValueError) as error:
                damage = f"it is no checkpoint: {error}"
        path.rename(path.with_suffix(".damaged"))
        say(f"{path.name} is damaged ({damage}): put aside, the one before it is used")
    return None


def read(path: Path) -> Checkpoint:
    """A checkpoint that is known to be whole."""
    state = {}
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata()
        for name in file.keys():  # noqa: SIM118 (not a dictionary)
            state[name] = file.get_tensor(name)

    round_index = int(metadata["round"])
    records_bytes = int(metadata["records"])
    return Checkpoint(path, round_index, records_bytes, state)


def remove_all(folder: Path) -> None:
    """Delete all checkpoints of a cell that nobody is going to resume."""
    shutil.rmtree(folder, ignore_errors=True)


def _drop_old(folder: Path) -> None:
    for old in _newest_first(folder)[KEPT:]:
        old.unlink()


def _newest_first(folder: Path) -> list[Path]:
    return sorted(
        (path for path in folder.glob("round-*") if NAME.fullmatch(path.name)),
        key=_parts,
        reverse=True,
    )


def _parts(path: Path) -> tuple[int, str]:
    match = NAME.fullmatch(path.name)
    assert match is not None, "only names that match are asked"
    return int(match[1]), match[2]
