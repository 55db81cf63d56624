"""One site's data with the labels and columns that its federation has agreed on."""

from dataclasses import replace

import numpy as np

from federico.data.dataset import Dataset, Samples, Schema, TableColumn
from federico.errors import DataError
from federico.types import Array, FloatArray, IntArray


def conform(dataset: Dataset, agreed: Schema) -> Dataset:
    """The same samples under the agreed schema, with columns and labels in the agreed order.

    A site need not have every label or every category that was agreed on, but it may have no other.
    """
    found = dataset.schema
    if found.task != agreed.task:
        raise DataError(
            f"data: it is for {found.task}, the federation agreed on {agreed.task}: "
            "change task in [data], or take it out"
        )

    inputs = dataset.samples.x
    if agreed.columns:
        inputs = _agreed_inputs(inputs, found, agreed)
    if inputs.shape[1:] != agreed.input_shape:
        raise DataError(
            f"data: inputs of shape {inputs.shape[1:]}, "
            f"the federation agreed on {agreed.input_shape}"
        )
    if found.columns and not agreed.columns:
        # Without agreed columns nobody would fill the missing values or scale the numbers.
        raise DataError(
            "data: it is a table, but the federation agreed on no columns: "
            "list them in the federation file instead of input_shape"
        )

    targets = _agreed_targets(dataset.samples.y, found, agreed)
    return replace(dataset, samples=Samples(inputs, targets), schema=agreed)


def _agreed_targets(y: Array, found: Schema, agreed: Schema) -> Array:
    """The targets as the federation counts them: classes by the numbers that were agreed on."""
    if agreed.task == "classification":
        number_of = _positions(found.label_names, agreed.label_names, "label")
        return number_of[y]
    if found.outputs != agreed.outputs:
        raise DataError(
            f"data: {found.outputs} values to predict, the federation agreed on {agreed.outputs}"
        )
    return y


def _agreed_inputs(x: Array, found: Schema, agreed: Schema) -> Array:
    """The columns of a table in the agreed order."""
    _refuse_other_columns(found, agreed)

    # Inputs of each column, under its name.
    ends = np.cumsum([column.width for column in found.columns])
    inputs_of: dict[str, Array] = {}
    for column, end in zip(found.columns, ends, strict=True):
        inputs_of[column.name] = x[:, end - column.width : end]

    found_column = {column.name: column for column in found.columns}
    parts = [
        _agreed_column(inputs_of[column.name], found_column[column.name], column)
        for column in agreed.columns
    ]
    return np.hstack(parts)


def _agreed_column(inputs: Array, found: TableColumn, agreed: TableColumn) -> Array:
    """The inputs of one column [rows, width], with an input for every agreed category."""
    if agreed.categories is None:
        if found.categories is not None:
            raise DataError(
                f"data: column '{agreed.name}' must hold numbers, as the federation agreed: "
                "take it out of 'categorical'"
            )
        return inputs
    if found.categories is None:
        raise DataError(
            f"data: column '{agreed.name}' must hold categories, as the federation agreed: "
            "name it in 'categorical'"
        )

    # Without any category, every value of the column is missing.
    widened: FloatArray = np.full((len(inputs), agreed.width), np.nan)
    if not found.categories:
        return widened

    # A missing value stays missing in all inputs; a category unknown to this site is never taken.
    present = ~np.isnan(inputs).any(axis=1)
    what = f"category of column '{agreed.name}'"
    positions = _positions(found.categories, agreed.categories, what)
    widened[present] = 0.0
    widened[np.ix_(present, positions)] = inputs[present]
    return widened


def _refuse_other_columns(found: Schema, agreed: Schema) -> None:
    """Refuse a table that lacks an agreed column, or has one that was not agreed on."""
    found_names = {column.name for column in found.columns}
    agreed_names = {column.name for column in agreed.columns}
    absent = sorted(agreed_names - found_names)
    if absent:
        raise DataError(f"data: no column named '{absent[0]}', which the federation agreed on")
    unknown = sorted(found_names - agreed_names)
    if unknown:
        raise DataError(
            f"data: column '{unknown[0]}' is not one the federation agreed on: name it in 'ignore'"
        )


def _positions(found: tuple[str, ...], agreed: tuple[str, ...], what: str) -> IntArray:
    """The position of each of the found names among the agreed ones."""
    positions: list[int] = []
    for name in found:
        if name not in agreed:
            listed = ", ".join(agreed)
            raise DataError(f"data: {what} '{name}' is not one the federation agreed on: {listed}")
        positions.append(agreed.index(name))
    return np.array(positions, dtype=np.int64)
