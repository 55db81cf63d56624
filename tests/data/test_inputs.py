from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from federico.data.dataset import Schema, TableColumn
from federico.data.inputs import read_samples
from federico.data.tabular import TableFormat, TableOrigin
from federico.errors import DataError

TABLE = Schema(
    "classification", (3,), 2, ("no", "yes"), (TableColumn("age"), TableColumn("sex", ("f", "m")))
)
ORIGIN = TableOrigin(TableFormat(), "sick")
IMAGES = Schema("classification", (3, 4, 4), 2, ("no", "yes"))
VECTORS = Schema("classification", (2,), 2, ("no", "yes"))


def test_columns_are_found_by_name_and_others_ignored(tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("sex,extra,age\nm,z,40\nf,z,?\n")
    np.testing.assert_array_equal(
        read_samples(tmp_path / "new.csv", TABLE, ORIGIN), [[40, 1], [np.nan, 0]]
    )


def test_parquet_and_headerless_csv_agree(tmp_path: Path) -> None:
    pd.DataFrame({"age": [40, 50], "sex": ["m", "f"]}).to_parquet(tmp_path / "new.parquet")
    (tmp_path / "new.csv").write_text("40,m\n50,f\n")
    headerless = read_samples(
        tmp_path / "new.csv", TABLE, TableOrigin(TableFormat(names=("age", "sex")), "sick")
    )
    np.testing.assert_array_equal(read_samples(tmp_path / "new.parquet", TABLE, ORIGIN), headerless)


def test_own_markers_are_gaps(tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("age,sex\n-9,m\n")
    origin = TableOrigin(TableFormat(missing=("-9",)), "sick")
    assert np.isnan(read_samples(tmp_path / "new.csv", TABLE, origin)[0, 0])


def test_images_stay_bytes(tmp_path: Path) -> None:
    np.savez(tmp_path / "new.npz", x=np.full((2, 3, 4, 4), 255, dtype=np.uint8))
    x = read_samples(tmp_path / "new.npz", IMAGES)
    assert x.dtype == np.uint8
    assert x.shape == (2, 3, 4, 4)


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("age,gender\n40,m\n")
    with pytest.raises(DataError, match=r"new\.csv: no column named 'sex': it holds age, gender"):
        read_samples(tmp_path / "new.csv", TABLE, ORIGIN)


def test_another_shape_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "new.npz", x=np.zeros((2, 5)))
    with pytest.raises(DataError, match=r"inputs of shape \(5,\), where the model takes \(2,\)"):
        read_samples(tmp_path / "new.npz", VECTORS)


def test_a_table_is_refused_by_a_model_of_something_else(tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("age,sex\n40,m\n")
    with pytest.raises(DataError, match="not trained on a table: give an npz"):
        read_samples(tmp_path / "new.csv", VECTORS)


def test_gaps_are_refused_where_nothing_fills_them(tmp_path: Path) -> None:
    np.savez(tmp_path / "new.npz", x=np.full((2, 2), np.nan))
    with pytest.raises(DataError, match="infinite or missing"):
        read_samples(tmp_path / "new.npz", VECTORS)


def test_a_file_without_rows_is_refused(tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("age,sex\n")
    with pytest.raises(DataError, match=r"new\.csv: holds no samples"):
        read_samples(tmp_path / "new.csv", TABLE, ORIGIN)
