from typing import Any

import numpy as np
import pytest

from federico.data.arrays import dataset_from_clients
from federico.errors import DataError

X = np.arange(6.0).reshape(3, 2)
Y = np.array([0, 2, 1])


def test_clients_own_their_samples_in_the_order_given() -> None:
    dataset = dataset_from_clients({"b": (X, Y), "a": (X[:1], Y[:1])}, label_names=["x", "y", "z"])
    assert dataset.owners is not None
    assert dataset.owners.tolist() == ["b", "b", "b", "a"]
    np.testing.assert_array_equal(dataset.samples.x, [*X, X[0]])
    assert dataset.labels.tolist() == [0, 2, 1, 0]
    assert dataset.schema.label_names == ("x", "y", "z")


@pytest.mark.parametrize(
    ("clients", "message"),
    [
        ({}, "clients: there are none"),
        ({"a": (X, Y), "b": (X[:, :1], Y)}, "clients: their inputs differ in shape"),
        ({"a": (X, Y / 2), "b": (X, Y[:, None] / 2)}, "clients: their targets differ in shape"),
        ({"a": (X, Y[:2])}, "client 'a': 3 inputs but 2 targets"),
        ({"a": (X, Y), "b": (X[:0], Y[:0])}, "client 'b': holds no samples"),
        ({"a": (1.0, 2)}, "client 'a': x and y must be arrays with one row per sample"),
        ({"a": None}, r"client 'a': give a pair of arrays \(x, y\)"),
        ({"a": (X, Y, Y)}, r"client 'a': give a pair of arrays \(x, y\)"),
        ({"a": ([[1, 2], [3]], [0, 1])}, r"client 'a': give a pair of arrays \(x, y\)"),
        ({1: (X, Y), "1": (X, Y)}, "2 clients are named '1'"),
    ],
)
def test_clients_that_do_not_fit_are_named(clients: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        dataset_from_clients(clients)
