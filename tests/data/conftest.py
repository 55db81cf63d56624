import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from federico.data.dataset import Column, Dataset, Samples, Schema

DEFAULT = Path(__file__).parents[3] / "shared" / "data"


@pytest.fixture
def real_data() -> Callable[[str], Path]:
    """The folder of real data, for tests that name what they need of it."""
    folder = Path(os.environ.get("FEDERICO_DATA", DEFAULT))

    def find(name: str) -> Path:
        if not (folder / name).exists():
            pytest.skip(f"{name} is not in {folder}: set FEDERICO_DATA to the folder that holds it")
        return folder

    return find


@pytest.fixture
def numbers_table() -> Dataset:
    """Twelve rows of two columns: the second is constant but for gaps."""
    x = np.column_stack([np.arange(12.0), np.full(12, 0.1)])
    x[::3, 1] = np.nan
    schema = Schema("classification", (2,), 2, ("no", "yes"), (Column("a"), Column("b")))
    return Dataset(Samples(x, np.arange(12) % 2), schema)
