from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from federico.algorithm.aggregation import Buffers
from federico.exchange.protocol import Updates
from federico.learning.bank import Bank
from federico.learning.layout import ModelLayout
from federico.learning.rows import RowFile, Rows, RowsInFiles
from federico.methods.averaging import average_into, compare_with_own, finite

Coefficients = dict[tuple[int, int], float]


def updates_of(coefficients: Coefficients, rows: torch.Tensor | None = None) -> Updates:
    owners, contributors = np.array(list(coefficients), dtype=np.int64).reshape(-1, 2).T
    rows = torch.zeros(len(owners), 1) if rows is None else rows
    return Updates(
        owners, contributors, np.array(list(coefficients.values()), dtype=np.float64), Rows.of(rows)
    )


def test_updates_that_hold_no_numbers_are_as_good_as_never_sent() -> None:
    rows = torch.tensor([[1.0, 2.0], [1.0, torch.nan], [torch.inf, 2.0], [3.0, 4.0]])
    kept = finite(updates_of({(0, 0): 1.0, (0, 1): 2.0, (1, 0): 3.0, (1, 1): 4.0}, rows))
    assert kept.coefficients.tolist() == [1.0, 4.0]
    assert kept.rows.as_tensor().tolist() == [[1.0, 2.0], [3.0, 4.0]]


@pytest.fixture
def bank() -> Bank:
    """Three models of two parameters and two statistics."""
    layout = ModelLayout(lambda: nn.BatchNorm1d(1), torch.float64)
    return Bank(layout, np.array([0, 1, 2]), torch.zeros(3, 4, dtype=torch.float64))


DELTAS = torch.tensor([[1.0, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]], dtype=torch.float64)
RECEIVED = {(0, 0): 1.0, (0, 2): 3.0, (2, 0): 5.0}


def test_models_move_by_the_weighted_average_and_not_at_all_without_updates(bank: Bank) -> None:
    average_into(bank, updates_of(RECEIVED, DELTAS))
    assert bank.rows.tolist() == [[4, 5, 6, 7], [0, 0, 0, 0], [9, 10, 11, 12]]


def test_a_spoiled_update_is_left_out_of_the_average(bank: Bank) -> None:
    deltas = DELTAS.clone()
    deltas[1, 0] = torch.nan
    average_into(bank, updates_of(RECEIVED, deltas))
    assert bank.rows.tolist() == [[1, 2, 3, 4], [0, 0, 0, 0], [9, 10, 11, 12]]


def test_an_anchor_holds_a_model_to_its_owner(bank: Bank) -> None:
    average_into(bank, updates_of(RECEIVED, DELTAS), anchor=0.75)
    assert bank.rows[0].tolist() == [2, 3, 4, 5]
    assert bank.rows[2].tolist() == [9, 10, 11, 12]


@pytest.mark.parametrize(
    ("buffers", "statistics"),
    [
        ("average", [[6, 7], [0, 0], [11, 12]]),
        ("owner", [[3, 4], [0, 0], [0, 0]]),
        ("frozen", [[0, 0]] * 3),
    ],
)
def test_statistics_are_averaged_left_to_the_owner_or_frozen(
    bank: Bank, buffers: Buffers, statistics: list[list[int]]
) -> None:
    average_into(bank, updates_of(RECEIVED, DELTAS), buffers=buffers)
    assert bank.rows[:, :2].tolist() == [[4, 5], [0, 0], [9, 10]]
    assert bank.rows[:, 2:].tolist() == statistics


def test_a_full_anchor_leaves_a_model_and_its_statistics_to_the_owner(bank: Bank) -> None:
    average_into(bank, updates_of(RECEIVED, DELTAS), anchor=1.0, buffers="owner")
    assert bank.rows[0].tolist() == [1, 2, 3, 4]


def test_no_updates_move_nothing(bank: Bank) -> None:
    average_into(bank, updates_of({}, torch.empty(0, 4, dtype=torch.float64)))
    assert bank.rows.abs().sum() == 0


@pytest.mark.parametrize("buffers", ["average", "owner", "frozen"])
def test_rows_one_by_one_are_averaged_like_rows_side_by_side(buffers: Buffers) -> None:
    layout = ModelLayout(lambda: nn.Sequential(nn.Linear(200, 100), nn.BatchNorm1d(100)))
    rows = torch.randn(4, layout.size, generator=torch.Generator().manual_seed(0))
    rows[2, 7] = torch.inf
    averaged, cut = torch.stack([rows[0] / 4 + rows[1] * 3 / 4, rows[3]]), layout.parameters
    tail = {
        "average": averaged[:, cut:],
        "owner": rows[[0, 3], cut:],
        "frozen": torch.zeros(2, layout.size - cut),
    }
    expected = torch.cat([averaged[:, :cut], tail[buffers]], 1)
    results = []
    for shown in (Rows.of(rows), RowsInFiles([RowFile.of(row.numpy()) for row in rows])):
        bank = Bank.start(layout, 0, {0: "a", 1: "b"}, torch.device("cpu"))
        start = bank.rows.clone()
        updates = updates_of({(0, 0): 1.0, (0, 1): 3.0, (1, 0): 1.0, (1, 1): 2.0}, rows)
        average_into(bank, replace(updates, rows=shown), buffers=buffers)
        torch.testing.assert_close(bank.rows - start, expected)
        results.append(bank.rows)
    assert torch.equal(*results)


def test_updates_are_compared_with_what_the_owner_sends_itself() -> None:
    coefficients = {(0, 0): 1.0, (0, 1): 1.0, (1, 0): 1.0, (2, 0): 1.0, (2, 2): 1.0}
    rows = torch.tensor([[3.0, 4.0], [-3.0, -4.0], [1.0, 0.0], [3e30, 4e30], [0.0, 0.0]])
    compared = compare_with_own(updates_of(coefficients, rows))
    assert compared.own_lengths.tolist() == [5.0, 5.0, 0.0, 0.0, 0.0]
    assert compared.distances[:2].tolist() == [0.0, 10.0]
    assert compared.distances[2] == np.inf, "the owner itself does not move its model"
    assert compared.distances[3:].tolist() == pytest.approx([5e30, 0.0])
