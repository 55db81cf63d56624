from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from federico.algorithm.peer_table import Column, PeerTable
from federico.types import FloatArray, IntArray


class Visited(PeerTable):
    columns: ClassVar[Mapping[str, Column]] = {"visits": Column(0), "loss": Column(np.inf)}
    visits: IntArray
    loss: FloatArray
    samples: FloatArray

    def __init__(self, width: int) -> None:
        super().__init__(samples=Column(0.5, width))


def test_peers_stay_in_order_and_the_columns_go_with_them() -> None:
    table = Visited(2)
    places = table.meet(np.array([7, 3]))
    table.visits[places] = [70, 30]
    places = table.meet(np.array([5]))
    table.visits[places] = 50
    assert table.peers.tolist() == [3, 5, 7]
    assert table.visits.tolist() == [30, 50, 70]
    assert table.loss.tolist() == [np.inf] * 3
    assert table.samples.tolist() == [[0.5, 0.5]] * 3
    assert table.meet(np.array([7, 3])).tolist() == [2, 0], "nobody is met twice"


def test_what_is_declared_is_saved_and_restored() -> None:
    table = Visited(2)
    table.meet(np.array([4, 9]))
    table.visits[1] = 6
    table.samples[0] = [1.5, 2.5]

    again = Visited(2)
    again.restore(table.state())
    table.visits[1] = 0  # what was restored is a copy
    assert again.peers.tolist() == [4, 9]
    assert again.visits.tolist() == [0, 6]
    assert again.visits.dtype == np.int64
    assert again.samples.tolist() == [[1.5, 2.5], [0.5, 0.5]]


def test_a_column_without_numbers_is_not_saved() -> None:
    table = Visited(0)
    table.meet(np.array([1]))
    assert table.state().keys() == {"peers", "visits", "loss"}
    again = Visited(0)
    again.restore(table.state())
    assert again.samples.shape == (1, 0)
