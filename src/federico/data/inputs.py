"""New data for a trained model."""

from collections.abc import Sequence
from pathlib import Path

from federico.data.checks import unusable
from federico.data.dataset import Schema
from federico.data.files import read_npz
from federico.data.sources.npz import features
from federico.data.tabular import MISSING, encode, read_table, require
from federico.errors import DataError
from federico.types import Array


def read_inputs(
    path: Path, schema: Schema, *, names: Sequence[str] = (), missing: Sequence[str] = MISSING
) -> Array:
    """Inputs as the model of this schema takes them, from a CSV, Parquet or npz file; other columns are ignored.

    `names` and `missing` mean what they mean in the options of the table the model was trained on.
    """
    x = _from_npz(path) if path.suffix == ".npz" else _from_table(path, schema, names, missing)
    if x.shape[1:] != schema.input_shape:
        raise DataError(
            f"{path}: inputs of shape {x.shape[1:]}, where the model takes {schema.input_shape}"
        )
    if len(x) == 0:
        raise DataError(f"{path}: holds no samples: at least one is needed")
    if unusable(x, gaps=bool(schema.columns)):
        raise DataError(f"{path}: the inputs hold infinite or missing values: remove or fill them")
    return x


def _from_npz(path: Path) -> Array:
    return features(read_npz(path, "x")[0], path)


def _from_table(path: Path, schema: Schema, names: Sequence[str], missing: Sequence[str]) -> Array:
    if not schema.columns:
        raise DataError(
            f"{path}: this model was not trained on a table: give an npz file with an array named 'x'"
        )
    frame = read_table(path, names, missing)
    require(frame, [column.name for column in schema.columns], path)
    return encode(frame, schema.columns, path)
