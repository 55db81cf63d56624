"""CSV and Parquet files as numbers, read the same way for training and for prediction."""

from __future__ import annotations

import lzma
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from federico.data.dataset import TableColumn
from federico.data.files import existing, first_line
from federico.errors import DataError
from federico.types import Array, FloatArray, IntArray

if TYPE_CHECKING:
    import pandas as pd

MISSING = ("?", "NA", "NaN")
"""Texts that stand for a missing value unless the options name others."""

UNREADABLE_TABLE = (
    ValueError,
    OSError,
    EOFError,
    ImportError,
    lzma.LZMAError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What pandas raises for a file that is no table, is damaged, or cannot be unpacked."""


def read_table(
    path: Path, names: Sequence[str] = (), missing: Sequence[str] = MISSING
) -> pd.DataFrame:
    """All columns of a file, with a missing value for each field that is empty or in `missing`.

    `names` are the columns of a CSV file without a header line.
    """
    existing(path)
    is_parquet = path.suffix.lower() == ".parquet"
    try:
        frame = _read_parquet(path) if is_parquet else _read_csv(path)
    except UNREADABLE_TABLE as error:
        raise DataError(
            f"{path}: not a readable CSV or Parquet file: {first_line(error)}"
        ) from error

    if not is_parquet:
        frame = _with_header(frame, names, path)
    duplicated = frame.columns[frame.columns.duplicated()]
    if len(duplicated):
        raise DataError(f"{path}: two columns are named '{duplicated[0]}': rename one")
    return frame.mask(frame.isin(_missing_values(missing)))


def require_columns(frame: pd.DataFrame, names: Sequence[str], path: Path) -> None:
    """Refuse a file that lacks one of these columns."""
    for name in names:
        if name not in frame.columns:
            found = ", ".join(map(str, frame.columns))
            raise DataError(f"{path}: no column named '{name}': it holds {found}")


def category_texts(values: pd.Series) -> pd.Series:
    """Each value as the text that names its category; missing values stay missing.

    The whole number 1 may be written `1` in one file and `1.0` in another, or be a floating-point
    number because other rows of its column are missing. All of these become `1`. Other texts stay
    as they are: `v1.0` and `v1` are two categories.
    """
    texts = values.astype(str)
    whole_numbers = texts.str.replace(r"^([+-]?\d+)\.0+$", r"\1", regex=True)
    return whole_numbers.where(values.notna())


def find_categories(values: pd.Series) -> tuple[str, ...]:
    """The different categories of a column: first numbers in order of size, then words."""
    import pandas as pd

    found = pd.Series(category_texts(values).dropna().unique()).sort_values()
    # A word is no number and becomes NaN, which sorts last.
    sizes = pd.to_numeric(found, errors="coerce").to_numpy()
    order = np.argsort(sizes, kind="stable")
    return tuple(str(category) for category in found.iloc[order])


def label_values(values: pd.Series) -> Array:
    """A column as numbers if all of it can be read as numbers, else as the texts it holds."""
    import pandas as pd

    if values.dtype.kind in "mMb":
        return category_texts(values).to_numpy(dtype=str)
    numbers = pd.to_numeric(values, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    if np.isnan(numbers).any():
        return category_texts(values).to_numpy(dtype=str)
    return numbers


def category_numbers(values: pd.Series, categories: Sequence[str], origin: object) -> IntArray:
    """The position of each value among the categories, -1 where the value is missing."""
    import pandas as pd

    found = category_texts(values)
    unknown = found[found.notna() & ~found.isin(categories)]
    if len(unknown):
        known = ", ".join(categories)
        raise DataError(
            f"{origin}: column '{values.name}' holds '{unknown.iloc[0]}': known are {known}"
        )
    return pd.Categorical(found, categories=list(categories)).codes.astype(np.int64)


def column_numbers(values: pd.Series, origin: object) -> FloatArray:
    """A column as numbers, NaN where a value is missing; errors name the `origin`."""
    import pandas as pd

    if values.dtype.kind in "mM":
        # pandas would count nanoseconds, and take a missing date for a very early one.
        raise DataError(
            f"{origin}: column '{values.name}' holds dates or times, which are not numbers: "
            "write them as numbers, or name the column in 'ignore'"
        )

    numbers = pd.to_numeric(values, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    not_a_number = np.isnan(numbers) & values.notna().to_numpy()
    wrong = values[not_a_number | np.isinf(numbers)]
    if len(wrong):
        raise DataError(
            f"{origin}: column '{values.name}' holds '{wrong.iloc[0]}', which is not a number: "
            "name the column in 'categorical' or 'ignore', or the text in 'missing'"
        )
    return numbers


def encode_columns(
    frame: pd.DataFrame, columns: Sequence[TableColumn], origin: object
) -> FloatArray:
    """The inputs of a model [rows, inputs]: one for a number, one for each category.

    Where a category is missing, all inputs of its column are NaN.
    """
    parts: list[Array] = []
    for column in columns:
        values = frame[column.name]
        if column.categories is None:
            parts.append(column_numbers(values, origin)[:, None])
        else:
            positions = category_numbers(values, column.categories, origin)
            parts.append(_one_hot(positions, column.width))
    return np.hstack(parts)


def _one_hot(positions: IntArray, width: int) -> FloatArray:
    # The row of NaN stands last, where the position -1 finds it.
    rows = np.vstack([np.eye(width), np.full((1, width), np.nan)])
    return rows[positions]


def _read_parquet(path: Path) -> pd.DataFrame:
    import pandas as pd

    frame = pd.read_parquet(path)
    # Options name columns by text, and a frame may have been written with numbers as names.
    return frame.set_axis([str(name) for name in frame.columns], axis=1)


def _read_csv(path: Path) -> pd.DataFrame:
    """All lines as texts, the header too.

    If pandas took the first line for a header, it would hide that later lines are longer.
    """
    import pandas as pd

    return pd.read_csv(
        path,
        header=None,
        dtype=str,
        keep_default_na=False,
        skipinitialspace=True,
        encoding="utf-8-sig",
    )


def _with_header(frame: pd.DataFrame, names: Sequence[str], path: Path) -> pd.DataFrame:
    """The frame under the given names, or under those of its first line."""
    if not names:
        header = [str(name) for name in frame.iloc[0]]
        rows = frame.iloc[1:].reset_index(drop=True)
        return rows.set_axis(header, axis=1)

    if len(names) != frame.shape[1]:
        raise DataError(
            f"{path}: holds {frame.shape[1]} columns but 'names' lists {len(names)}: "
            "name each column"
        )
    return frame.set_axis(list(names), axis=1)


def _missing_values(texts: Sequence[str]) -> list[str | float]:
    """The empty field, these texts, and the numbers they stand for.

    A Parquet file holds the marker `-9` as a number.
    """
    values: list[str | float] = ["", *texts]
    for text in texts:
        try:
            number = float(text)
        except ValueError:
            continue
        if np.isfinite(number):
            values.append(number)
    return values
