"""What every kind of data has in common."""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Self

from federico.data.dataset import Dataset, Schema
from federico.options import Options
from federico.types import Task


class SourceOptions(Options, ABC):
    """Where the samples of an experiment come from."""

    @abstractmethod
    def load(self, folder: Path, seed: int) -> Dataset:
        """All samples, checked.

        Relative paths start from `folder`. Artificial noise depends on `seed`, nothing else does.
        """

    def for_task(self, task: Task) -> Self:
        """The same data for this task, where the options do not say what is to be learned."""
        return self

    def hints(self, schema: Schema) -> list[str]:
        """What is allowed but may be a mistake, with what to set if it is one."""
        return []
