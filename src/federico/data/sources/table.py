from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Self, TypeAlias

import numpy as np
from pydantic import Field, model_validator

from federico.data.checks import checked
from federico.data.dataset import Column, Dataset, Samples, Schema
from federico.data.sources.base import SourceOptions
from federico.data.tabular import (
    MISSING,
    choices,
    codes,
    encode,
    numbers,
    read_table,
    require,
    texts,
)
from federico.errors import DataError
from federico.types import Array, Task

if TYPE_CHECKING:
    import pandas as pd

Frames: TypeAlias = "dict[Path, pd.DataFrame]"
"""What was read, under the name of its file, so that every error can name it."""


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
    task: Task = "classification"
    """What to learn: classification takes each different label as a class, regression takes labels as numbers."""
    client: str | None = None
    """Column that says whose each row is, for the natural partition; without it each of several files is an owner."""
    names: tuple[str, ...] = ()
    """Column names of CSV files without a header line."""
    missing: tuple[str, ...] = MISSING
    """Texts that stand for a missing value, besides the empty field."""
    categorical: tuple[str, ...] = ()
    """Columns whose values are choices, not amounts: each choice becomes an input of its own."""
    ignore: tuple[str, ...] = ()
    """Columns that are left out."""

    @model_validator(mode="after")
    def _label_above_makes_classes(self) -> Self:
        if self.task == "regression" and self.label_above is not None:
            raise ValueError(
                "label_above makes classes: leave it out, or set task to classification"
            )
        return self

    def load(self, folder: Path, seed: int) -> Dataset:
        """All rows of all files in order; missing values stay gaps until each client fills its own."""
        paths = (self.path,) if isinstance(self.path, Path) else self.path
        files = list(paths.values() if isinstance(paths, dict) else paths)
        if len(set(files)) < len(files):
            raise DataError(
                f"path: {max(files, key=files.count)} is named twice; name every file once"
            )
        frames = {folder / file: self._read(folder / file) for file in files}
        _same_columns(frames)
        columns = self._columns(frames)
        x = np.vstack([encode(frame, columns, file) for file, frame in frames.items()])
        y, classes = self._targets(frames)
        schema = Schema(self.task, x.shape[1:], len(classes) or 1, classes, columns)
        return checked(
            Dataset(Samples(x, y), schema, self._owners(frames)), self._origin(frames), gaps=True
        )

    def _read(self, file: Path) -> pd.DataFrame:
        frame = read_table(file, self.names, self.missing)
        whole = [self.label] if self.client is None else [self.label, self.client]
        require(frame, [*whole, *self.categorical, *self.ignore], file)
        for column in whole:
            if frame[column].isna().any():
                raise DataError(
                    f"{file}: {frame[column].isna().sum()} rows without '{column}': fill or remove them"
                )
        return frame

    def _columns(self, frames: Frames) -> tuple[Column, ...]:
        left_out = {self.label, self.client, *self.ignore}
        names = [name for name in next(iter(frames.values())).columns if name not in left_out]
        if not names:
            raise DataError(
                f"{self._origin(frames)}: no column is left to learn from: shorten 'ignore'"
            )
        return tuple(
            Column(name, choices(_joined(frames, name)) if name in self.categorical else None)
            for name in names
        )

    def _targets(self, frames: Frames) -> tuple[Array, tuple[str, ...]]:
        """The targets and the names of their classes; no names where the task is regression."""
        if self.task == "regression":
            return self._label_numbers(frames)[:, None], ()
        if self.label_above is not None:
            above = self._label_numbers(frames) > self.label_above
            return above.astype(np.int64), tuple(
                f"{self.label} {sign} {self.label_above:g}" for sign in ("<=", ">")
            )
        classes = choices(_joined(frames, self.label))
        parts = [codes(frame[self.label], classes, file) for file, frame in frames.items()]
        return np.concatenate(parts), classes

    def _label_numbers(self, frames: Frames) -> Array:
        return np.concatenate([numbers(frame[self.label], file) for file, frame in frames.items()])

    def _owners(self, frames: Frames) -> Array | None:
        if self.client is not None:
            return texts(_joined(frames, self.client)).to_numpy(dtype=str)
        if len(frames) == 1:
            return None
        names = list(self.path) if isinstance(self.path, dict) else [file.stem for file in frames]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise DataError(
                f"two files are named {twice[0]}: write path as a table of owner = file"
            )
        return np.repeat(names, [len(frame) for frame in frames.values()])

    def _origin(self, frames: Frames) -> str:
        return ", ".join(map(str, frames))


def _joined(frames: Frames, column: str) -> pd.Series:
    import pandas as pd

    joined: pd.Series = pd.concat([frame[column] for frame in frames.values()])
    return joined


def _same_columns(frames: Frames) -> None:
    first, *others = frames
    for file in others:
        odd = set(frames[file].columns) ^ set(frames[first].columns)
        if odd:
            raise DataError(
                f"{file}: column '{min(odd)}' is not in both this file and {first}: make their columns agree"
            )
