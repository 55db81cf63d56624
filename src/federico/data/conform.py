"""One site's data as the federation has agreed to see it: the same labels and columns everywhere, in the same order."""

import numpy as np

from federico.data.dataset import Column, Dataset, Samples, Schema
from federico.errors import DataError
from federico.types import Array


def conform(dataset: Dataset, agreed: Schema) -> Dataset:
    """The same samples under the agreed schema: a site need not have every label or every choice, but no other."""
    found = dataset.schema
    if found.task != agreed.task:
        raise DataError(f"data: it is for {found.task}, the federation agreed on {agreed.task}")
    x = _inputs(dataset.samples.x, found, agreed) if agreed.columns else dataset.samples.x
    if x.shape[1:] != agreed.input_shape:
        raise DataError(
            f"data: inputs of shape {x.shape[1:]}, the federation agreed on {agreed.input_shape}"
        )
    y = dataset.samples.y
    if agreed.task == "classification":
        y = _places(found.label_names, agreed.label_names, "label")[y]
    elif found.outputs != agreed.outputs:
        raise DataError(
            f"data: {found.outputs} values to predict, the federation agreed on {agreed.outputs}"
        )
    return Dataset(Samples(x, y), agreed, dataset.owners)


def _inputs(x: Array, found: Schema, agreed: Schema) -> Array:
    """The columns in the agreed order; a choice this site does not know is one it never takes."""
    widths = [
        1 if column.categories is None else len(column.categories) for column in found.columns
    ]
    parts = dict(zip(found.columns, np.split(x, np.cumsum(widths)[:-1], axis=1), strict=True))
    by_name = {column.name: column for column in found.columns}
    _refuse_difference(set(by_name), {column.name for column in agreed.columns})
    return np.hstack(
        [
            _column(parts[by_name[column.name]], by_name[column.name], column)
            for column in agreed.columns
        ]
    )


def _column(part: Array, found: Column, agreed: Column) -> Array:
    if (found.categories is None) != (agreed.categories is None):
        kind = "numbers" if agreed.categories is None else "choices: name it in 'categorical'"
        raise DataError(f"data: column '{agreed.name}' holds, as the federation agreed, {kind}")
    if found.categories is None or agreed.categories is None:
        return part
    gaps = np.isnan(part).any(axis=1) if found.categories else np.ones(len(part), bool)
    wide = np.zeros((len(part), len(agreed.categories)))
    wide[:, _places(found.categories, agreed.categories, f"choice of column '{agreed.name}'")] = (
        part
    )
    wide[gaps] = np.nan
    return wide


def _refuse_difference(found: set[str], agreed: set[str]) -> None:
    if absent := sorted(agreed - found):
        raise DataError(f"data: no column named '{absent[0]}', which the federation agreed on")
    if strange := sorted(found - agreed):
        raise DataError(
            f"data: column '{strange[0]}' is not one the federation agreed on: name it in 'ignore'"
        )


def _places(found: tuple[str, ...], agreed: tuple[str, ...], what: str) -> Array:
    """Where each of the found names stands among the agreed ones."""
    if strange := [name for name in found if name not in agreed]:
        raise DataError(
            f"data: {what} '{strange[0]}' is not one the federation agreed on: {', '.join(agreed)}"
        )
    return np.array([agreed.index(name) for name in found], dtype=np.int64)
