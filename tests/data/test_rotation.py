import numpy as np
import pytest

from federico.data.dataset import Dataset, Samples, Schema, TableColumn
from federico.data.partition import Iid, Partition, Rotated
from federico.data.rotation import turned
from federico.errors import ConfigError


def images(count: int, *shape: int) -> Dataset:
    x = np.arange(count * int(np.prod(shape)), dtype=np.float32).reshape(count, *shape)
    y = np.zeros(count, dtype=np.int64)
    return Dataset(Samples(x, y), Schema("classification", shape, 2, ("a", "b")))


def test_each_client_sees_its_images_turned_by_its_angle() -> None:
    dataset = images(3, 4)
    partition = Partition(("a", "b"), (np.array([0, 2]), np.array([1])), quarter_turns=(0, 1))
    found = turned(dataset, partition)
    np.testing.assert_array_equal(found.samples.x[[0, 2]], dataset.samples.x[[0, 2]])
    # 4 5      5 7
    # 6 7  ->  4 6, a quarter turn to the left.
    assert found.samples.x[1].tolist() == [5, 7, 4, 6]
    assert dataset.samples.x[1].tolist() == [4, 5, 6, 7]


def test_colour_planes_are_turned_one_by_one() -> None:
    dataset = images(2, 3, 5, 5)
    partition = Partition(("a",), (np.arange(2),), quarter_turns=(3,))
    expected = np.rot90(dataset.samples.x, 3, axes=(2, 3))
    np.testing.assert_array_equal(turned(dataset, partition).samples.x, expected)


@pytest.mark.parametrize("rotations", [2, 3, 4])
def test_angles_go_round_the_clients_and_are_their_distributions(rotations: int) -> None:
    partition = Rotated(clients=6, rotations=rotations).cut(np.zeros(60, int), None, 0)
    assert partition.quarter_turns == tuple(client % rotations for client in range(6))
    assert partition.distribution == partition.quarter_turns
    assert sorted(np.concatenate(partition.indices)) == list(range(60))


def test_other_partitions_turn_nothing() -> None:
    dataset = images(8, 4)
    assert turned(dataset, Iid(clients=2).cut(dataset.labels, None, 0)) is dataset


@pytest.mark.parametrize("shape", [(5,), (3, 4, 5)])
def test_what_is_not_square_is_refused(shape: tuple[int, ...]) -> None:
    partition = Rotated(clients=2).cut(np.zeros(4, int), None, 0)
    with pytest.raises(ConfigError, match=r"partition.kind = 'rotated': inputs of shape"):
        turned(images(4, *shape), partition)


def test_a_table_is_no_image() -> None:
    x = np.zeros((4, 4))
    columns = tuple(TableColumn(name) for name in "abcd")
    schema = Schema("classification", (4,), 2, ("no", "yes"), columns)
    dataset = Dataset(Samples(x, np.zeros(4, dtype=np.int64)), schema)
    with pytest.raises(ConfigError, match="not square images"):
        turned(dataset, Rotated(clients=2).cut(dataset.labels, None, 0))
