"""What one peer knows of the peers it has met: named columns that grow as it meets more."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from federico.types import Array, BoolArray, IntArray


@dataclass(frozen=True)
class Column:
    """One column of a `PeerTable`."""

    fill: float
    """What it says of a peer that was only just met. A whole number makes a column of whole numbers
    (0 or 0.0)."""
    width: int | None = None
    """How many numbers it has for each peer, where that is not one."""

    def empty(self, length: int) -> Array:
        """The column of this many peers that were only just met."""
        shape = (length,) if self.width is None else (length, self.width)
        return np.full(shape, self.fill, dtype=type(self.fill))


def among(wanted: IntArray, ascending: IntArray) -> BoolArray:
    """Which of the wanted peers are among the others, [wanted]; these ascend, and none is twice.

    `np.isin` is right for these short lists too, but takes ten times as long.
    """
    if len(ascending) == 0:
        return np.zeros(len(wanted), dtype=bool)
    places = np.searchsorted(ascending, wanted)
    last = len(ascending) - 1
    nearest = ascending[np.minimum(places, last)]
    is_among: BoolArray = nearest == wanted
    return is_among


class PeerTable:
    """One peer's table of the peers it has met, in ascending order, and its columns.

    A class declares its columns; each is an attribute, an array with an entry for each of `peers`.
    Adding peers, saving and resuming follow from the declaration:

        class Visited(PeerTable):
            columns = {"visits": Column(0), "loss": Column(np.inf)}
            visits: IntArray
            loss: FloatArray
    """

    columns: ClassVar[Mapping[str, Column]] = {}

    def __init__(self, **more: Column) -> None:
        """Nobody was met yet. `more`: columns whose width is known only now."""
        self._columns = {**self.columns, **more}
        self.peers: IntArray = np.empty(0, np.int64)
        for name, column in self._columns.items():
            setattr(self, name, column.empty(0))

    def meet(self, peers: IntArray) -> IntArray:
        """Add an entry for each of these peers that has none yet; returns all their places."""
        is_known = among(peers, self.peers)
        if not is_known.all():
            all_peers = np.union1d(self.peers, peers[~is_known])
            before = np.searchsorted(all_peers, self.peers)
            for name, column in self._columns.items():
                longer = column.empty(len(all_peers))
                longer[before] = getattr(self, name)
                setattr(self, name, longer)
            self.peers = all_peers
        return self.places(peers)

    def places(self, peers: IntArray) -> IntArray:
        """The places of these peers in the columns; all of them were met before."""
        return np.searchsorted(self.peers, peers)

    def state(self) -> dict[str, Array]:
        """The arrays to save, each with one entry for each peer met."""
        saved: dict[str, Array] = {"peers": self.peers}
        for name, column in self._columns.items():
            if column.width != 0:
                saved[name] = getattr(self, name)
        return saved

    def restore(self, state: Mapping[str, Array]) -> None:
        """Resume from what `state` gave."""
        self.peers = state["peers"].astype(np.int64)
        for name, column in self._columns.items():
            values = column.empty(len(self.peers))
            if column.width != 0:
                values[:] = state[name]
            setattr(self, name, values)
