from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from federico.learning import rows as rows_module
from federico.learning.bank import Bank
from federico.learning.layout import ModelLayout
from federico.learning.parts import ModelPart
from federico.learning.rows import Rows, RowStorage
from federico.learning.visits import Visits

CPU = torch.device("cpu")


@pytest.fixture
def layout() -> ModelLayout:
    return ModelLayout(lambda: nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)))


@pytest.fixture
def bank_of_one(layout: ModelLayout) -> Bank:
    return Bank.start(layout, 0, {4: "four"}, CPU)


def test_a_bank_starts_with_the_model_of_each_name_in_order_of_owners(layout: ModelLayout) -> None:
    bank = Bank.start(layout, 7, {4: "d", 1: "a"}, CPU)
    assert bank.owners.tolist() == [1, 4]
    assert torch.equal(bank.rows, torch.stack([layout.initial(7, "a"), layout.initial(7, "d")]))


def test_equal_names_start_from_equal_models(layout: ModelLayout) -> None:
    rows = Bank.start(layout, 0, {0: "*global", 1: "*global", 2: "c"}, CPU).rows
    assert torch.equal(rows[0], rows[1])
    assert not torch.equal(rows[0], rows[2])


def test_owners_of_one_name_cost_one_model() -> None:
    made: list[nn.Module] = []

    def make() -> nn.Module:
        made.append(nn.Linear(2, 3))
        return made[-1]

    layout = ModelLayout(make)
    before = len(made)
    Bank.start(layout, 0, {0: "a", 1: "b", 2: "a", 3: "a"}, CPU)
    assert len(made) - before == 2


def test_models_that_are_not_finite_are_found_by_owner(layout: ModelLayout) -> None:
    bank = Bank.start(layout, 0, {1: "a", 4: "d", 6: "f"}, CPU)
    bank.rows[1, -1] = torch.nan
    bank.rows[2, 0] = torch.inf
    assert bank.are_finite(np.array([6, 1, 4, 1])).tolist() == [False, True, False, True]
    bank.rows.fill_(torch.finfo(bank.rows.dtype).max)
    assert bank.are_finite(np.array([1, 4])).all(), "however large the sum would be"


def test_places_are_found_by_owner(layout: ModelLayout) -> None:
    bank = Bank.start(layout, 0, {1: "a", 4: "d", 6: "f"}, CPU)
    assert bank.places(np.array([6, 1, 6])).tolist() == [2, 0, 2]


@pytest.mark.parametrize("absent", [0, 3, 7])
def test_a_model_that_is_not_here_is_never_mistaken_for_another(
    layout: ModelLayout, absent: int
) -> None:
    bank = Bank.start(layout, 0, {1: "a", 4: "d", 6: "f"}, CPU)
    with pytest.raises(LookupError, match=rf"owners \[{absent}\] are not here.*must pull"):
        bank.places(np.array([4, absent]))


def test_every_model_has_counters_of_its_own(layout: ModelLayout) -> None:
    bank = Bank.start(layout, 0, {0: "a", 1: "b"}, CPU)
    bank.counters[0] += 1
    assert bank.counters.tolist() == [[1], [0]]


def test_many_short_deltas_are_added_as_one_by_one(
    layout: ModelLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows_module, "TOGETHER", 3)
    bank = Bank.start(layout, 0, {0: "a", 1: "b"}, CPU)
    wanted = bank.rows.clone()
    deltas, shares = torch.randn(10, layout.size), np.linspace(0.1, 1, 10)
    owners = np.arange(10) % 2
    for owner, delta, share in zip(owners, deltas, shares, strict=True):
        wanted[owner] += delta * share
    bank.add(owners, Rows.of(deltas), shares)
    torch.testing.assert_close(bank.rows, wanted)


@pytest.mark.parametrize("small", [0, 1 << 14])
def test_only_the_part_named_is_moved(
    layout: ModelLayout, small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows_module, "SMALL", small)
    bank = Bank.start(layout, 0, {0: "a", 1: "b"}, CPU)
    before = bank.rows.clone()
    outside = ModelPart.named(layout, ["0.weight", "1.bias", "1.running_var"])
    deltas = Rows.of(torch.ones(2, layout.size))
    bank.add(np.array([1, 1]), deltas, np.array([0.25, 0.5]), outside)
    wanted = torch.zeros(layout.size)
    wanted[:6] = wanted[12:15] = wanted[18:21] = 0.75
    torch.testing.assert_close(bank.rows - before, torch.stack([torch.zeros_like(wanted), wanted]))


def test_rows_on_disk_are_those_in_memory_with_their_guests(
    layout: ModelLayout, tmp_path: Path
) -> None:
    banks = [
        Bank.start(layout, 0, {1: "a", 4: "d"}, CPU, storage)
        for storage in (RowStorage(), RowStorage(tmp_path))
    ]
    for bank in banks:
        bank.replace_visiting_rows(np.array([2, 0])).copy_(torch.ones(2, layout.size))
        assert bank.rows[bank.places(np.array([0, 2]))].sum() == 2 * layout.size
    assert torch.equal(banks[0].rows, banks[1].rows)
    assert str(tmp_path) in Path("/proc/self/maps").read_text()


def test_a_copy_stays_as_it_was(layout: ModelLayout) -> None:
    bank = Bank.start(layout, 0, {0: "a", 1: "b"}, CPU)
    bank.replace_visiting_rows(np.array([7]))
    copy, before = bank.copy_rows(), bank.hosted_rows.clone()
    bank.rows += 1
    assert torch.equal(copy, before)


def test_a_guest_keeps_its_row_while_others_come(bank_of_one: Bank) -> None:
    bank = bank_of_one
    bank.reserve_visiting_rows(np.array([3, 5]))
    for owner in (3, 5):
        bank.rows[bank.places(np.array([owner]))] = float(owner)
    bank.reserve_visiting_rows(np.array([5, 7]))
    assert bank.rows[bank.places(np.array([5]))].eq(5).all()
    assert sorted(bank.visiting_places) == [5, 7], "the new one got the row of the one not wanted"
    assert len(bank.rows) == 3
    bank.reserve_visiting_rows(np.array([5, 7, 9]))
    assert len(bank.rows) == 4
    assert bank.rows[bank.places(np.array([5]))].eq(5).all(), "growing moves nobody's numbers"


def test_one_not_wanted_now_stays_while_there_is_room(bank_of_one: Bank) -> None:
    bank_of_one.reserve_visiting_rows(np.array([3, 5]))
    bank_of_one.reserve_visiting_rows(np.array([3]))
    assert sorted(bank_of_one.visiting_places) == [3, 5]
    bank_of_one.drop_visiting_row(3)
    bank_of_one.reserve_visiting_rows(np.array([8]))
    assert sorted(bank_of_one.visiting_places) == [5, 8], "the empty row is taken first"


def test_who_is_at_home_is_untouched_by_guests(bank_of_one: Bank) -> None:
    before, counters = bank_of_one.hosted_rows.clone(), bank_of_one.counters.clone()
    bank_of_one.reserve_visiting_rows(np.array([3, 5, 7]))
    bank_of_one.rows[bank_of_one.places(np.array([3, 5, 7]))] = torch.nan
    bank_of_one.drop_visiting_row(5)
    assert torch.equal(bank_of_one.hosted_rows, before)
    assert torch.equal(bank_of_one.counters[:1], counters)
    assert len(bank_of_one.counters) == len(bank_of_one.rows)
    assert bank_of_one.places(np.array([4])).tolist() == [0]


@pytest.mark.parametrize("small", [0, 1 << 14])
def test_deltas_are_differences_to_the_owners_models(
    layout: ModelLayout, small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows_module, "SMALL", small)
    bank = Bank.start(layout, 0, {0: "a", 1: "b"}, CPU)
    trained, deltas = torch.randn(3, layout.size), torch.zeros(5, layout.size)
    wanted = trained - bank.rows[[1, 0, 1]]
    bank.write_deltas(
        Visits.to_own(np.array([1, 0, 1])), trained, Rows.of(deltas), np.array([4, 0, 2])
    )
    torch.testing.assert_close(deltas[[4, 0, 2]], wanted)
    assert deltas[[1, 3]].eq(0).all()
