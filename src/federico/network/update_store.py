"""The numbers of updates that arrive: they wait here until they are complete and collected.

Large ones wait in files, so however many contributors there are, they take no memory.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from weakref import WeakKeyDictionary

import numpy as np
import torch

from federico.errors import RunError
from federico.exchange.protocol import Updates
from federico.learning.rows import RowFile, Rows
from federico.network.protocol import IncomingUpdate, StoreChunk
from federico.network.wire.encoding import square_sum
from federico.network.wire.schema import ChunkPlan

log = logging.getLogger(__name__)


class UpdateStore:
    """Keeps the numbers of updates, each in a row of its own."""

    def __init__(self, chunk_plan: ChunkPlan, dtype: str, folder: Path | None = None) -> None:
        """`folder` holds the files of large updates."""
        self._chunk_plan = chunk_plan
        self._dtype = dtype
        self._folder = folder
        # A row is gone with the last who knows of its update: dropped updates free their room.
        self._incoming: WeakKeyDictionary[IncomingUpdate, RowFile] = WeakKeyDictionary()

    @property
    def waiting(self) -> int:
        """How many updates have room here now."""
        return len(self._incoming)

    def make_room(self, update: IncomingUpdate) -> bool:
        """Make room for an update that was offered; returns whether there is enough."""
        try:
            self._incoming[update] = RowFile(self._chunk_plan.size, self._dtype, self._folder)
        except RunError as error:
            log.error("an update cannot be taken: %s", error)
            return False
        return True

    def store(self, chunk: StoreChunk) -> bool:
        """Store a chunk of an update; returns whether there is room for it."""
        row = self._incoming[chunk.update]
        try:
            row[self._chunk_plan.chunk(chunk.index)] = chunk.numbers
        except RunError as error:
            log.error("an update cannot be taken: %s", error)
            return False
        return True

    def take(self, update: IncomingUpdate, factor: float) -> RowFile:
        """The numbers of a complete update, multiplied by this factor."""
        row = self._incoming.pop(update)
        if factor != 1.0:
            numbers = row.look()
            numbers *= factor
        return row

    def length(self, row: RowFile) -> float:
        """Euclidean length of a row, read chunk by chunk; not finite where a number is not."""
        squares = [square_sum(row[chunk]) for chunk in self._chunk_plan]
        return float(np.sqrt(sum(squares)))

    def gather(self, owner: int, arrived: Sequence[tuple[int, float, RowFile]]) -> Updates:
        """Updates of an owner's model, from (contributor, coefficient, row) in this order."""
        contributors = []
        coefficients = []
        files = []
        for contributor, coefficient, row in arrived:
            contributors.append(contributor)
            coefficients.append(coefficient)
            files.append(row)

        dtype = getattr(torch, self._dtype)
        return Updates(
            owners=np.full(len(arrived), owner, dtype=np.int64),
            contributors=np.array(contributors, dtype=np.int64),
            coefficients=np.array(coefficients, dtype=np.float64),
            rows=Rows.of_files(files, self._chunk_plan.size, dtype),
        )
