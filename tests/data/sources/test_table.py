from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError

from federico.data.dataset import TableColumn
from federico.data.partition import Natural
from federico.data.sources import Table
from federico.data.split import make_clients, train_test_split
from federico.errors import DataError

HEART = (
    "age",
    "sex",
    "cp",
    "trestbps",
    "chol",
    "fbs",
    "restecg",
    "thalach",
    "exang",
    "oldpeak",
    "slope",
    "ca",
    "thal",
    "num",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "north.csv").write_text("age,sex,site,ill\n40,m,1,yes\n?,f,2,no\n")
    (tmp_path / "south.csv").write_text("ill,sex,age,site\nno,x,60,2\n")
    return tmp_path


def test_one_file_with_a_client_column(folder: Path) -> None:
    dataset = Table(path="north.csv", label="ill", client="site", categorical=["sex"]).load(
        folder, 0
    )
    np.testing.assert_array_equal(dataset.samples.x, [[40, 0, 1], [np.nan, 1, 0]])
    assert dataset.schema.columns == (TableColumn("age"), TableColumn("sex", ("f", "m")))
    assert dataset.schema.label_names == ("no", "yes")
    assert dataset.labels.tolist() == [1, 0]
    assert dataset.owners is not None
    assert dataset.owners.tolist() == ["1", "2"]


def test_several_files_share_columns_by_name_and_own_their_rows(folder: Path) -> None:
    table = Table(
        path=["north.csv", "south.csv"], label="ill", categorical=["sex"], ignore=["site"]
    )
    dataset = table.load(folder, 0)
    np.testing.assert_array_equal(
        dataset.samples.x, [[40, 0, 1, 0], [np.nan, 1, 0, 0], [60, 0, 0, 1]]
    )
    assert dataset.owners is not None
    assert dataset.owners.tolist() == ["north", "north", "south"]


def test_one_file_without_a_client_column_has_no_owners(folder: Path) -> None:
    assert Table(path="north.csv", label="ill", ignore=["sex"]).load(folder, 0).owners is None


def test_regression_takes_the_label_as_a_number(folder: Path) -> None:
    dataset = Table(path="north.csv", label="site", task="regression", ignore=["sex", "ill"]).load(
        folder, 0
    )
    np.testing.assert_array_equal(dataset.samples.y, [[1.0], [2.0]])
    assert (dataset.schema.outputs, dataset.schema.label_names) == (1, ())


def test_a_label_above_a_number_is_yes_or_no(folder: Path) -> None:
    dataset = Table(path="north.csv", label="site", label_above=1, ignore=["sex", "ill"]).load(
        folder, 0
    )
    assert dataset.labels.tolist() == [0, 1]
    assert dataset.schema.label_names == ("site <= 1", "site > 1")


def test_label_above_needs_classification() -> None:
    with pytest.raises(ValidationError, match="label_above makes classes"):
        Table(path="a.csv", label="y", task="regression", label_above=1)


def test_at_least_one_file_is_named() -> None:
    with pytest.raises(ValidationError, match="path"):
        Table(path=[], label="y")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"label": "ill"},
            r"north\.csv: row 1: column 'sex' holds 'm', which is not a number: .*'categorical'",
        ),
        ({"label": "sick"}, r"north\.csv: no column named 'sick': it holds age, sex, site, ill"),
        ({"label": "ill", "client": "who"}, "no column named 'who'"),
        ({"label": "ill", "categorical": ["sx"]}, "no column named 'sx'"),
        ({"label": "ill", "ignore": ["sx"]}, "no column named 'sx'"),
        (
            {"label": "age", "ignore": ["sex"]},
            r"north\.csv: 1 row without 'age', first row 2: fill or remove them, or set",
        ),
        (
            {"label": "ill", "client": "age"},
            r"north\.csv: 1 row without 'age', first row 2: fill or remove them$",
        ),
        ({"label": "ill", "ignore": ["age", "sex", "site"]}, "no column is left to learn from"),
        (
            {"label": "ill", "task": "regression", "ignore": ["sex"]},
            "column 'ill' holds 'yes', which is not a number",
        ),
        ({"label": "ill", "path": "west.csv"}, r"west\.csv: not found"),
    ],
)
def test_bad_tables_name_file_column_and_remedy(
    folder: Path, options: dict[str, object], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        Table.model_validate({"path": "north.csv", **options}).load(folder, 0)


def test_all_columns_of_texts_are_named_at_once(tmp_path: Path) -> None:
    (tmp_path / "shop.csv").write_text(
        'who,since,age,basket,left\nK1,27.01.2024,30,"3,5",no\nK2,01.02.2024,31,"4,5",yes\n'
    )
    with pytest.raises(DataError) as caught:
        Table(path="shop.csv", label="left").load(tmp_path, 0)
    said = str(caught.value)
    assert "3 columns hold texts that are not numbers: 'who' ('K1' in row 1), 'since' (" in said
    assert "'basket' ('3,5' in row 1)" in said
    assert "if the comma is the decimal mark, set decimal to ','" in said
    assert said.count("name the column in 'id', 'categorical' or 'ignore'") == 1


def test_rows_without_a_label_are_left_out_where_that_is_asked_for(folder: Path) -> None:
    table = Table(path="north.csv", label="age", ignore=["sex"], categorical=["ill"])
    whole = (folder / "north.csv").read_text().splitlines()
    dataset = table.model_copy(update={"unlabelled": "drop"}).load(folder, 0)
    assert len(dataset.samples) == len(whole) - 2
    assert "1 row without 'age' left out" in dataset.notes


def test_files_must_have_the_same_columns(folder: Path) -> None:
    (folder / "west.csv").write_text("age,sex,ill\n1,m,no\n")
    with pytest.raises(
        DataError, match=r"west\.csv: column 'site' is not in both this file and .*north\.csv"
    ):
        Table(path=["north.csv", "west.csv"], label="ill").load(folder, 0)


def test_two_files_of_one_name_would_be_one_owner(folder: Path) -> None:
    (folder / "more").mkdir()
    (folder / "more" / "north.csv").write_text((folder / "north.csv").read_text())
    table = Table(path=["north.csv", "more/north.csv"], label="ill", categorical=["sex"])
    with pytest.raises(DataError, match="two files are named north: write path as a table"):
        table.load(folder, 0)


def test_files_can_be_given_with_the_names_of_their_owners(folder: Path) -> None:
    table = Table(path={"upper": Path("north.csv")}, label="ill", categorical=["sex"], client=None)
    assert table.load(folder, 0).owners is None, "one file alone has no owners to tell apart"
    (folder / "copy.csv").write_text((folder / "north.csv").read_text())
    both = Table(
        path={"upper": Path("north.csv"), "lower": Path("copy.csv")},
        label="ill",
        categorical=["sex"],
    )
    owners = both.load(folder, 0).owners
    assert owners is not None
    assert list(dict.fromkeys(owners)) == ["upper", "lower"]


def test_a_table_without_rows_is_refused(folder: Path) -> None:
    (folder / "none.csv").write_text("a,ill\n")
    with pytest.raises(DataError, match=r"none\.csv: holds no samples"):
        Table(path="none.csv", label="ill").load(folder, 0)


def test_the_real_hospitals(real_data: Callable[[str], Path]) -> None:
    table = Table(
        path=[
            f"heart-disease/processed.{name}.data"
            for name in ("cleveland", "hungarian", "switzerland", "va")
        ],
        names=HEART,
        label="num",
        label_above=0,
        categorical=["cp", "restecg", "slope", "thal"],
    )
    dataset = table.load(real_data("heart-disease"), 0)
    assert dataset.samples.x.shape == (920, 22)
    assert dict(zip(*np.unique(dataset.owners, return_counts=True), strict=True)) == {
        "processed.cleveland": 303,
        "processed.hungarian": 294,
        "processed.switzerland": 123,
        "processed.va": 200,
    }
    assert dict(zip(*np.unique(dataset.labels, return_counts=True), strict=True)) == {
        0: 411,
        1: 509,
    }
    hospitals = make_clients(
        dataset, train_test_split(Natural().cut(dataset.labels, dataset.owners, 0), seed=0)
    )
    assert all(np.isfinite(hospital.test.x).all() for hospital in hospitals)


def test_a_file_named_twice_is_refused(folder: Path) -> None:
    with pytest.raises(DataError, match=r"north\.csv is named twice"):
        Table(path={"a": Path("north.csv"), "b": Path("north.csv")}, label="ill").load(folder, 0)


def test_categories_keep_the_texts_that_are_no_numbers(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("version,ill\nv1.0,v2.0\nv1,v2\n1.0.0,v2\n1.0,v2\n1,v2\n")
    table = Table(path="a.csv", label="ill", categorical=["version"])
    dataset = table.load(tmp_path, 0)
    assert dataset.schema.columns == (TableColumn("version", ("1", "1.0.0", "v1", "v1.0")),)
    assert dataset.schema.label_names == ("v2", "v2.0")


def test_owners_keep_the_texts_that_are_no_numbers(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,site,ill\n1,ward 1.0,0\n2,ward 1,1\n3,1.0,1\n")
    owners = Table(path="a.csv", label="ill", client="site").load(tmp_path, 0).owners
    assert owners is not None
    assert owners.tolist() == ["ward 1.0", "ward 1", "1"]


@pytest.mark.parametrize("label", ["ill", "seen"])
def test_dates_are_not_taken_for_numbers(tmp_path: Path, label: str) -> None:
    seen = pd.to_datetime(["2020-01-01", "2021-01-01"])
    pd.DataFrame({"seen": seen, "ill": [0, 1]}).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"a\.parquet: column 'seen' holds dates or times"):
        Table(path="a.parquet", label=label, task="regression").load(tmp_path, 0)


def test_a_marker_of_missing_values_may_be_a_number(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [-9, 4], "b": [1.5, -9.0], "ill": [0, 1]})
    frame.to_parquet(tmp_path / "a.parquet")
    dataset = Table(path="a.parquet", label="ill", missing=["-9"]).load(tmp_path, 0)
    np.testing.assert_array_equal(dataset.samples.x, [[np.nan, 1.5], [4, np.nan]])


def test_a_table_whose_only_column_is_always_missing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,ill\n?,0\n?,1\n")
    with pytest.raises(DataError, match="nothing to learn from"):
        Table(path="a.csv", label="ill", categorical=["a"]).load(tmp_path, 0)
