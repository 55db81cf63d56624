"""Data given to `federico.run` in Python."""

from pathlib import Path
from typing import Literal

from federico.data.dataset import Dataset
from federico.data.sources.base import SourceOptions
from federico.data.tabular import PLAIN, TableOrigin
from federico.errors import ConfigError


class PythonArrays(SourceOptions):
    """Data given to `federico.run`; it is not stored, so only Python can give it again."""

    kind: Literal["python"]
    """Data given in Python."""
    target: str | None = None
    """The column to predict, where the data was a table."""

    def load(self, folder: Path, seed: int) -> Dataset:
        """Always refused: the data itself has to be passed to `federico.run`."""
        raise ConfigError(
            "data: it was given in Python and is not stored; run the experiment from Python again"
        )

    def table_origin(self) -> TableOrigin | None:
        """See `SourceOptions`: new rows may come from a plain CSV or Parquet file."""
        if self.target is None:
            return None
        return TableOrigin(PLAIN, self.target)
