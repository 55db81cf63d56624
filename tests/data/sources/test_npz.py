from pathlib import Path

import numpy as np
import pytest

from federico.data.dataset import Dataset
from federico.data.sources import Npz
from federico.errors import DataError
from federico.types import Array, Task

X = np.arange(6.0).reshape(3, 2)
Y = np.array([0, 2, 1])


def load(
    folder: Path,
    task: Task | None = None,
    client: str | None = None,
    labels: str | None = None,
    **arrays: Array,
) -> Dataset:
    np.savez(folder / "a.npz", **arrays)
    return Npz(path=Path("a.npz"), task=task, client=client, labels=labels).load(folder, 0)


def test_whole_numbers_mean_classes(tmp_path: Path) -> None:
    dataset = load(tmp_path, x=X, y=Y.astype(np.uint8))
    assert (dataset.schema.task, dataset.schema.label_names) == ("classification", ("0", "1", "2"))
    assert dataset.samples.y.dtype == np.int64


def test_other_numbers_mean_values(tmp_path: Path) -> None:
    dataset = load(tmp_path, x=X, y=Y / 2)
    assert (dataset.schema.task, dataset.schema.outputs, dataset.samples.y.shape) == (
        "regression",
        1,
        (3, 1),
    )


def test_a_stated_task_wins(tmp_path: Path) -> None:
    assert load(tmp_path, "regression", x=X, y=Y).samples.y.dtype == np.float64
    assert load(tmp_path, "classification", x=X, y=Y.astype(float)).labels.tolist() == [0, 2, 1]


def test_owners_and_names_come_from_their_arrays(tmp_path: Path) -> None:
    dataset = load(
        tmp_path,
        client="who",
        labels="what",
        x=X,
        y=Y,
        who=np.array([7, 8, 7]),
        what=np.array(list("abcd")),
    )
    assert dataset.owners is not None
    assert dataset.owners.tolist() == ["7", "8", "7"]
    assert dataset.schema.label_names == ("a", "b", "c", "d")


@pytest.mark.parametrize(
    ("x", "dtype"),
    [
        (np.zeros((3, 1, 4, 4), np.uint8), np.uint8),
        (np.zeros((3, 4), np.uint8), np.float32),
        (np.zeros((3, 4), np.float16), np.float32),
        (np.zeros((3, 4), np.float64), np.float64),
        (np.zeros((3, 4), ">f8"), np.float64),
    ],
)
def test_types_models_take(tmp_path: Path, x: Array, dtype: type) -> None:
    assert load(tmp_path, x=x, y=Y).samples.x.dtype == dtype


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (np.array(["a", "b", "c"]), Y, "inputs must be numbers with one row per sample"),
        (np.arange(3.0), Y, "inputs must be numbers with one row per sample"),
        (X, Y - 1, "labels run from -1 to 1"),
        (X[:2], Y, "2 inputs but 3 targets"),
        (np.full((3, 2), np.nan), Y, "infinite or missing"),
        (
            X,
            np.array(["a", "b", "c"]),
            "targets must be an array of numbers, not <U1: number the classes from 0",
        ),
        (X, np.array(1), "targets must be an array of numbers"),
        (X[:0], Y[:0], "holds no samples"),
        (X[:0], X[:0, 0], "holds no samples"),
        (X[:, :0], Y, "nothing to learn from"),
        (X, X[:, :0], "targets must be numbers of shape"),
        (X, np.array([0.5, np.nan, 1]), "targets hold infinite or missing"),
    ],
)
def test_unusable_arrays_are_refused(tmp_path: Path, x: Array, y: Array, message: str) -> None:
    with pytest.raises(DataError, match=rf"a\.npz: .*{message}"):
        load(tmp_path, x=x, y=y)


@pytest.mark.parametrize("y", [Y / 2, np.array([0, 1, np.nan]), np.array([0, 1, np.inf])])
def test_fractions_are_no_classes(tmp_path: Path, y: Array) -> None:
    with pytest.raises(DataError, match=r"a\.npz: labels must be class numbers"):
        load(tmp_path, "classification", x=X, y=y)


def test_more_labels_than_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"labels run from 0 to 2: they must lie in 0\.\.1"):
        load(tmp_path, labels="what", x=X, y=Y, what=np.array(["a", "b"]))


def test_a_huge_class_number_is_refused_before_anything_is_made_of_it(tmp_path: Path) -> None:
    np.savez(tmp_path / "ids.npz", x=np.zeros((3, 2)), y=np.array([0, 1, 200_000_000]))
    with pytest.raises(DataError, match="class number 200000000: number the classes from 0"):
        Npz(path=Path("ids.npz")).load(tmp_path, 0)


@pytest.mark.parametrize("option", ["client", "labels"])
@pytest.mark.parametrize(
    ("names", "message"),
    [
        (np.array("a"), r"array 'names' has shape \(\): it must be a list of names"),
        (np.full((3, 2), "a"), r"array 'names' has shape \(3, 2\)"),
        (np.array([1, np.nan, 2]), "array 'names' holds missing values"),
        (np.array([b"a", b"b", b"\xff"]), "array 'names' must hold texts, not bytes"),
    ],
)
def test_names_are_a_list_of_texts(tmp_path: Path, option: str, names: Array, message: str) -> None:
    with pytest.raises(DataError, match=rf"a\.npz: {message}"):
        load(tmp_path, x=X, y=Y, names=names, **{option: "names"})


def test_names_may_be_stored_as_bytes(tmp_path: Path) -> None:
    dataset = load(tmp_path, labels="names", x=X, y=Y, names=np.array([b"a", b"b", b"c"]))
    assert dataset.schema.label_names == ("a", "b", "c")


def test_two_classes_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="2 classes are named 'a'"):
        load(tmp_path, labels="names", x=X, y=Y, names=np.array(["a", "b", "a"]))
