"""Plain arrays as a checked dataset."""

from collections.abc import Sequence

import numpy as np

from federico.data.dataset import Dataset, Samples, Schema, checked, has_unusable_values
from federico.data.targets import task_of
from federico.errors import DataError
from federico.types import Array, BoolArray, Task

MOST_CLASSES = 1_000_000
"""A class number beyond this is no class number but an id or a value that was read as one."""

NUMBER_KINDS = "biuf"
"""The kinds of numpy types that hold booleans, integers or floating-point numbers."""


def dataset_from_arrays(
    x: Array,
    y: Array,
    owners: Array | None,
    origin: object,
    *,
    task: Task | None = None,
    label_names: Sequence[object] | None = None,
    is_test: BoolArray | None = None,
) -> Dataset:
    """A checked dataset of inputs `x`, targets `y` and the owner of each sample.

    Without a `task` it is told from the targets, see `task_of`. Without `label_names`, classes are
    named by their numbers. `is_test` is given where the data says which samples to test on. Errors
    name the `origin`.
    """
    if task is None:
        task = task_of(y)
    samples = Samples(as_inputs(x, origin), _as_targets(y, task, origin))
    shape = samples.x.shape[1:]

    if task == "regression":
        schema = Schema(task, shape, samples.y.shape[1])
    else:
        names = _label_names(samples.y, label_names, origin)
        schema = Schema(task, shape, len(names), names)
    return checked(Dataset(samples, schema, owners, is_test), origin)


def as_inputs(x: Array, origin: object) -> Array:
    """Inputs in a type that models take.

    Images stay bytes and double precision stays double; everything else becomes float32.
    """
    if x.ndim == 1 and x.dtype.kind in NUMBER_KINDS:
        raise DataError(
            f"{origin}: inputs must be numbers with one row per sample, not {x.dtype} of shape "
            f"{x.shape}; of a single sample write x.reshape(1, -1), of a single column "
            "x.reshape(-1, 1)"
        )
    if x.ndim < 2 or x.dtype.kind not in NUMBER_KINDS:
        raise DataError(
            f"{origin}: inputs must be numbers with one row per sample, "
            f"not {x.dtype} of shape {x.shape}"
        )
    if x.dtype == np.uint8 and x.ndim == 4:
        return x
    # Written on another machine, doubles may have the other byte order; they are doubles still.
    if x.dtype.newbyteorder("=") == np.float64:
        return x.astype(np.float64, copy=False)
    return x.astype(np.float32, copy=False)


def _as_targets(y: Array, task: Task, origin: object) -> Array:
    """Class numbers as int64, or values as float64 [samples, outputs]."""
    if y.ndim == 0 or y.dtype.kind not in NUMBER_KINDS:
        raise DataError(
            f"{origin}: targets must be an array of numbers, not {y.dtype}: "
            "number the classes from 0"
        )

    if task == "regression":
        if y.ndim == 1:
            y = y[:, None]
        return y.astype(np.float64, copy=False)

    # Whole numbers may be stored as floats; anything between them is no class number.
    if y.dtype.kind == "f" and (has_unusable_values(y) or (y != np.floor(y)).any()):
        raise DataError(
            f"{origin}: labels must be class numbers 0, 1, 2, ...: "
            "put their names in an array of their own"
        )
    return y.astype(np.int64, copy=False)


def _label_names(y: Array, given: Sequence[object] | None, origin: object) -> tuple[str, ...]:
    """The given names of the classes, or the numbers up to the highest that occurs."""
    if given is not None:
        return tuple(str(name) for name in given)

    highest = int(y.max(initial=0))
    if highest >= MOST_CLASSES:
        raise DataError(
            f"{origin}: class number {highest}: "
            "number the classes from 0, or set task to regression"
        )
    return tuple(str(number) for number in range(highest + 1))
