from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from federico.data.checks import checked, unusable
from federico.data.dataset import Dataset, Samples, Schema
from federico.data.files import read_npz
from federico.data.sources.base import SourceOptions
from federico.errors import DataError
from federico.types import Array, Task

MOST_CLASSES = 1_000_000


class Npz(SourceOptions):
    """Your own arrays, written with numpy.savez."""

    kind: Literal["npz"] = "npz"
    """Arrays of an npz file."""
    path: Path
    """The npz file."""
    x: str = "x"
    """Name of the array of inputs, one row per sample; bytes of shape (samples, channels, height, width) are images."""
    y: str = "y"
    """Name of the array of targets: class numbers from 0, or values."""
    client: str | None = None
    """Name of the array that says whose each sample is, for the natural partition."""
    labels: str | None = None
    """Name of the array of class names; without it the classes are named by their numbers."""
    task: Task | None = None
    """What to learn; without it whole numbers in y mean classification, others regression."""

    def load(self, folder: Path, seed: int) -> Dataset:
        """The samples of the file, in its order."""
        file = folder / self.path
        x, y = read_npz(file, self.x, self.y)
        names = None if self.labels is None else read_npz(file, self.labels)[0].tolist()
        owners = None if self.client is None else read_npz(file, self.client)[0].astype(str)
        return from_arrays(x, y, owners, file, task=self.task, label_names=names)


def from_arrays(
    x: Array,
    y: Array,
    owners: Array | None,
    origin: object,
    *,
    task: Task | None = None,
    label_names: Sequence[object] | None = None,
) -> Dataset:
    """A checked dataset of plain arrays; `origin` is what errors name."""
    task = task or ("regression" if y.dtype.kind == "f" else "classification")
    samples = Samples(features(x, origin), _targets(y, task, origin))
    return checked(Dataset(samples, _schema(samples, task, label_names, origin), owners), origin)


def _schema(
    samples: Samples, task: Task, label_names: Sequence[object] | None, origin: object
) -> Schema:
    shape = samples.x.shape[1:]
    if task == "regression":
        return Schema(task, shape, samples.y.shape[1])
    highest = int(samples.y.max(initial=0))
    if label_names is None and highest >= MOST_CLASSES:
        raise DataError(
            f"{origin}: class number {highest}: number the classes from 0, or set task to regression"
        )
    names = range(highest + 1) if label_names is None else label_names
    return Schema(task, shape, len(names), tuple(map(str, names)))


def features(x: Array, origin: object) -> Array:
    """Inputs in the type models take: images stay bytes, wide floats stay wide, the rest becomes float32."""
    if x.ndim < 2 or x.dtype.kind not in "biuf":
        raise DataError(
            f"{origin}: inputs must be numbers with one row per sample, not {x.dtype} of shape {x.shape}"
        )
    if (x.dtype == np.uint8 and x.ndim == 4) or x.dtype == np.float64:
        return x
    return x.astype(np.float32, copy=False)


def _targets(y: Array, task: Task, origin: object) -> Array:
    if y.ndim == 0 or y.dtype.kind not in "biuf":
        raise DataError(
            f"{origin}: targets must be an array of numbers, not {y.dtype}: number the classes from 0"
        )
    if task == "regression":
        return (y[:, None] if y.ndim == 1 else y).astype(np.float64, copy=False)
    if y.dtype.kind == "f" and (unusable(y) or (y != np.floor(y)).any()):
        raise DataError(
            f"{origin}: labels must be class numbers 0, 1, 2, ...: put their names in an array of its own"
        )
    return y.astype(np.int64, copy=False)
