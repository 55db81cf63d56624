"""Ids and array types that every layer shares."""

from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
IntArray: TypeAlias = NDArray[np.int64]
FloatArray: TypeAlias = NDArray[np.float64]
BoolArray: TypeAlias = NDArray[np.bool_]

ClientId: TypeAlias = str
"""The name of a client, of the peer that acts for it, and of that peer's model."""

Task: TypeAlias = Literal["classification", "regression"]
"""What a model learns: one of several classes, or values."""
