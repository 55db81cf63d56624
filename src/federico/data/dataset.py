"""What the data layer hands on: a `Dataset` (all samples) and `Client`s (one client's samples)."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from federico.data.standardizer import Standardizer, TargetScale
from federico.errors import DataError
from federico.types import Array, BoolArray, ClientId, IntArray, Task


@dataclass(frozen=True)
class Samples:
    """Inputs and targets side by side, one row of each per sample."""

    x: Array
    """Inputs [samples, ...]."""
    y: Array
    """Targets: class numbers [samples], or values [samples, outputs]."""

    def __len__(self) -> int:
        return len(self.x)

    def take(self, index: IntArray | slice) -> "Samples":
        """The samples at these positions, in this order."""
        return Samples(self.x[index], self.y[index])


@dataclass(frozen=True)
class TableColumn:
    """One column of a table: numbers, or categories that become one input each."""

    name: str
    categories: tuple[str, ...] | None = None
    """The categories in the order of their inputs; None for a column of numbers."""

    @property
    def width(self) -> int:
        """How many inputs of the model this column becomes."""
        if self.categories is None:
            return 1
        return len(self.categories)


@dataclass(frozen=True)
class Schema:
    """What a model must know of the data to be built, and what it must be given to predict."""

    task: Task
    input_shape: tuple[int, ...]
    """Shape of one input, without the axis of samples."""
    outputs: int
    """Number of classes, or of values to predict."""
    label_names: tuple[str, ...] = ()
    """Name of each class; empty for regression."""
    columns: tuple[TableColumn, ...] = ()
    """The columns of a table, in order; empty where the data is not a table."""

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """Shape of one sample as it is given to a personal model.

        For a table one number for each column, which the personal model turns into its inputs.
        """
        if self.columns:
            return (len(self.columns),)
        return self.input_shape


@dataclass(frozen=True)
class Client:
    """An id and its data; what a peer does with them is written elsewhere."""

    id: ClientId
    train: Samples
    test: Samples
    distribution: int | None = None
    """The true group this client's data came from: for reports only, no method may look at it."""
    standardizer: Standardizer | None = None
    """What was done to this client's table, to be done again to all that its model predicts on."""
    target_scale: TargetScale | None = None
    """Mean and spread of this client's training targets, where these are values; the samples here
    hold targets in their own units."""


@dataclass(frozen=True)
class Dataset:
    """All samples of an experiment, before they are divided among clients."""

    samples: Samples
    schema: Schema
    owners: Array | None = None
    """The name of the owner (hospital, person, file) of each sample, for the natural partition."""
    is_test: BoolArray | None = None
    """Whether each sample is one to test on, where the data comes with a split of its own."""
    notes: tuple[str, ...] = ()
    """What a person should know of how it was read, a line each."""

    def __len__(self) -> int:
        return len(self.samples)

    def take(self, index: IntArray) -> "Dataset":
        """The samples at these positions, in this order, with all that is known of them."""
        owners = None
        if self.owners is not None:
            owners = self.owners[index]
        is_test = None
        if self.is_test is not None:
            is_test = self.is_test[index]
        return Dataset(self.samples.take(index), self.schema, owners, is_test, self.notes)

    @property
    def labels(self) -> IntArray:
        """What partitions divide by: the class numbers, or zeros where the task is regression."""
        if self.schema.task == "regression":
            return np.zeros(len(self), dtype=np.int64)
        return self.samples.y.astype(np.int64)


def checked(dataset: Dataset, origin: object, *, allow_missing: bool = False) -> Dataset:
    """The dataset itself, or a `DataError` about the first fault found in it.

    `origin` is the file or argument that the error names. `allow_missing` lets inputs be NaN, as
    in tables, where each client fills in its missing values later.
    """
    fault = next(_faults(dataset, allow_missing), None)
    if fault is not None:
        raise DataError(f"{origin}: {fault}")
    return dataset


def has_unusable_values(x: Array, *, allow_missing: bool = False) -> bool:
    """Whether any value is infinite, or missing where missing values are not allowed."""
    if not np.issubdtype(x.dtype, np.floating):
        return False
    unusable = ~np.isfinite(x)
    if allow_missing:
        unusable = np.isinf(x)  # what is missing is NaN
    return bool(unusable.any())


def _faults(dataset: Dataset, allow_missing: bool) -> Iterator[str]:
    """What is wrong with a dataset, from the coarse to the fine.

    Each check relies on those before it, so only the first fault is sure to be one.
    """
    x = dataset.samples.x
    y = dataset.samples.y
    owners = dataset.owners

    if len(x) == 0:
        yield "holds no samples: at least one is needed"
    if 0 in x.shape[1:]:
        yield f"the inputs of a sample have shape {x.shape[1:]}: there is nothing to learn from"
    if len(y) != len(x):
        yield f"holds {len(x)} inputs but {len(y)} targets: there must be one target for each input"
    if owners is not None and owners.shape != (len(x),):
        yield (
            f"holds {len(x)} inputs but {owners.size} client names: "
            "there must be one name for each input"
        )
    if dataset.is_test is not None and dataset.is_test.shape != (len(x),):
        yield (
            f"holds {len(x)} inputs but {dataset.is_test.size} marks for testing: "
            "there must be one mark for each input"
        )
    if has_unusable_values(x, allow_missing=allow_missing):
        yield "the inputs hold infinite or missing values: remove or fill them"

    if dataset.schema.task == "classification":
        yield from _label_faults(y, dataset.schema)
    else:
        yield from _value_faults(y)


def _label_faults(y: Array, schema: Schema) -> Iterator[str]:
    """What is wrong with class numbers, or with the names of the classes."""
    if y.ndim != 1 or not np.issubdtype(y.dtype, np.integer):
        yield f"labels must be one class number for each sample, not {y.dtype} of shape {y.shape}"
        return

    lowest = y.min()
    highest = y.max()
    if lowest < 0 or highest >= schema.outputs:
        yield f"labels run from {lowest} to {highest}: they must lie in 0..{schema.outputs - 1}"

    for name, count in Counter(schema.label_names).items():
        if count > 1:
            yield f"{count} classes are named '{name}': give every class a name of its own"


def _value_faults(y: Array) -> Iterator[str]:
    if y.ndim != 2 or y.shape[1] == 0 or not np.issubdtype(y.dtype, np.floating):
        yield (
            f"targets must be numbers of shape (samples, outputs), not {y.dtype} of shape {y.shape}"
        )
    elif has_unusable_values(y):
        yield "the targets hold infinite or missing values: remove those samples"
