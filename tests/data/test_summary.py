"""What is said of data before anything trains."""

from pathlib import Path

import numpy as np

from federico.data.dataset import Dataset
from federico.data.from_python import dataset_from_clients
from federico.data.sources.table import Table
from federico.data.split import TrainTestSplit
from federico.data.summary import DataSummary, summarize_data

ROWS = """\
id,place,age,temp,empty,same,site,outcome
1,home,30,1.5,,1,north,well
2,home ,31,2.1,,1,north,ill
3,Home,29,2.5,,1,north,well
4,ward,33,,,1,south,Ill
5,ward,38,,,1,south,well
"""


def halves(dataset: Dataset) -> TrainTestSplit:
    """North trains on the first three samples, south on the next; the last is for testing."""
    parts = (np.arange(0, 3), np.arange(3, len(dataset) - 1))
    tests = (np.arange(0), np.arange(len(dataset) - 1, len(dataset)))
    return TrainTestSplit(("north", "south"), parts, tests)


def summary_of_table(folder: Path) -> DataSummary:
    (folder / "t.csv").write_text(ROWS)
    table = Table(
        kind="table", path=Path("t.csv"), label="outcome", categorical=("place",), ignore=("site",)
    )
    dataset = table.load(folder, seed=0)
    return summarize_data(dataset, halves(dataset))


def test_rows_clients_classes_columns_and_gaps_are_named(tmp_path: Path) -> None:
    facts = summary_of_table(tmp_path).facts
    assert facts["data"] == "5 rows of 2 clients (north: 3, south: 2); 4 to train on, 1 to test on"
    assert facts["target"] == "3 classes: well (60 %), Ill (20 %), ill (20 %)"
    assert facts["inputs"] == "6 columns, 1 of them categories (place)"
    assert facts["gaps"] == "empty (100 %), temp (40 %)"


def test_what_is_odd_is_named_with_what_to_do(tmp_path: Path) -> None:
    odd = "\n".join(summary_of_table(tmp_path).odd)
    assert "classes that differ only in capitals or spaces: 'Ill', 'ill'" in odd
    assert "categories of 'place' that differ only in capitals or spaces: 'Home', 'home'" in odd
    assert "classes with a single sample: 'Ill', 'ill'" in odd
    assert "column 'id' numbers the rows: name it in 'id'" in odd
    assert "column 'empty' has no value at all: name it in 'ignore'" in odd
    assert "column 'same' has the same value in every row" in odd
    assert "column 'temp' has no value to train on at south" in odd
    assert "'age'" not in odd


def test_categories_that_look_like_a_gap_are_named(tmp_path: Path) -> None:
    table = tmp_path / "wards.csv"
    table.write_text("ward,age,ill\nsurgery,30,no\nN/A,31,yes\n-,32,no\nmedicine,33,yes\n")
    dataset = Table(path=table, label="ill", categorical=["ward"]).load(tmp_path, 0)
    parts = TrainTestSplit(("a",), (np.array([0, 1]),), (np.array([2, 3]),))
    odd = summarize_data(dataset, parts).odd
    assert (
        "categories of 'ward' that look like a missing value: '-', 'N/A': if so, name them in "
        "'missing'"
    ) in odd


def test_spaces_that_were_removed_are_said(tmp_path: Path) -> None:
    notes = summary_of_table(tmp_path).notes
    assert notes == (
        "column 'place': spaces at the end were removed in 1 row, such as 'home ' -> 'home'",
    )
    assert "note: column 'place'" in "\n".join(summary_of_table(tmp_path).lines)


def test_rows_that_every_client_numbers_anew_are_found(tmp_path: Path) -> None:
    rows = [f"{k},{number},{number % 2}" for k in "ab" for number in range(1, 6)]
    (tmp_path / "t.csv").write_text("\n".join(["site,visit,y", *rows]))
    table = Table(kind="table", path=Path("t.csv"), label="y", client="site")
    dataset = table.load(tmp_path, seed=0)
    parts = (np.arange(0, 4), np.arange(5, 9))
    tests = (np.array([4]), np.array([9]))
    odd = summarize_data(dataset, TrainTestSplit(("a", "b"), parts, tests)).odd
    assert "column 'visit' numbers the rows of each client: name it in 'id'" in odd


def test_arrays_with_an_odd_label(tmp_path: Path) -> None:
    x = np.ones((4, 3))
    clients = {"north": (x, np.array([0, 1, 0, 1])), "south": (x, np.array([2, 2, 0, 1]))}
    dataset = dataset_from_clients(clients, label_names=["home ", "ward", "home"])
    summary = summarize_data(dataset, halves(dataset))
    assert summary.facts["inputs"] == "3 numbers"
    assert summary.odd == ("classes that differ only in capitals or spaces: 'home ', 'home'",)


def test_values_have_a_range() -> None:
    clients = {"north": (np.ones((5, 2)), np.array([0.5, 1.0, 2.0, 3.0, 3.5]))}
    dataset = dataset_from_clients(clients)
    summary = summarize_data(dataset, halves(dataset))
    assert summary.facts["target"] == "values from 0.5 to 3.5, mean 2"
    assert summary.odd == ()
