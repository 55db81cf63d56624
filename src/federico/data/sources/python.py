"""Arrays given to `federico.run` in Python."""

from pathlib import Path
from typing import Literal

from federico.data.dataset import Dataset
from federico.data.sources.base import SourceOptions
from federico.errors import ConfigError


class PythonArrays(SourceOptions):
    """Arrays given to `federico.run`; they are not stored, so only Python can give them again."""

    kind: Literal["python"]
    """Arrays given in Python."""

    def load(self, folder: Path, seed: int) -> Dataset:
        """Always refused: the arrays themselves have to be passed to `federico.run`."""
        raise ConfigError(
            "data: it was given in Python and is not stored; run the experiment from Python again"
        )
