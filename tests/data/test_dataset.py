import numpy as np
import pytest

from federico.data.dataset import Dataset, Samples, Schema, checked
from federico.errors import DataError
from federico.types import Array

CLASSES = Schema("classification", (2,), 3, ("a", "b", "c"))
VALUES = Schema("regression", (2,), 1)
X = np.zeros((3, 2))
Y = np.array([0, 1, 2])


def test_sound_data_passes_untouched() -> None:
    dataset = Dataset(Samples(X, Y), CLASSES)
    assert checked(dataset, "here") is dataset


@pytest.mark.parametrize(
    ("x", "y", "schema", "message"),
    [
        (X[:0], Y[:0], CLASSES, "holds no samples"),
        (X, Y[:2], CLASSES, "3 inputs but 2 targets"),
        (np.full((3, 2), np.nan), Y, CLASSES, "infinite or missing"),
        (np.full((3, 2), np.inf), Y, CLASSES, "infinite or missing"),
        (X, Y + 1, CLASSES, r"from 1 to 3: they must lie in 0\.\.2"),
        (X, Y - 1, CLASSES, r"from -1 to 1: they must lie in 0\.\.2"),
        (X, Y / 2, CLASSES, "one class number for each sample"),
        (X, X[:, 0], VALUES, "targets must be numbers of shape"),
        (X, np.full((3, 1), np.nan), VALUES, "targets hold infinite or missing"),
    ],
)
def test_every_fault_names_the_origin(x: Array, y: Array, schema: Schema, message: str) -> None:
    with pytest.raises(DataError, match=f"^here: .*{message}"):
        checked(Dataset(Samples(x, y), schema), "here")


def test_owners_must_match_the_samples() -> None:
    with pytest.raises(DataError, match="3 inputs but 2 client names"):
        checked(Dataset(Samples(X, Y), CLASSES, np.array(["a", "b"])), "here")


def test_gaps_pass_only_where_allowed() -> None:
    dataset = Dataset(Samples(np.full((3, 2), np.nan), Y), CLASSES)
    assert checked(dataset, "here", allow_missing=True) is dataset
    with pytest.raises(DataError, match="infinite"):
        checked(Dataset(Samples(np.full((3, 2), np.inf), Y), CLASSES), "here", allow_missing=True)
