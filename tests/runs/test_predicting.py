"""Tables of predictions, written below each other."""

from pathlib import Path

import pandas as pd
import pytest

from federico.errors import DataError
from federico.runs.predicting import write_tables


def test_whole_numbers_with_gaps_stay_whole_in_every_piece(tmp_path: Path) -> None:
    pieces = [pd.DataFrame({"id": ids}).convert_dtypes() for ids in ([1, 2], [3.0, None])]
    for name in ("out.csv", "out.parquet"):
        write_tables(pieces, tmp_path / name)
    assert (tmp_path / "out.csv").read_text() == 'id\n1\n2\n3\n""\n'
    found = pd.read_parquet(tmp_path / "out.parquet")["id"]
    assert found.dropna().tolist() == [1, 2, 3]
    assert found.dtype == "Int64"


def test_a_column_that_changes_its_type_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    pieces = [pd.DataFrame({"id": [1, 2]}), pd.DataFrame({"id": ["a"]})]
    with pytest.raises(DataError, match=r"out\.parquet: a column .*: write .* to a \.csv file"):
        write_tables(pieces, tmp_path / "out.parquet")
    assert list(tmp_path.iterdir()) == []
