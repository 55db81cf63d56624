"""CSV and Parquet files as numbers: the same reading for training and for prediction."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from federico.data.dataset import Column
from federico.data.files import existing, first_line
from federico.errors import DataError
from federico.types import Array, FloatArray, IntArray

if TYPE_CHECKING:
    import pandas as pd

MISSING = ("?", "NA", "NaN")


def read_table(
    path: Path, names: Sequence[str] = (), missing: Sequence[str] = MISSING
) -> pd.DataFrame:
    """All columns of the file with gaps where a field is empty or one of the `missing` texts."""
    existing(path)
    try:
        frame = _read_parquet(path) if path.suffix == ".parquet" else _read_csv(path)
    except (ValueError, OSError) as error:
        raise DataError(
            f"{path}: not a readable CSV or Parquet file: {first_line(error)}"
        ) from error
    if path.suffix != ".parquet":
        frame = _named(frame, names, path)
    if not frame.columns.is_unique:
        raise DataError(
            f"{path}: two columns are named '{frame.columns[frame.columns.duplicated()][0]}': rename one"
        )
    return frame.mask(frame.isin(["", *missing]))


def require(frame: pd.DataFrame, names: Sequence[str], path: Path) -> None:
    """Refuse a file that lacks one of these columns."""
    absent = [name for name in names if name not in frame.columns]
    if absent:
        found = ", ".join(map(str, frame.columns))
        raise DataError(f"{path}: no column named '{absent[0]}': it holds {found}")


def texts(values: pd.Series) -> pd.Series:
    """Each value as text, so that 1 of one file and 1.0 of another are the same choice; gaps stay gaps."""
    return values.astype(str).str.replace(r"\.0+$", "", regex=True).where(values.notna())


def choices(values: pd.Series) -> tuple[str, ...]:
    """The different texts of a column, numbers in order of size and before words."""
    import pandas as pd

    found = pd.Series(texts(values).dropna().unique()).sort_values()
    order = np.argsort(pd.to_numeric(found, errors="coerce").to_numpy(), kind="stable")
    return tuple(map(str, found.iloc[order]))


def numbers(values: pd.Series, origin: object) -> FloatArray:
    """The column as numbers with NaN for gaps; `origin` is the file to name when it holds something else."""
    import pandas as pd

    result = pd.to_numeric(values, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    wrong = values[(np.isnan(result) & values.notna().to_numpy()) | np.isinf(result)]
    if len(wrong):
        raise DataError(
            f"{origin}: column '{values.name}' holds '{wrong.iloc[0]}', which is not a number: "
            "name the column in 'categorical' or 'ignore', or the text in 'missing'"
        )
    return result


def codes(values: pd.Series, categories: Sequence[str], origin: object) -> IntArray:
    """The position of each value among the categories, -1 for a gap."""
    import pandas as pd

    found = texts(values)
    strange = found[found.notna() & ~found.isin(categories)]
    if len(strange):
        known = ", ".join(categories)
        raise DataError(
            f"{origin}: column '{values.name}' holds '{strange.iloc[0]}': known are {known}"
        )
    return pd.Categorical(found, categories=list(categories)).codes.astype(np.int64)


def encode(frame: pd.DataFrame, columns: Sequence[Column], origin: object) -> FloatArray:
    """The inputs of a model: one for a number, one for each category of a choice, all of them gaps where it is one."""
    parts: list[Array] = []
    for column in columns:
        if column.categories is None:
            parts.append(numbers(frame[column.name], origin)[:, None])
        else:
            parts.append(
                _one_hot(
                    codes(frame[column.name], column.categories, origin), len(column.categories)
                )
            )
    return np.hstack(parts)


def _one_hot(positions: IntArray, width: int) -> FloatArray:
    # The row of NaN stands last, where the position -1 finds it.
    rows = np.vstack([np.eye(width), np.full((1, width), np.nan)])
    return rows[positions]


def _read_parquet(path: Path) -> pd.DataFrame:
    import pandas as pd

    return pd.read_parquet(path)


def _read_csv(path: Path) -> pd.DataFrame:
    """Every line as texts: pandas' own reading of a header would hide lines longer than it."""
    import pandas as pd

    return pd.read_csv(
        path,
        header=None,
        dtype=str,
        keep_default_na=False,
        skipinitialspace=True,
        encoding="utf-8-sig",
    )


def _named(frame: pd.DataFrame, names: Sequence[str], path: Path) -> pd.DataFrame:
    """The frame under the given names, or under those of its first line."""
    if names and len(names) != frame.shape[1]:
        raise DataError(
            f"{path}: holds {frame.shape[1]} columns but 'names' lists {len(names)}: name each column"
        )
    body = frame if names else frame.iloc[1:]
    return body.set_axis(list(names) or [str(name) for name in frame.iloc[0]], axis=1).reset_index(
        drop=True
    )
