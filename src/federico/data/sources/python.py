from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from federico.data.dataset import Dataset
from federico.data.partition import refuse_twins
from federico.data.sources.base import SourceOptions
from federico.data.sources.npz import from_arrays
from federico.errors import ConfigError, DataError
from federico.types import Array, ClientId, Task


class PythonArrays(SourceOptions):
    """Arrays given to `federico.run`; they are not stored, only Python can bring them back."""

    kind: Literal["python"]
    """Arrays given in Python."""

    def load(self, folder: Path, seed: int) -> Dataset:
        """Always refused: the arrays themselves have to be passed along."""
        raise ConfigError(
            "data: it was given in Python and is not stored; run it from Python again"
        )


def from_clients(
    clients: Mapping[ClientId, tuple[Array, Array]],
    *,
    task: Task | None = None,
    label_names: Sequence[str] | None = None,
) -> Dataset:
    """One dataset of all clients' arrays, each sample with its owner."""
    if not clients:
        raise DataError("clients: there are none; give a dictionary of name -> (x, y)")
    refuse_twins(map(str, clients))
    pairs = {str(name): (np.asarray(x), np.asarray(y)) for name, (x, y) in clients.items()}
    shapes = {name: x.shape[1:] for name, (x, _) in pairs.items()}
    if len(set(shapes.values())) > 1:
        raise DataError(
            f"clients: their inputs differ in shape: {shapes}; every client must measure the same things"
        )
    for name, (x, y) in pairs.items():
        if len(x) != len(y):
            raise DataError(
                f"client '{name}': {len(x)} inputs but {len(y)} targets; there must be one for each"
            )
    owners = np.repeat(list(pairs), [len(x) for x, _ in pairs.values()])
    x, y = (np.concatenate([pair[part] for pair in pairs.values()]) for part in (0, 1))
    return from_arrays(x, y, owners, "clients", task=task, label_names=label_names)
