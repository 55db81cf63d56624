"""New data for a trained model, a number of rows at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from federico.data.arrays import NUMBER_KINDS, as_inputs
from federico.data.dataset import Schema, has_unusable_values
from federico.data.files import npz_names, read_npz
from federico.data.tabular import (
    STANDARD_INPUT,
    TO_PREDICT,
    TableOrigin,
    Unknown,
    category_texts,
    column_values,
    numbers_or_nan,
    require_columns,
    table_chunks,
    with_gaps,
)
from federico.errors import DataError
from federico.types import Array, BoolArray, IntArray

if TYPE_CHECKING:
    import pandas as pd

UNKNOWN_LABEL = -2
"""Stands for a label that is none of the model's classes."""
NO_LABEL = -1
"""Stands for a label that is missing."""


@dataclass(frozen=True)
class NewRows:
    """Some rows of new data."""

    x: Array
    """Samples as a personal model takes them, see `Schema.sample_shape`."""
    ids: pd.DataFrame | None = None
    """The columns that name the rows, where the data is a table."""
    targets: Array | None = None
    """What is to be predicted, where the file has it: the numbers of classes [rows], `NO_LABEL` or
    `UNKNOWN_LABEL` where there is none; or values [rows, outputs], NaN where one is missing."""
    owners: pd.Series | None = None
    """Whose rows they are, where the file has the column that said so in training."""


def read_samples(
    path: Path, schema: Schema, origin: TableOrigin | None = None, unknown: Unknown = "error"
) -> Array:
    """All samples of a CSV, Parquet or npz file; see `new_rows`."""
    (rows,) = new_rows(path, schema, origin, unknown=unknown)
    return rows.x


def new_rows(
    path: Path,
    schema: Schema,
    origin: TableOrigin | None = None,
    *,
    ids: Sequence[str] | None = None,
    unknown: Unknown = "error",
    at_once: int | None = None,
) -> Iterator[NewRows]:
    """The rows of a CSV, Parquet or npz file for a model of this schema, this many at once.

    Columns that the model was not trained on are ignored. `origin` says how the training table was
    read. `ids` are columns to keep; if not given, those of the training table that the file has.
    `unknown` says what becomes of a category that the model has never seen.
    """
    if path.suffix.lower() == ".npz":
        yield _npz_rows(path, schema)
        return

    if not schema.columns or origin is None:
        raise DataError(
            f"{path}: this model was not trained on a table: "
            "give an npz file with an array named 'x'"
        )
    is_empty = True
    for frame in table_chunks(path, origin.format, at_once, TO_PREDICT):
        require_columns(frame, [column.name for column in schema.columns], path)
        if len(frame):
            is_empty = False
            yield _table_rows(frame, path, schema, origin, ids, unknown)
    if is_empty:
        raise DataError(f"{path}: holds no samples: at least one is needed")


def known_targets(y: Array, schema: Schema, origin: object) -> Array:
    """Given targets as `NewRows.targets`: of classes their names, or their numbers from 0."""
    import pandas as pd

    are_numbers = y.dtype.kind in NUMBER_KINDS
    if schema.task == "regression":
        if not are_numbers:
            raise DataError(f"{origin}: targets must be numbers, not {y.dtype}")
        return y.astype(np.float64).reshape(len(y), -1)

    if y.dtype.kind == "b":
        y = y.astype(np.int64)
    names = schema.label_names
    if are_numbers and not all(name.removeprefix("-").isdecimal() for name in names):
        names = tuple(str(number) for number in range(schema.outputs))
    return _class_numbers(pd.Series(y), names)


def has_target(targets: Array) -> BoolArray:
    """Of which rows it is known what is to be predicted."""
    known: BoolArray
    if targets.ndim == 1:
        known = targets >= 0
    else:
        known = np.logical_and.reduce(np.isfinite(targets), axis=1)
    return known


def _npz_rows(path: Path, schema: Schema) -> NewRows:
    """New samples from an npz file, with what is to be predicted if the file has that too."""
    x = _npz_samples(path, schema)
    if "y" not in npz_names(path):
        return NewRows(x)
    (y,) = read_npz(path, "y")
    if len(y) != len(x):
        raise DataError(f"{path}: x has {len(x)} samples and y {len(y)}: give one for each")
    return NewRows(x, targets=known_targets(y, schema, path))


def _npz_samples(path: Path, schema: Schema) -> Array:
    (array,) = read_npz(path, "x")
    x = as_inputs(array, path)
    if x.shape[1:] != schema.sample_shape:
        raise DataError(
            f"{path}: inputs of shape {x.shape[1:]}, where the model takes {schema.sample_shape}"
        )
    if len(x) == 0:
        raise DataError(f"{path}: holds no samples: at least one is needed")
    # The personal model fills in missing values of a table, and of nothing else.
    if has_unusable_values(x, allow_missing=bool(schema.columns)):
        raise DataError(f"{path}: the inputs hold infinite or missing values: remove or fill them")
    return x


def _table_rows(
    frame: pd.DataFrame,
    path: Path,
    schema: Schema,
    origin: TableOrigin,
    ids: Sequence[str] | None,
    unknown: Unknown,
) -> NewRows:
    """What these rows of a table mean to the model."""
    if ids is None:
        kept = [column for column in origin.ids if column in frame.columns]
    else:
        require_columns(frame, ids, path)
        kept = list(ids)
    # Copied as they are: an id may be `NA`.
    copied = frame[kept]

    name = "standard input" if path == STANDARD_INPUT else path
    frame = with_gaps(frame, origin.format)
    x = column_values(frame, schema.columns, name, origin.format.decimal, unknown, TO_PREDICT)

    targets = None
    if origin.target in frame.columns:
        targets = _table_targets(frame[origin.target], schema, origin)
    owners = None
    if origin.owner is not None and origin.owner in frame.columns:
        owners = category_texts(frame[origin.owner])
    return NewRows(x, copied, targets, owners)


def _table_targets(targets: pd.Series, schema: Schema, origin: TableOrigin) -> Array:
    """What the column to predict says of each row."""
    if schema.task == "regression":
        return numbers_or_nan(targets, origin.format.decimal)[:, None]
    if origin.above is None:
        return _class_numbers(targets, schema.label_names)
    numbers = numbers_or_nan(targets, origin.format.decimal)
    above = (numbers > origin.above).astype(np.int64)
    return np.where(np.isnan(numbers), NO_LABEL, above)


def _class_numbers(labels: pd.Series, names: Sequence[str]) -> IntArray:
    """The number of the class that each label names."""
    number_of = {name: number for number, name in enumerate(names)}
    found = category_texts(labels).map(number_of).fillna(UNKNOWN_LABEL).to_numpy(dtype=np.int64)
    return np.where(labels.isna(), NO_LABEL, found)
