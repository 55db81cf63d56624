"""What holds for every dataset, wherever it comes from."""

from collections.abc import Iterator

import numpy as np

from federico.data.dataset import Dataset
from federico.errors import DataError
from federico.types import Array


def checked(dataset: Dataset, origin: object, *, gaps: bool = False) -> Dataset:
    """The dataset itself, or a `DataError` that names its origin; `gaps` allows missing values (NaN) in the inputs."""
    fault = next(_faults(dataset, gaps), None)
    if fault is not None:
        raise DataError(f"{origin}: {fault}")
    return dataset


def unusable(x: Array, *, gaps: bool = False) -> bool:
    """Whether any value is infinite, or missing where there may be no gaps."""
    if not np.issubdtype(x.dtype, np.floating):
        return False
    return bool((np.isinf(x) if gaps else ~np.isfinite(x)).any())


def _faults(dataset: Dataset, gaps: bool) -> Iterator[str]:
    x, y, schema = dataset.samples.x, dataset.samples.y, dataset.schema
    if len(x) == 0:
        yield "holds no samples: at least one is needed"
    if len(y) != len(x):
        yield f"holds {len(x)} inputs but {len(y)} targets: there must be one target for each input"
    if dataset.owners is not None and len(dataset.owners) != len(x):
        yield f"holds {len(x)} inputs but {len(dataset.owners)} client names: there must be one name for each input"
    if unusable(x, gaps=gaps):
        yield "the inputs hold infinite or missing values: remove or fill them"
    yield from (
        _label_faults(y, schema.outputs) if schema.task == "classification" else _value_faults(y)
    )


def _label_faults(y: Array, classes: int) -> Iterator[str]:
    if y.ndim != 1 or not np.issubdtype(y.dtype, np.integer):
        yield f"labels must be one class number for each sample, not {y.dtype} of shape {y.shape}"
    elif y.min() < 0 or y.max() >= classes:
        yield f"labels run from {y.min()} to {y.max()}: they must lie in 0..{classes - 1}"


def _value_faults(y: Array) -> Iterator[str]:
    if y.ndim != 2 or not np.issubdtype(y.dtype, np.floating):
        yield f"targets must be numbers of shape (samples, outputs), not {y.dtype} of shape {y.shape}"
    elif unusable(y):
        yield "the targets hold infinite or missing values: remove those samples"
