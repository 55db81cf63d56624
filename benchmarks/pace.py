"""Real rounds, played by `simulate` as `federico run` plays them, with a stop where others are to
be measured.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory

from benchmarks.store import CACHE
from federico.api.progress import Quiet
from federico.runs.layout import CellDir
from federico.runs.records import Record, read_spent

PATIENCE = 600.0
"""Seconds until a checkpoint that does not come is given up."""

Pause = Callable[[CellDir, Record], None]


@dataclass(frozen=True)
class Plan:
    """Every `lead + 1`th round is measured: those before it get going again after the pause."""

    lead: int
    measured: int

    @property
    def rounds(self) -> int:
        """All of them."""
        return self.measured * (self.lead + 1)


@dataclass(frozen=True)
class Measured:
    """One round."""

    whole: float
    """Seconds from the first to the last of it, all phases and what is between them."""
    phases: dict[str, float]
    """Seconds of each phase."""


class Pace(Quiet):
    """Watches the rounds go by, and halts the run after each that is measured."""

    def __init__(self, plan: Plan, pause: Pause = lambda cell, record: None) -> None:
        self.rounds: list[Measured] = []
        self._plan, self._pause = plan, pause
        self._first, self._began = 1, 0.0

    def cell_started(self, cell: CellDir, rounds_before: int) -> None:
        """Rounds are counted from here."""
        self._first = rounds_before + 1

    def round_done(self, cell: CellDir, record: Record) -> None:
        """Once a round's checkpoint is on the disk, the next begins; after a measured one others
        have a turn.
        """
        whole = time.perf_counter() - self._began
        _wait_for_checkpoint(cell, record.round)
        if (record.round - self._first + 1) % (self._plan.lead + 1) == 0:
            self.rounds.append(Measured(whole, read_spent(cell.path)[-1].seconds))
            self._pause(cell, record)
        self._began = time.perf_counter()


def checkpoint_path(cell: CellDir, round_index: int) -> Path | None:
    """The checkpoint of this round, once it is on the disk."""
    return next((cell.path / "checkpoint").glob(f"round-{round_index:06d}-*.safetensors"), None)


def _wait_for_checkpoint(cell: CellDir, round_index: int) -> None:
    end = time.monotonic() + PATIENCE
    while checkpoint_path(cell, round_index) is None:
        if time.monotonic() > end:
            raise TimeoutError(
                f"{cell.path}: no checkpoint of round {round_index} after {PATIENCE:.0f} seconds"
            )
        time.sleep(0.002)


@contextmanager
def scratch(warm: Path | None = None) -> Iterator[Path]:
    """A folder for runs, on the disk that runs are kept on; with a copy of a warm run if there is
    one.
    """
    CACHE.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=CACHE) as folder:
        if warm is not None:
            copytree(warm, Path(folder) / warm.name)
        yield Path(folder)
