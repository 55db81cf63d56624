from itertools import pairwise

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from federico.learning.batches import ClientSamples, to_input
from federico.types import IntArray

CPU = torch.device("cpu")


def samples_of(sizes: list[int]) -> ClientSamples:
    """Sample k of all has the input k and the label k % 3."""
    ends = np.cumsum([0, *sizes])
    parts = [
        (np.arange(a, b)[:, None].astype(float), np.arange(a, b) % 3) for a, b in pairwise(ends)
    ]
    return ClientSamples.load(parts, "classification", torch.float64, CPU)


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=4),
    st.integers(1, 10),
    st.booleans(),
    st.integers(0, 99),
)
def test_batches_hold_every_sample_once_in_its_clients_order(
    sizes: list[int], size: int, shuffled: bool, seed: int
) -> None:
    samples, rng = samples_of(sizes), np.random.default_rng(seed)
    clients: IntArray = np.argsort(-np.array(sizes), kind="stable")
    orders = [rng.permutation(sizes[i]) if shuffled else np.arange(sizes[i]) for i in clients]
    seen: list[list[int]] = [[] for _ in clients]
    for batch in (
        samples.in_orders(clients, orders, size)
        if shuffled
        else samples.in_stored_order(clients, size)
    ):
        torch.testing.assert_close(
            batch.weights.sum(1), torch.ones(len(batch.weights), dtype=torch.float64)
        )
        places = torch.arange(len(samples))[batch.index]
        for row, (index, weights) in enumerate(zip(places, batch.weights, strict=True)):
            kept = weights > 0
            assert len(weights[kept].unique()) == 1
            assert kept.sum() <= size
            seen[row] += index[kept].tolist()
    starts = np.cumsum([0, *sizes])
    for row, (client, order) in enumerate(zip(clients, orders, strict=True)):
        assert seen[row] == (starts[client] + order).tolist()


def test_clients_that_ran_out_leave_the_batch() -> None:
    batches = list(samples_of([5, 3]).in_stored_order(np.array([0, 1]), 2))
    assert [tuple(batch.weights.shape) for batch in batches] == [(2, 2), (2, 2), (1, 1)]
    assert batches[1].weights.tolist() == [[0.5, 0.5], [1.0, 0.0]]


def test_bytes_become_numbers_by_fixed_constants() -> None:
    x = torch.tensor([0, 51, 255], dtype=torch.uint8)
    torch.testing.assert_close(to_input(x, torch.float32), torch.tensor([-2.0, -1.2, 2.0]))
    assert x.tolist() == [0, 51, 255], "the bytes themselves stay"


def test_images_stay_bytes_and_are_numbers_when_read() -> None:
    parts = [(np.full((2, 1, 2, 2), 255, dtype=np.uint8), np.array([0, 1]))]
    samples = ClientSamples.load(parts, "classification", torch.float64, CPU)
    assert samples.stored_inputs.dtype == torch.uint8
    assert samples.inputs(torch.tensor([1])).unique().tolist() == [2.0]


def test_floats_stay_as_they_are() -> None:
    samples = ClientSamples.load(
        [(np.array([[0.25], [300.0]]), np.array([[1.5], [2.5]]))], "regression", torch.float32, CPU
    )
    assert samples.inputs(torch.tensor([0, 1])).tolist() == [[0.25], [300.0]]
    assert (samples.all_targets.dtype, len(samples)) == (torch.float32, 2)


def test_chosen_samples_are_read_where_all_samples_lie() -> None:
    whole = samples_of([3, 2, 2])
    chosen = whole.choose([np.array([0, 2]), np.array([], dtype=np.int64), np.array([1])])
    assert chosen.counts.tolist() == [2, 0, 1]
    assert [chosen.targets_of(client).tolist() for client in range(3)] == [[0, 2], [], [0]]
    assert chosen.stored_inputs.data_ptr() == whole.stored_inputs.data_ptr(), "nothing is copied"

    (batch,) = chosen.in_stored_order(np.array([0, 2]), 9)
    assert chosen.inputs(batch.index)[batch.weights > 0][:, 0].tolist() == [0, 2, 6]
    (batch,) = chosen.in_stored_order(np.array([2]), 9)
    assert chosen.inputs(batch.index).flatten().tolist() == [6]
    (batch,) = chosen.in_orders(np.array([0]), [np.array([1, 0])], 9)
    assert chosen.inputs(batch.index).flatten().tolist() == [2, 0]


def test_one_clients_samples_are_read_where_they_lie() -> None:
    samples = samples_of([3, 4])
    (batch,) = samples.in_stored_order(np.array([1]), 9)
    assert samples.inputs(batch.index).tolist() == [[[3.0], [4.0], [5.0], [6.0]]]
    assert samples.inputs(batch.index).data_ptr() == samples.stored_inputs[3:].data_ptr()


@given(st.lists(st.integers(1, 9), min_size=1, max_size=3), st.integers(1, 10))
def test_values_are_added_to_the_samples_they_belong_to(sizes: list[int], size: int) -> None:
    samples = samples_of(sizes)
    clients: IntArray = np.argsort(-np.array(sizes), kind="stable")
    total = torch.zeros(len(samples), 1, dtype=torch.float64)
    for batch in samples.in_stored_order(clients, size):
        samples.add_by_sample(total, batch, samples.inputs(batch.index))
    assert total[:, 0].tolist() == list(range(len(samples)))
