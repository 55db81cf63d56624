from pathlib import Path
from typing import Literal

import numpy as np

from federico.data.checks import checked, unusable
from federico.data.dataset import Dataset, Samples, Schema
from federico.data.files import read_npz
from federico.data.sources.base import SourceOptions
from federico.errors import DataError
from federico.types import Array, Task


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
        task = self.task or ("regression" if y.dtype.kind == "f" else "classification")
        samples = Samples(features(x, file), _targets(y, task, file))
        owners = None if self.client is None else read_npz(file, self.client)[0].astype(str)
        return checked(Dataset(samples, self._schema(samples, task, file), owners), file)

    def _schema(self, samples: Samples, task: Task, file: Path) -> Schema:
        shape = samples.x.shape[1:]
        if task == "regression":
            return Schema(task, shape, samples.y.shape[1])
        classes = range(samples.y.max(initial=0) + 1) if self.labels is None else read_npz(file, self.labels)[0]
        return Schema(task, shape, len(classes), tuple(map(str, classes)))


def features(x: Array, file: Path) -> Array:
    """Inputs in the type models take: images stay bytes, wide floats stay wide, the rest becomes float32."""
    if x.ndim < 2 or x.dtype.kind not in "biuf":
        raise DataError(f"{file}: inputs must be numbers with one row per sample, not {x.dtype} of shape {x.shape}")
    if (x.dtype == np.uint8 and x.ndim == 4) or x.dtype == np.float64:
        return x
    return x.astype(np.float32)


def _targets(y: Array, task: Task, file: Path) -> Array:
    if y.ndim == 0 or y.dtype.kind not in "biuf":
        raise DataError(f"{file}: targets must be an array of numbers, not {y.dtype}: number the classes from 0")
    if task == "regression":
        return (y[:, None] if y.ndim == 1 else y).astype(np.float64)
    if y.dtype.kind == "f" and (unusable(y) or (y != np.floor(y)).any()):
        raise DataError(f"{file}: labels must be class numbers 0, 1, 2, ...: put their names in an array of its own")
    return y.astype(np.int64)
