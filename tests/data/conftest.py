import numpy as np
import pytest

from federico.data.dataset import Dataset, Samples, Schema, TableColumn


@pytest.fixture
def numbers_table() -> Dataset:
    """Twelve rows of two columns: the second is constant but for gaps."""
    x = np.column_stack([np.arange(12.0), np.full(12, 0.1)])
    x[::3, 1] = np.nan
    schema = Schema("classification", (2,), 2, ("no", "yes"), (TableColumn("a"), TableColumn("b")))
    return Dataset(Samples(x, np.arange(12) % 2), schema)
