from pathlib import Path

import numpy as np
import pytest

from federico.data.dataset import Dataset
from federico.data.fixed_split import marked_for_testing
from federico.data.partition import Partition, subsample
from federico.data.sources import Npz, Table
from federico.data.split import train_test_split
from federico.errors import DataError
from federico.types import Array

MARKS = np.array([True, False, False, True, False, False])
ROWS = ["a,label,part,who", "1,x,train,n", "2,y,test,n", ",x,1,s", "4,y,0,s"]


def npz(folder: Path, marks: Array) -> Dataset:
    count = len(marks)
    x = np.arange(2.0 * count).reshape(count, 2)
    np.savez(folder / "a.npz", x=x, y=np.arange(count) % 2, part=marks)
    return Npz(path=Path("a.npz"), test="part").load(folder, 0)


def table(folder: Path, **options: object) -> Dataset:
    (folder / "a.csv").write_text("\n".join(ROWS) + "\n")
    given = {"path": "a.csv", "label": "label", "client": "who", "test": "part", **options}
    return Table.model_validate(given).load(folder, 0)


@pytest.mark.parametrize(
    "marks",
    [MARKS, MARKS.astype(int), np.where(MARKS, "test", "train"), np.where(MARKS, "Yes", "no")],
)
def test_an_array_says_what_each_sample_is_for(tmp_path: Path, marks: Array) -> None:
    found = npz(tmp_path, marks).is_test
    assert found is not None
    assert found.tolist() == MARKS.tolist()


def test_a_column_says_what_each_row_is_for_and_is_no_input(tmp_path: Path) -> None:
    dataset = table(tmp_path)
    assert dataset.is_test is not None
    assert dataset.is_test.tolist() == [False, True, True, False]
    assert [column.name for column in dataset.schema.columns] == ["a"]


def test_rows_with_gaps_can_be_left_out_with_their_marks_and_owners(tmp_path: Path) -> None:
    dataset = table(tmp_path, incomplete="drop")
    assert dataset.samples.x[:, 0].tolist() == [1, 2, 4]
    assert dataset.is_test is not None
    assert dataset.is_test.tolist() == [False, True, False]
    assert dataset.owners is not None
    assert dataset.owners.tolist() == ["n", "n", "s"]


def test_a_table_without_a_complete_row_is_refused(tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_text("a,b,label\n1,,x\n,2,y\n")
    with pytest.raises(DataError, match=r"b.csv: no row is complete: set incomplete to fill"):
        Table(path=Path("b.csv"), label="label", incomplete="drop").load(tmp_path, 0)


def test_every_client_tests_on_the_marked_samples_whatever_the_seed() -> None:
    partition = Partition(("a", "b"), (np.array([0, 1, 2]), np.array([3, 4, 5])))
    for seed in range(3):
        split = train_test_split(partition, test_fraction=0.9, is_test=MARKS, seed=seed)
        assert [part.tolist() for part in split.train] == [[1, 2], [4, 5]]
        assert [part.tolist() for part in split.test] == [[0], [3]]


def test_training_samples_can_be_fewer_than_are_marked() -> None:
    marks = np.arange(40) >= 30
    partition = Partition(("a",), (np.arange(40),))
    drawn = [train_test_split(partition, max_train=5, is_test=marks, seed=s) for s in range(2)]
    assert [len(split.train[0]) for split in drawn] == [5, 5]
    assert drawn[0].train[0].tolist() != drawn[1].train[0].tolist()


@pytest.mark.parametrize(("mark", "missing"), [(True, "train"), (False, "test")])
def test_a_client_needs_samples_of_both_kinds(mark: bool, missing: str) -> None:
    marks = np.full(3, mark)
    with pytest.raises(DataError, match=f"client 'a' has no sample marked to {missing} on"):
        train_test_split(Partition(("a",), (np.arange(3),)), is_test=marks, seed=0)


def test_other_marks_are_refused() -> None:
    with pytest.raises(DataError, match=r"a.csv: 'part' holds 'maybe': mark samples to test on"):
        marked_for_testing(np.array(["test", "maybe"]), "a.csv", "part")


def test_marks_must_be_as_many_as_samples(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros((3, 2)), y=np.zeros(3, int), part=np.array([0, 1]))
    with pytest.raises(DataError, match="holds 3 inputs but 2 marks for testing"):
        Npz(path=Path("a.npz"), test="part").load(tmp_path, 0)


def test_fewer_samples_keep_their_marks(tmp_path: Path) -> None:
    dataset = npz(tmp_path, MARKS)
    few = subsample(dataset, 4, 0)
    assert few.is_test is not None
    kept = (few.samples.x[:, 0] / 2).astype(int)
    assert few.is_test.tolist() == MARKS[kept].tolist()
