"""New data for a trained model."""

from collections.abc import Sequence
from pathlib import Path

from federico.data.arrays import as_inputs
from federico.data.dataset import Schema, has_unusable_values
from federico.data.files import read_npz
from federico.data.tabular import MISSING, encode_columns, read_table, require_columns
from federico.errors import DataError
from federico.types import Array


def read_inputs(
    path: Path, schema: Schema, *, names: Sequence[str] = (), missing: Sequence[str] = MISSING
) -> Array:
    """Inputs for a model of this schema, from a CSV, Parquet or npz file.

    Columns that the model was not trained on are ignored. `names` and `missing` mean what they
    mean in the options of the table that it was trained on.
    """
    if path.suffix.lower() == ".npz":
        (array,) = read_npz(path, "x")
        x = as_inputs(array, path)
    else:
        x = _read_table_inputs(path, schema, names, missing)

    if x.shape[1:] != schema.input_shape:
        raise DataError(
            f"{path}: inputs of shape {x.shape[1:]}, where the model takes {schema.input_shape}"
        )
    if len(x) == 0:
        raise DataError(f"{path}: holds no samples: at least one is needed")

    # The standardizer of a table fills in missing values; nothing else does.
    is_table = bool(schema.columns)
    if has_unusable_values(x, allow_missing=is_table):
        raise DataError(f"{path}: the inputs hold infinite or missing values: remove or fill them")
    return x


def _read_table_inputs(
    path: Path, schema: Schema, names: Sequence[str], missing: Sequence[str]
) -> Array:
    if not schema.columns:
        raise DataError(
            f"{path}: this model was not trained on a table: "
            "give an npz file with an array named 'x'"
        )
    frame = read_table(path, names, missing)
    require_columns(frame, [column.name for column in schema.columns], path)
    return encode_columns(frame, schema.columns, path)
