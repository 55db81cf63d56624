import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from federico.data.dataset import TableColumn
from federico.data.tabular import (
    TableFormat,
    category_texts,
    column_numbers,
    encode_columns,
    find_categories,
    read_table,
)
from federico.errors import DataError


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_gaps_are_empty_fields_and_markers(tmp_path: Path) -> None:
    file = write(tmp_path / "a.csv", "a,b\n1,?\n,2\nNA,-9\n")
    frame = read_table(file, TableFormat(missing=("?", "NA", "-9")))
    assert frame["a"].isna().tolist() == [False, True, True]
    assert frame["b"].isna().tolist() == [True, False, True]


def test_parquet_reads_like_csv(tmp_path: Path) -> None:
    pd.DataFrame({"a": [1.0, None], "b": ["x", "?"]}).to_parquet(tmp_path / "a.parquet")
    frame = read_table(tmp_path / "a.parquet")
    columns = (TableColumn("a"), TableColumn("b", ("x",)))
    np.testing.assert_array_equal(encode_columns(frame, columns, "a"), [[1, 1], [np.nan, np.nan]])


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n", encoding="utf-8-sig")
    assert list(read_table(tmp_path / "a.csv").columns) == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "names", "message"),
    [
        ("", (), "not a readable CSV"),
        ("a,b\n1,2\n1,2,3\n", (), "not a readable CSV or Parquet file: .*line 3"),
        ("a,a\n1,2\n", (), "two columns are named 'a'"),
        ("1,2\n", ("a", "b", "c"), "holds 2 columns but 'names' lists 3"),
    ],
)
def test_malformed_files_are_named(
    tmp_path: Path, text: str, names: tuple[str, ...], message: str
) -> None:
    with pytest.raises(DataError, match=rf"bad\.csv: .*{message}") as caught:
        read_table(write(tmp_path / "bad.csv", text), TableFormat(names=names))
    assert "\n" not in str(caught.value)


def test_damaged_parquet_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"bad\.parquet: not a readable"):
        read_table(write(tmp_path / "bad.parquet", "no parquet"))


def test_choices_are_alike_across_ways_of_writing_a_number() -> None:
    assert find_categories(pd.Series(["1.0", "1", "10", "2", None, "b", "a"])) == (
        "1",
        "2",
        "10",
        "a",
        "b",
    )


def test_leading_zeros_of_a_name_stay() -> None:
    assert category_texts(pd.Series(["007", "7"])).tolist() == ["007", "7"]


@pytest.mark.parametrize("value", ["male", "inf"])
def test_a_text_among_numbers_names_column_and_remedy(value: str) -> None:
    with pytest.raises(
        DataError,
        match=f"^f: row 1: column 'sex' holds '{value}', which is not a number: .*'categorical'",
    ):
        column_numbers(pd.Series(["1", value, None], name="sex"), "f")


def test_an_error_shows_the_beginning_of_a_value_that_fills_a_page() -> None:
    """One of 50 MB was printed to its end."""
    long = "a" * 1_000_000
    with pytest.raises(DataError, match=r"holds 'a{100}\.\.\.', which is not a number"):
        column_numbers(pd.Series(["1", long], name="age"), "f")
    with pytest.raises(DataError, match=r"holds 'a{100}\.\.\.', known are 1, 2"):
        encode_columns(pd.DataFrame({"cp": ["1", long]}), (TableColumn("cp", ("1", "2")),), "f")


def test_an_unknown_choice_is_refused() -> None:
    with pytest.raises(DataError, match=r"^f: row 1: column 'cp' holds '9', known are 1, 2"):
        encode_columns(pd.DataFrame({"cp": ["1", "9"]}), (TableColumn("cp", ("1", "2")),), "f")


def test_a_gap_in_a_choice_is_a_gap_in_all_its_inputs() -> None:
    x = encode_columns(
        pd.DataFrame({"n": ["5", None], "cp": [None, "2.0"]}),
        (TableColumn("n"), TableColumn("cp", ("1", "2"))),
        "f",
    )
    np.testing.assert_array_equal(x, [[5, np.nan, np.nan], [np.nan, 0, 1]])


def test_a_parquet_file_may_name_its_columns_by_numbers(tmp_path: Path) -> None:
    pd.DataFrame({0: [1], 1: [2]}).to_parquet(tmp_path / "A.PARQUET")
    assert list(read_table(tmp_path / "A.PARQUET").columns) == ["0", "1"]


def test_a_packed_file_that_was_cut_off_is_named(tmp_path: Path) -> None:
    whole = gzip.compress(b"a,b\n" + b"1,2\n" * 5000)
    (tmp_path / "a.csv.gz").write_bytes(whole[:60])
    with pytest.raises(DataError, match=r"a\.csv\.gz: not a readable CSV"):
        read_table(tmp_path / "a.csv.gz")


@pytest.mark.parametrize("suffix", ["zip", "xz"])
def test_a_file_that_is_not_packed_as_its_name_says_is_named(tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"a.csv.{suffix}").write_bytes(b"a,b\n1,2\n")
    with pytest.raises(DataError, match=rf"a\.csv\.{suffix}: not a readable CSV"):
        read_table(tmp_path / f"a.csv.{suffix}")
