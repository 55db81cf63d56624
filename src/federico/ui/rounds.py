"""The rounds of a cell, as far as the page shows them."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter

from federico.errors import RunError
from federico.runs.layout import CellDir, Description
from federico.runs.records import Record, iterate_parts, iterate_some_parts, read_last_record

MOST_ROUNDS = 400


@dataclass(frozen=True)
class ShownRound:
    """What is shown of every round, see `Record`."""

    round: int
    figures: dict[str, list[float | None]] | None
    posterior: list[dict[str, float]]
    neighbors: list[list[str]]
    sent: list[int]
    received: list[int]
    moved: int
    alone: dict[str, list[float | None]] | None = None


@dataclass(frozen=True)
class RoundBytes:
    """What each client sent and received in a round to train, see `Record`."""

    sent: list[int]
    received: list[int]


SHOWN_ROUND = TypeAdapter(ShownRound)
ROUND_BYTES = TypeAdapter(RoundBytes)


@dataclass(frozen=True)
class ShownCell:
    """A cell that has finished a round at least."""

    cell: CellDir
    last: Record
    rounds: list[ShownRound]
    """At most `MOST_ROUNDS`, evenly from all, the first and last among them."""
    traffic: RoundBytes
    """The bytes of all rounds together."""

    @property
    def about(self) -> Description:
        """What the cell says of itself."""
        return self.cell.description

    @property
    def knows_trust(self) -> bool:
        """Whether its clients have weights over each other's models."""
        owners: set[str] = set()
        for row in self.last.posterior:
            owners.update(row)
        return not owners.isdisjoint(self.about.clients)


def read_cell(path: Path) -> ShownCell:
    """Read the rounds of the cell in this folder."""
    last = read_last_record(path)
    if last is None:
        raise RunError(f"{path.name} has not finished a round yet; wait for the first")
    rounds = list(iterate_some_parts(path, SHOWN_ROUND, MOST_ROUNDS))
    return ShownCell(CellDir(path), last, rounds, _traffic(path, rounds, last))


def _traffic(path: Path, rounds: list[ShownRound], last: Record) -> RoundBytes:
    """The bytes of all rounds; they are read again only if some of them are not shown."""
    parts: list[ShownRound] | list[RoundBytes] = rounds
    if len(rounds) < last.round:
        parts = list(iterate_parts(path, ROUND_BYTES))
    sent = np.sum([part.sent for part in parts], axis=0)
    received = np.sum([part.received for part in parts], axis=0)
    return RoundBytes(sent.tolist(), received.tolist())
