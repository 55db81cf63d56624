from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from federico.data.dataset import Dataset, Samples, Schema
from federico.data.partition import Iid, Partition
from federico.data.split import TrainTestSplit, make_clients, train_test_split, warnings_for
from federico.errors import DataError

TWO = Partition(("b", "a"), (np.arange(6), np.arange(6, 12)), (1, 0))


@given(st.integers(2, 60), st.floats(0, 1), st.integers(0, 2**32))
def test_train_and_test_share_nothing_and_leave_nothing(
    samples: int, fraction: float, seed: int
) -> None:
    split = train_test_split(
        Iid(clients=1).cut(np.zeros(samples, int), None, 0), test_fraction=fraction, seed=seed
    )
    (train,), (test,) = split.train, split.test
    assert sorted([*train, *test]) == list(range(samples))
    assert len(train) >= 1
    assert len(test) >= 1


def test_the_split_is_eighty_to_twenty_by_default() -> None:
    split = train_test_split(Iid(clients=2).cut(np.zeros(200, int), None, 0), seed=0)
    assert [
        (len(train), len(test)) for train, test in zip(split.train, split.test, strict=True)
    ] == [(80, 20)] * 2


def test_clients_are_sorted_with_all_that_is_theirs() -> None:
    split = train_test_split(TWO, seed=0)
    assert split.ids == ("a", "b")
    assert split.distribution == (0, 1)
    assert sorted([*split.train[0], *split.test[0]]) == list(range(6, 12))


def test_a_split_depends_on_seed_and_name_alone() -> None:
    alone = train_test_split(Partition(("a",), (np.arange(6, 12),)), seed=0)
    np.testing.assert_array_equal(alone.train[0], train_test_split(TWO, seed=0).train[0])
    assert train_test_split(TWO, seed=0).hash == train_test_split(TWO, seed=0).hash
    assert train_test_split(TWO, seed=0).hash != train_test_split(TWO, seed=1).hash


def test_less_training_data_leaves_the_test_part_whole() -> None:
    full, few = train_test_split(TWO, seed=0), train_test_split(TWO, max_train=2, seed=0)
    assert [len(train) for train in few.train] == [2, 2]
    assert set(few.train[0]) < set(full.train[0])
    np.testing.assert_array_equal(few.test[0], full.test[0])


def test_validation_takes_from_the_training_part_and_the_test_part_is_not_looked_at() -> None:
    full = train_test_split(TWO, max_train=4, seed=0)
    held = train_test_split(TWO, max_train=4, validation_fraction=0.5, seed=0)
    for train, test, fewer, validation in zip(
        full.train, full.test, held.train, held.test, strict=True
    ):
        assert sorted([*fewer, *validation]) == sorted(train)
        assert not set(test) & {*fewer, *validation}
        assert len(validation) == 2


def test_a_client_that_has_nothing_to_validate_on_is_named() -> None:
    with pytest.raises(
        DataError, match="client 'poor' has one training sample: to hold a part out"
    ):
        train_test_split(Partition(("poor",), (np.arange(2),)), validation_fraction=0.2, seed=0)


@pytest.mark.parametrize("count", [0, 1])
def test_a_client_with_too_little_is_named(count: int) -> None:
    with pytest.raises(DataError, match=f"client 'poor' has {count} samples: it needs at least 2"):
        train_test_split(Partition(("poor",), (np.arange(count),)), seed=0)


@pytest.mark.parametrize("distribution", [(1, 0), None])
def test_a_split_survives_the_disk(tmp_path: Path, distribution: tuple[int, ...] | None) -> None:
    split = train_test_split(Partition(TWO.ids, TWO.indices, distribution), seed=0)
    split.save(tmp_path / "split.npz")
    again = TrainTestSplit.load(tmp_path / "split.npz")
    assert (again.hash, again.ids, again.distribution) == (
        split.hash,
        split.ids,
        split.distribution,
    )


def test_a_damaged_split_is_named(tmp_path: Path) -> None:
    (tmp_path / "split.npz").write_bytes(b"nothing")
    with pytest.raises(DataError, match=r"split\.npz: not a readable npz"):
        TrainTestSplit.load(tmp_path / "split.npz")


def test_clients_of_one_name_are_refused() -> None:
    with pytest.raises(DataError, match="2 clients are named 'a'"):
        TrainTestSplit(("a", "a"), TWO.indices, TWO.indices)


def test_clients_hold_their_samples_and_nothing_else() -> None:
    dataset = Dataset(
        Samples(np.arange(12.0)[:, None], np.arange(12) % 3), Schema("classification", (1,), 3)
    )
    split = train_test_split(TWO, seed=0)
    for client, train, test in zip(
        make_clients(dataset, split), split.train, split.test, strict=True
    ):
        np.testing.assert_array_equal(client.train.x[:, 0], train)
        np.testing.assert_array_equal(client.test.x[:, 0], test)
        np.testing.assert_array_equal(client.train.y, train % 3)
        assert client.standardizer is None


def test_a_split_of_other_data_is_refused(numbers_table: Dataset) -> None:
    split = train_test_split(Partition(("a",), (np.arange(13),)), seed=0)
    with pytest.raises(DataError, match="client 'a' has samples beyond the 12 of the data"):
        make_clients(numbers_table, split)


def test_tables_are_standardised_by_the_owners_training_part(numbers_table: Dataset) -> None:
    split = train_test_split(TWO, seed=0)
    for client, train, test in zip(
        make_clients(numbers_table, split), split.train, split.test, strict=True
    ):
        raw = numbers_table.samples.x[:, 0]
        expected = (raw[test] - raw[train].mean()) / raw[train].std()
        np.testing.assert_allclose(client.test.x[:, 0], expected)
        np.testing.assert_allclose(client.train.x.mean(axis=0), 0, atol=1e-12)
        assert not np.isnan(client.train.x).any()
        assert client.standardizer is not None
        np.testing.assert_array_equal(
            client.standardizer(numbers_table.samples.x[test]), client.test.x
        )


def test_few_samples_for_many_classes_are_warned_of() -> None:
    schema = Schema("classification", (1,), 10)
    dataset = Dataset(Samples(np.zeros((40, 1)), np.arange(40) % 10), schema)
    found = make_clients(
        dataset, train_test_split(Iid(clients=4).cut(dataset.labels, None, 0), max_train=7, seed=0)
    )
    assert warnings_for(found, schema) == [
        "4 of 4 clients have only 7 training samples for 10 classes: '0', '1', '2', '3'"
    ]
    assert warnings_for(found[:1], schema) == ["client '0' has 7 training samples for 10 classes"]
    assert warnings_for(found, Schema("classification", (1,), 7)) == []
    assert warnings_for(found, Schema("regression", (1,), 10)) == []
