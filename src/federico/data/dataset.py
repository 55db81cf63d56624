"""What the data layer hands on: a `Dataset` (everything, with labels) and `Client`s (one site's own share)."""

from dataclasses import dataclass, field

import numpy as np

from federico.types import Array, ClientId, FloatArray, IntArray, Task


@dataclass(frozen=True)
class Samples:
    """Inputs and targets side by side: x [n, ...], y [n] class numbers or [n, outputs] values."""

    x: Array
    y: Array

    def __len__(self) -> int:
        return len(self.x)

    def take(self, index: IntArray) -> "Samples":
        """The samples at these positions, in this order."""
        return Samples(self.x[index], self.y[index])


@dataclass(frozen=True)
class Column:
    """One column of a table: a number, or (with categories) a choice that becomes one input per category."""

    name: str
    categories: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Schema:
    """What a model must know of the data to be built, and what a file must hold to be predicted on."""

    task: Task
    input_shape: tuple[int, ...]
    outputs: int
    label_names: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    """The columns of a table, in order; empty where the data is not a table."""


@dataclass(frozen=True)
class Standardizer:
    """Median imputation, then standardisation, per input; fitted on one client's own training part only."""

    median: FloatArray
    mean: FloatArray
    scale: FloatArray

    def __call__(self, x: Array) -> Array:
        """Inputs without gaps, each with mean 0 and spread 1 on the data this was fitted on."""
        return (np.where(np.isnan(x), self.median, x) - self.mean) / self.scale


@dataclass(frozen=True)
class Client:
    """An id and its data, no behaviour."""

    id: ClientId
    train: Samples
    test: Samples
    distribution: int | None = None
    """The true group this client's data came from: for reports only, no method may look at it."""
    standardizer: Standardizer | None = None
    """What was done to this client's table, to be done again to whatever it predicts on."""


@dataclass(frozen=True)
class Dataset:
    """All samples of an experiment before they are shared out among clients."""

    samples: Samples
    schema: Schema
    owners: Array | None = field(default=None)
    """For natural partitions: the name of the group (hospital, person) each sample belongs to."""

    def __len__(self) -> int:
        return len(self.samples)

    @property
    def labels(self) -> IntArray:
        """What partitions cut by: the class numbers, or zeros where the task is regression."""
        if self.schema.task == "regression":
            return np.zeros(len(self), dtype=np.int64)
        return self.samples.y.astype(np.int64)
