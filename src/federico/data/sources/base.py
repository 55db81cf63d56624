"""What every kind of data has in common."""

from abc import ABC, abstractmethod
from pathlib import Path

from federico.data.dataset import Dataset
from federico.options import Options


class SourceOptions(Options, ABC):
    """Where the samples of an experiment come from."""

    @abstractmethod
    def load(self, folder: Path, seed: int) -> Dataset:
        """All samples, checked.

        Relative paths start from `folder`. Artificial noise depends on `seed`, nothing else does.
        """
