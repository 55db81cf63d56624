"""What targets mean where nobody has said it: classes or values, by one rule for all own data."""

import numpy as np

from federico.data.dataset import Schema
from federico.types import Array, Task

NUMBERS = "iuf"
"""The kinds of numpy types that hold whole or floating-point numbers."""
MANY_CLASSES = 20
"""More whole numbers than this, taken for classes, are worth a hint: they may be amounts."""


def task_of(targets: Array) -> Task:
    """What is learned from these targets, [samples] or [samples, outputs].

    Numbers are values to predict if there are several for each sample, or if one of them is not
    whole. All else are classes: whole numbers, however they are stored (1 or 1.0), texts, and yes
    or no.
    """
    if targets.ndim > 1:
        return "regression"
    if targets.dtype.kind not in NUMBERS:
        return "classification"

    is_whole = np.isfinite(targets) & (np.floor(targets) == targets)
    if is_whole.all():
        return "classification"
    return "regression"


def many_classes_hint(schema: Schema) -> str:
    """A remark on whole numbers that were taken for classes and look like amounts; else empty."""
    if schema.task == "regression" or schema.outputs <= MANY_CLASSES:
        return ""
    if not all(_is_whole_number(name) for name in schema.label_names):
        return ""
    return (
        f"data: the targets are whole numbers and are taken for {schema.outputs} classes. "
        'If they are amounts, such as ages or scores, set task = "regression"; if they are '
        'classes, set task = "classification", and this hint is gone'
    )


def _is_whole_number(name: str) -> bool:
    return name.removeprefix("-").isdecimal()
