from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from datasets import Array2D, ClassLabel, DatasetDict, Features, Image, Value
from datasets import Dataset as HuggingFaceDataset
from PIL import Image as PillowImage
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from federico.data.from_python import dataset_from_clients, new_samples
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
        ({"a": (X, Y / 2), "b": (X, np.c_[Y, Y] / 2)}, "clients: their targets differ in shape"),
        ({"a": (X, Y[:2])}, "client 'a': 3 inputs but 2 targets"),
        ({"a": (X, Y), "b": (X[:0], Y[:0])}, "client 'b': holds no samples"),
        ({"a": (1.0, 2)}, "client 'a': x and y must be arrays with one row per sample"),
        ({"a": None}, r"client 'a': give a pair of arrays \(x, y\)"),
        ({"a": (X, Y, Y)}, r"client 'a': give a pair of arrays \(x, y\)"),
        ({"a": ([[1, 2], [3]], [0, 1])}, r"client 'a': give a pair of arrays \(x, y\)"),
        ({1: (X, Y), "1": (X, Y)}, "2 clients are named '1'"),
        ({"a": (X[:, 0], Y)}, r"of a single column x.reshape\(-1, 1\)"),
        ([(X, Y)], r"part.drop\(columns='owner'\) for name, part in"),
    ],
)
def test_clients_that_do_not_fit_are_named(clients: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        dataset_from_clients(clients)


def test_a_column_of_targets_is_one_target_for_each_sample() -> None:
    dataset = dataset_from_clients({"a": (X, Y[:, None]), "b": (X, Y)})
    assert dataset.schema.task == "classification"
    in_frame = dataset_from_clients({"a": (X, pd.DataFrame({"outcome": Y}))})
    assert in_frame.samples.y.tolist() == Y.tolist()


# Frames.

NORTH = pd.DataFrame(
    {
        "age": [50, None, 70],
        "ward": pd.Categorical(["a", "b", "a"]),
        "smokes": [True, False, True],
        "home": ["city", None, "land"],
        "outcome": ["well", "ill", "well"],
    }
)
SOUTH = NORTH.assign(ward=["c", "a", "c"], outcome="ill")[
    ["outcome", "home", "ward", "smokes", "age"]
]


def test_frames_are_tables_with_the_categories_of_all_clients() -> None:
    dataset = dataset_from_clients({"north": NORTH, "south": SOUTH}, label="outcome")
    columns = {column.name: column.categories for column in dataset.schema.columns}
    assert columns == {
        "age": None,
        "ward": ("a", "b", "c"),
        "smokes": None,
        "home": ("city", "land"),
    }
    assert dataset.schema.label_names == ("ill", "well")
    assert dataset.labels.tolist() == [1, 0, 1, 0, 0, 0]
    gap = np.nan
    np.testing.assert_array_equal(
        dataset.samples.x[[0, 1, 3]],
        [[50, 1, 0, 0, 1, 1, 0], [gap, 0, 1, 0, 0, gap, gap], [50, 0, 0, 1, 1, 1, 0]],
    )


def test_a_frame_and_its_labels_are_the_same_as_a_frame_with_labels() -> None:
    together = dataset_from_clients({"north": NORTH, "south": SOUTH}, label="outcome")
    pairs = {"north": NORTH, "south": SOUTH}
    apart = dataset_from_clients(
        {name: (frame.drop(columns="outcome"), frame["outcome"]) for name, frame in pairs.items()}
    )
    np.testing.assert_array_equal(apart.samples.x, together.samples.x)
    np.testing.assert_array_equal(apart.samples.y, together.samples.y)
    assert apart.schema == together.schema


@pytest.mark.parametrize(
    "labels",
    [
        ["no", "yes", "no"],
        pd.Series(["no", "yes", "no"], dtype="string"),
        pd.Series(pd.Categorical(["no", "yes", "no"], categories=["yes", "no"])),
        np.array(["no", "yes", "no"], dtype=object),
    ],
    ids=["list", "string", "category", "object"],
)
def test_labels_may_be_texts_of_any_kind(labels: Any) -> None:
    dataset = dataset_from_clients({"a": (X, labels)})
    assert dataset.labels.tolist() == [0, 1, 0]
    assert dataset.schema.label_names == ("no", "yes")
    ordered = dataset_from_clients({"a": (X, labels)}, label_names=["yes", "no"])
    assert ordered.labels.tolist() == [1, 0, 1]


def test_new_rows_of_a_frame_are_read_by_the_names_of_columns() -> None:
    schema = dataset_from_clients({"north": NORTH, "south": SOUTH}, label="outcome").schema
    gap = np.nan
    expected = [[50, 2, 1, 0], [gap, 0, 0, gap], [70, 2, 1, 1]]
    np.testing.assert_array_equal(new_samples(SOUTH, schema), expected)
    with pytest.raises(DataError, match=r"x: row 1: column 'ward' holds 'z', known are a, b, c"):
        new_samples(SOUTH.assign(ward=["a", "z", "a"]), schema)
    with pytest.raises(DataError, match="x: no column named 'age'"):
        new_samples(SOUTH.drop(columns="age"), schema)


MANY = pd.DataFrame({"name": [f"patient {k}" for k in range(80)], "y": [0, 1] * 40})


@pytest.mark.parametrize(
    ("clients", "label", "message"),
    [
        (NORTH, "outcome", r"clients: give a dictionary .*groupby"),
        ({"a": NORTH}, None, r"client 'a': say which column .* label=\.\.\.; it has age, ward"),
        ({"a": NORTH}, "sex", "client 'a': no column named 'sex'"),
        ({"a": NORTH, "b": SOUTH.drop(columns="age")}, "outcome", "client 'b': column 'age' is"),
        ({"a": NORTH, "b": (X, Y)}, "outcome", "clients: a gave frames and the others arrays"),
        ({"a": NORTH, "b": SOUTH.assign(age="old")}, "outcome", "numbers at 'a' and texts at 'b'"),
        ({"a": NORTH.assign(outcome=["ill", None, "ill"])}, "outcome", "1 of its 3 labels are mis"),
        ({"a": MANY}, "y", "column 'name' holds 80 different texts in 80 rows"),
        ({"a": NORTH.assign(born=pd.Timestamp("1950-01-01"))}, "outcome", "'born' holds dates"),
        ({"a": "north.csv"}, None, "client 'a': 'north.csv' is a name, not data; load it first"),
        ({"a": DataLoader(TensorDataset(torch.ones(2, 1)))}, None, "give .* loader.dataset"),
        ({"a": TensorDataset(torch.ones(2, 1))}, None, r"must be a pair \(input, target\)"),
    ],
)
def test_frames_that_do_not_fit_are_named(clients: Any, label: str | None, message: str) -> None:
    with pytest.raises(DataError, match=message):
        dataset_from_clients(clients, label=label)


# Data sets of torch and of Hugging Face.


class Stream(IterableDataset[tuple[torch.Tensor, int]]):
    """One that has no length."""

    def __iter__(self) -> Iterator[tuple[torch.Tensor, int]]:
        yield from zip(torch.tensor(X), Y.tolist(), strict=True)


@pytest.mark.parametrize("given", [TensorDataset(torch.tensor(X), torch.tensor(Y)), Stream()])
def test_torch_datasets_are_read_pair_by_pair(given: Any) -> None:
    dataset = dataset_from_clients({"a": given})
    np.testing.assert_array_equal(dataset.samples.x, X)
    assert dataset.labels.tolist() == Y.tolist()
    np.testing.assert_array_equal(new_samples(given, dataset.schema), X)


def test_columns_of_a_hugging_face_dataset_are_a_table() -> None:
    features = Features(
        {"age": Value("int64"), "sex": ClassLabel(names=["f", "m"]), "y": Value("string")}
    )
    content = {"age": [50, 60, 70], "sex": [1, 0, 1], "y": ["ill", "well", "ill"]}
    given = HuggingFaceDataset.from_dict(content, features)
    dataset = dataset_from_clients({"a": given}, label="y")
    assert [column.categories for column in dataset.schema.columns] == [None, ("f", "m")]
    assert dataset.schema.label_names == ("ill", "well")
    np.testing.assert_array_equal(new_samples(given, dataset.schema)[:, 1], [1, 0, 1])
    with pytest.raises(DataError, match=r"choose one split .* of train: data\['train'\]"):
        dataset_from_clients({"a": DatasetDict(train=given)}, label="y")


def test_images_and_arrays_of_a_hugging_face_dataset_are_arrays() -> None:
    pixels = np.arange(2 * 4 * 5 * 3, dtype=np.uint8).reshape(2, 4, 5, 3)
    names = ClassLabel(names=["cat", "dog", "owl"])
    content = {"image": [PillowImage.fromarray(each) for each in pixels], "label": [2, 0]}
    given = HuggingFaceDataset.from_dict(content, Features({"image": Image(), "label": names}))
    dataset = dataset_from_clients({"a": given})
    np.testing.assert_array_equal(dataset.samples.x, pixels.transpose(0, 3, 1, 2))
    assert dataset.schema.label_names == ("cat", "dog", "owl")
    np.testing.assert_array_equal(new_samples(given, dataset.schema), dataset.samples.x)

    grid = Features({"grid": Array2D((2, 2), "float32"), "label": names})
    content = {"grid": np.ones((2, 2, 2), np.float32).tolist(), "label": [1, 1]}
    arrays = dataset_from_clients({"a": HuggingFaceDataset.from_dict(content, grid)})
    assert arrays.samples.x.shape == (2, 2, 2)
