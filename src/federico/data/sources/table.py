"""Rows of CSV or Parquet files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Self, TypeAlias

import numpy as np
from pydantic import Field, model_validator

from federico.data.dataset import Dataset, Samples, Schema, TableColumn, checked
from federico.data.fixed_split import marked_for_testing
from federico.data.sources.base import SourceOptions
from federico.data.tabular import (
    MISSING,
    Decimal,
    TableFormat,
    TableOrigin,
    category_numbers,
    category_texts,
    column_numbers,
    encode_columns,
    encoding_hint,
    find_categories,
    label_values,
    read_untouched,
    refuse_texts,
    require_columns,
    stripped_texts,
    with_gaps,
)
from federico.data.targets import many_classes_hint, task_of
from federico.errors import DataError
from federico.types import Array, BoolArray, Task

if TYPE_CHECKING:
    import pandas as pd

Frames: TypeAlias = "dict[Path, pd.DataFrame]"
"""The rows of each file, under its path, so that every error can name the file."""


class Table(SourceOptions):
    """Your own CSV or Parquet files, with one row per sample."""

    kind: Literal["table"] = "table"
    """Rows of CSV or Parquet files."""
    path: (
        Path
        | Annotated[tuple[Path, ...], Field(min_length=1)]
        | Annotated[dict[str, Path], Field(min_length=1)]
    )
    """The file; or a list of files with the same columns; or a table of owner = file."""
    label: str
    """Column to predict."""
    label_above: float | None = None
    """Makes the label a yes or no: whether the label column is above this number."""
    task: Task | None = None
    """What to learn: classification takes each different label as a class, regression takes labels
    as numbers. Without it, whole numbers and texts are classes, other numbers values to predict
    (regression)."""
    client: str | None = None
    """Column that says who owns each row, for the natural partition; without it, each of several
    files is an owner."""
    test: str | None = None
    """Column that says what each row is for, `test` (or 1) or `train` (or 0); without it, `[split]`
    divides each client's rows at random."""
    names: tuple[str, ...] = ()
    """Column names of CSV files without a header line."""
    missing: tuple[str, ...] = MISSING
    """Texts that stand for a missing value, besides the empty field."""
    separator: Annotated[str, Field(min_length=1, max_length=1)] = ","
    """The character between the fields of a CSV file, such as `;` or a tab."""
    decimal: Decimal = "."
    """The decimal mark of numbers in a CSV file: with a comma, `3,5` is three and a half."""
    encoding: str = "utf-8"
    """What the text of a CSV file was saved in, such as `latin-1` or `cp1252`."""
    categorical: tuple[str, ...] = ()
    """Columns whose values are categories, not amounts: each category becomes an input of its
    own."""
    ignore: tuple[str, ...] = ()
    """Columns that are left out."""
    id: tuple[str, ...] = ()
    """Columns that name a row, such as a patient's number: left out, and copied to predictions."""
    incomplete: Literal["fill", "drop"] = "fill"
    """What becomes of a row with a missing value: each client fills in the median of its own
    training rows, or the row is left out."""
    unlabelled: Literal["error", "drop"] = "error"
    """What becomes of a row without a value in the column to predict: it is an error, or the row is
    left out."""

    @model_validator(mode="after")
    def _label_above_makes_classes(self) -> Self:
        if self.task == "regression" and self.label_above is not None:
            raise ValueError(
                "label_above makes classes: leave it out, or set task to classification"
            )
        return self

    def load(self, folder: Path, seed: int) -> Dataset:
        """All rows of all files in order; each client fills in its missing values later."""
        files = self._files()
        for file in files:
            if files.count(file) > 1:
                raise DataError(f"path: {file} is named twice; name every file once")
        frames: Frames = {}
        notes: list[str] = []
        for file in files:
            raw = read_untouched(folder / file, self._format())
            notes += self._notes(raw, folder / file)
            complete, note = self._complete(raw, folder / file)
            frames[folder / file] = complete
            notes += note
        _refuse_different_columns(frames)

        columns = self._columns(frames)
        numbers = [column.name for column in columns if column.categories is None]
        for file, frame in frames.items():
            refuse_texts(frame, numbers, file, self.decimal)
        inputs = [
            encode_columns(frame, columns, file, self.decimal) for file, frame in frames.items()
        ]
        x = np.vstack(inputs)
        task = self._task(frames)
        y, classes = self._targets(frames, task)

        outputs = 1 if task == "regression" else len(classes)
        schema = Schema(task, x.shape[1:], outputs, classes, columns)
        dataset = Dataset(
            Samples(x, y),
            schema,
            self._owners(frames),
            self._test_marks(frames),
            tuple(notes),
        )
        checked(dataset, _listed(frames), allow_missing=True)
        if self.incomplete == "drop":
            return _complete_rows(dataset, _listed(frames))
        return dataset

    def for_task(self, task: Task) -> Self:
        """See `SourceOptions`."""
        if self.task is not None or self.label_above is not None:
            return self
        return self.model_copy(update={"task": task})

    def table_origin(self) -> TableOrigin:
        """See `SourceOptions`."""
        return TableOrigin(self._format(), self.label, self.label_above, self.id, self.client)

    def hints(self, schema: Schema) -> list[str]:
        """Many whole numbers that nobody has said to be classes."""
        hint = many_classes_hint(schema)
        if self.task is not None or not hint:
            return []
        return [hint]

    def _files(self) -> list[Path]:
        if isinstance(self.path, Path):
            return [self.path]
        if isinstance(self.path, dict):
            return list(self.path.values())
        return list(self.path)

    def _format(self) -> TableFormat:
        return TableFormat(self.names, self.missing, self.separator, self.decimal, self.encoding)

    def _notes(self, raw: pd.DataFrame, file: Path) -> list[str]:
        """What was done to the texts of one file, and what may be wrong with them."""
        used = [column for column in raw.columns if column not in {*self.ignore, *self.id}]
        notes = stripped_texts(raw[used])
        hint = encoding_hint(file, self._format())
        if hint:
            notes.append(hint)
        return notes

    def _complete(self, raw: pd.DataFrame, file: Path) -> tuple[pd.DataFrame, list[str]]:
        """The rows of one file, each with a label and an owner if there is a column of owners.

        The list says how many rows without a label were left out, if any.
        """
        frame = with_gaps(raw, self._format())
        complete = [self.label]
        if self.client is not None:
            complete.append(self.client)
        if self.test is not None:
            complete.append(self.test)
        require_columns(frame, [*complete, *self.categorical, *self.ignore, *self.id], file)

        notes = []
        if self.unlabelled == "drop":
            labelled = frame[frame[self.label].notna()]
            left_out = len(frame) - len(labelled)
            if left_out:
                notes.append(f"{_rows(left_out)} without '{self.label}' left out")
            frame = labelled

        for column in complete:
            missing = frame.index[frame[column].isna()]
            if len(missing):
                remedy = "fill or remove them"
                if column == self.label:
                    remedy += ", or set unlabelled to 'drop'"
                raise DataError(
                    f"{file}: {_rows(len(missing))} without '{column}', first row {missing[0]}: "
                    f"{remedy}"
                )
        return frame, notes

    def _columns(self, frames: Frames) -> tuple[TableColumn, ...]:
        """The columns to learn from, with the categories of all files together."""
        left_out = {self.label, self.client, self.test, *self.ignore, *self.id}
        first_frame = next(iter(frames.values()))

        columns: list[TableColumn] = []
        for name in first_frame.columns:
            if name in left_out:
                continue
            categories = None
            if name in self.categorical:
                categories = find_categories(_joined(frames, name))
            columns.append(TableColumn(name, categories))
        if not columns:
            raise DataError(f"{_listed(frames)}: no column is left to learn from: shorten 'ignore'")
        return tuple(columns)

    def _task(self, frames: Frames) -> Task:
        """What is to be learned: what the options say, or else what the labels look like."""
        if self.task is not None:
            return self.task
        if self.label_above is not None:
            return "classification"
        return task_of(label_values(_joined(frames, self.label), self.decimal))

    def _targets(self, frames: Frames, task: Task) -> tuple[Array, tuple[str, ...]]:
        """The targets and the names of their classes; no names where the task is regression."""
        if task == "regression":
            values = self._label_numbers(frames)
            return values[:, None], ()

        if self.label_above is not None:
            above = self._label_numbers(frames) > self.label_above
            no = f"{self.label} <= {self.label_above:g}"
            yes = f"{self.label} > {self.label_above:g}"
            return above.astype(np.int64), (no, yes)

        classes = find_categories(_joined(frames, self.label))
        numbers = [
            category_numbers(frame[self.label], classes, file) for file, frame in frames.items()
        ]
        return np.concatenate(numbers), classes

    def _label_numbers(self, frames: Frames) -> Array:
        numbers = [
            column_numbers(frame[self.label], file, self.decimal) for file, frame in frames.items()
        ]
        return np.concatenate(numbers)

    def _owners(self, frames: Frames) -> Array | None:
        """The owner of each row: its entry in the client column, or else one of several files."""
        if self.client is not None:
            return category_texts(_joined(frames, self.client)).to_numpy(dtype=str)
        if len(frames) == 1:
            return None

        names = [file.stem for file in frames]
        if isinstance(self.path, dict):
            names = list(self.path)
        for name in names:
            if names.count(name) > 1:
                raise DataError(
                    f"two files are named {name}: write path as a table of owner = file"
                )
        return np.repeat(names, [len(frame) for frame in frames.values()])

    def _test_marks(self, frames: Frames) -> BoolArray | None:
        """Whether each row is one to test on; None where no column says so."""
        if self.test is None:
            return None
        marks = []
        for file, frame in frames.items():
            texts = category_texts(frame[self.test]).to_numpy(dtype=str)
            marks.append(marked_for_testing(texts, file, self.test))
        return np.concatenate(marks)


def _complete_rows(dataset: Dataset, origin: object) -> Dataset:
    """The rows of which no input is missing."""
    has_gap = np.isnan(dataset.samples.x).any(axis=1)
    complete = np.flatnonzero(~has_gap)
    if len(complete) == 0:
        raise DataError(f"{origin}: no row is complete: set incomplete to fill")
    return dataset.take(complete)


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count} rows"


def _listed(files: Iterable[Path]) -> str:
    return ", ".join(str(file) for file in files)


def _joined(frames: Frames, column: str) -> pd.Series:
    """A column of all files, one below the other."""
    import pandas as pd

    joined: pd.Series = pd.concat([frame[column] for frame in frames.values()])
    return joined


def _refuse_different_columns(frames: Frames) -> None:
    """All files must have the same columns, in whatever order."""
    first, *others = frames
    for file in others:
        different = set(frames[file].columns) ^ set(frames[first].columns)
        if different:
            raise DataError(
                f"{file}: column '{min(different)}' is not in both this file and {first}: "
                "make their columns agree"
            )
