from itertools import pairwise

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from federico.learning.board import Board, to_input
from federico.types import IntArray

CPU = torch.device("cpu")


def board_of(sizes: list[int]) -> Board:
    """Sample k of all has the input k and the label k % 3."""
    ends = np.cumsum([0, *sizes])
    parts = [(np.arange(a, b)[:, None].astype(float), np.arange(a, b) % 3) for a, b in pairwise(ends)]
    return Board(parts, "classification", torch.float64, CPU)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.integers(1, 10), st.booleans(), st.integers(0, 99))
def test_batches_hold_every_sample_once_in_its_clients_order(
    sizes: list[int], size: int, shuffled: bool, seed: int
) -> None:
    board, rng = board_of(sizes), np.random.default_rng(seed)
    clients: IntArray = np.argsort(-np.array(sizes), kind="stable")
    orders = [rng.permutation(sizes[i]) if shuffled else None for i in clients]
    seen: list[list[int]] = [[] for _ in clients]
    for batch in board.batches(clients, orders, size):
        torch.testing.assert_close(batch.weights.sum(1), torch.ones(len(batch.index), dtype=torch.float64))
        for row, (index, weights) in enumerate(zip(batch.index, batch.weights, strict=True)):
            kept = weights > 0
            assert len(weights[kept].unique()) == 1
            assert kept.sum() <= size
            seen[row] += index[kept].tolist()
    starts = np.cumsum([0, *sizes])
    for row, (client, order) in enumerate(zip(clients, orders, strict=True)):
        places = np.arange(sizes[client]) if order is None else order
        assert seen[row] == (starts[client] + places).tolist()


def test_clients_that_ran_out_leave_the_batch() -> None:
    batches = list(board_of([5, 3]).batches(np.array([0, 1]), [None, None], 2))
    assert [tuple(batch.index.shape) for batch in batches] == [(2, 2), (2, 2), (1, 1)]
    assert batches[1].weights.tolist() == [[0.5, 0.5], [1.0, 0.0]]


def test_bytes_become_numbers_by_fixed_constants() -> None:
    x = torch.tensor([0, 51, 255], dtype=torch.uint8)
    torch.testing.assert_close(to_input(x, torch.float32), torch.tensor([-2.0, -1.2, 2.0]))
    assert x.tolist() == [0, 51, 255], "the bytes themselves stay"


def test_images_stay_bytes_on_board_and_are_numbers_when_read() -> None:
    parts = [(np.full((2, 1, 2, 2), 255, dtype=np.uint8), np.array([0, 1]))]
    board = Board(parts, "classification", torch.float64, CPU)
    assert board._x.dtype == torch.uint8
    assert board.x(torch.tensor([1])).unique().tolist() == [2.0]


def test_floats_stay_as_they_are() -> None:
    board = Board([(np.array([[0.25], [300.0]]), np.array([[1.5], [2.5]]))], "regression", torch.float32, CPU)
    assert board.x(torch.tensor([0, 1])).tolist() == [[0.25], [300.0]]
    assert (board.y.dtype, len(board)) == (torch.float32, 2)


def test_reading_does_not_change_what_is_on_board() -> None:
    board = board_of([3])
    board.x(torch.tensor([0, 1, 2])).add_(100)
    assert board.x(torch.tensor([0])).item() == 0


def test_chosen_samples_make_a_board_of_their_own() -> None:
    chosen = board_of([3, 2, 2]).choose([np.array([0, 2]), np.array([], dtype=np.int64), np.array([1])])
    assert (chosen.counts.tolist(), chosen.starts.tolist()) == ([2, 0, 1], [0, 2, 2])
    assert chosen.x(torch.arange(3))[:, 0].tolist() == [0, 2, 6]
    assert chosen.y.tolist() == [0, 2, 0]
