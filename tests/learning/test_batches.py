from itertools import pairwise

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from federico.learning.batches import ClientTensors, to_input
from federico.types import IntArray

CPU = torch.device("cpu")


def board_of(sizes: list[int]) -> ClientTensors:
    """Sample k of all has the input k and the label k % 3."""
    ends = np.cumsum([0, *sizes])
    parts = [
        (np.arange(a, b)[:, None].astype(float), np.arange(a, b) % 3) for a, b in pairwise(ends)
    ]
    return ClientTensors(parts, "classification", torch.float64, CPU)


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=4),
    st.integers(1, 10),
    st.booleans(),
    st.integers(0, 99),
)
def test_batches_hold_every_sample_once_in_its_clients_order(
    sizes: list[int], size: int, shuffled: bool, seed: int
) -> None:
    board, rng = board_of(sizes), np.random.default_rng(seed)
    clients: IntArray = np.argsort(-np.array(sizes), kind="stable")
    orders = [rng.permutation(sizes[i]) if shuffled else np.arange(sizes[i]) for i in clients]
    seen: list[list[int]] = [[] for _ in clients]
    for batch in board.batches(clients, orders, size) if shuffled else board.whole(clients, size):
        torch.testing.assert_close(
            batch.weights.sum(1), torch.ones(len(batch.weights), dtype=torch.float64)
        )
        places = torch.arange(len(board))[batch.index]
        for row, (index, weights) in enumerate(zip(places, batch.weights, strict=True)):
            kept = weights > 0
            assert len(weights[kept].unique()) == 1
            assert kept.sum() <= size
            seen[row] += index[kept].tolist()
    starts = np.cumsum([0, *sizes])
    for row, (client, order) in enumerate(zip(clients, orders, strict=True)):
        assert seen[row] == (starts[client] + order).tolist()


def test_clients_that_ran_out_leave_the_batch() -> None:
    batches = list(board_of([5, 3]).whole(np.array([0, 1]), 2))
    assert [tuple(batch.weights.shape) for batch in batches] == [(2, 2), (2, 2), (1, 1)]
    assert batches[1].weights.tolist() == [[0.5, 0.5], [1.0, 0.0]]


def test_bytes_become_numbers_by_fixed_constants() -> None:
    x = torch.tensor([0, 51, 255], dtype=torch.uint8)
    torch.testing.assert_close(to_input(x, torch.float32), torch.tensor([-2.0, -1.2, 2.0]))
    assert x.tolist() == [0, 51, 255], "the bytes themselves stay"


def test_images_stay_bytes_on_board_and_are_numbers_when_read() -> None:
    parts = [(np.full((2, 1, 2, 2), 255, dtype=np.uint8), np.array([0, 1]))]
    board = ClientTensors(parts, "classification", torch.float64, CPU)
    assert board._x.dtype == torch.uint8
    assert board.x(torch.tensor([1])).unique().tolist() == [2.0]


def test_floats_stay_as_they_are() -> None:
    board = ClientTensors(
        [(np.array([[0.25], [300.0]]), np.array([[1.5], [2.5]]))], "regression", torch.float32, CPU
    )
    assert board.x(torch.tensor([0, 1])).tolist() == [[0.25], [300.0]]
    assert (board.y.dtype, len(board)) == (torch.float32, 2)


def test_chosen_samples_make_a_board_of_their_own() -> None:
    chosen = board_of([3, 2, 2]).choose(
        [np.array([0, 2]), np.array([], dtype=np.int64), np.array([1])]
    )
    assert (chosen.counts.tolist(), chosen.starts.tolist()) == ([2, 0, 1], [0, 2, 2])
    assert chosen.x(torch.arange(3))[:, 0].tolist() == [0, 2, 6]
    assert chosen.y.tolist() == [0, 2, 0]


def test_one_clients_samples_are_read_where_they_lie() -> None:
    board = board_of([3, 4])
    (batch,) = board.whole(np.array([1]), 9)
    assert board.x(batch.index).tolist() == [[[3.0], [4.0], [5.0], [6.0]]]
    assert board.x(batch.index).data_ptr() == board._x[3:].data_ptr()


@given(st.lists(st.integers(1, 9), min_size=1, max_size=3), st.integers(1, 10))
def test_values_are_added_to_the_samples_they_belong_to(sizes: list[int], size: int) -> None:
    board = board_of(sizes)
    clients: IntArray = np.argsort(-np.array(sizes), kind="stable")
    total = torch.zeros(len(board), 1, dtype=torch.float64)
    for batch in board.whole(clients, size):
        board.add(total, batch, board.x(batch.index))
    assert total[:, 0].tolist() == list(range(len(board)))
