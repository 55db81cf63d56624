"""What every kind of data has in common."""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Self

from federico.data.dataset import Dataset, Schema
from federico.data.tabular import TableOrigin
from federico.options import Options
from federico.types import Task


class SourceOptions(Options, ABC):
    """Where the samples of an experiment come from."""

    def beside(self, folder: Path) -> Self:
        """The same data, with its files taken from this folder where the folder has them.

        Paths of other files stay relative: `load` looks for them in the folder of all data.
        """
        path = getattr(self, "path", None)
        if isinstance(path, Path):
            return self.model_copy(update={"path": _found_in(folder, path)})
        if isinstance(path, tuple):
            files = tuple(_found_in(folder, file) for file in path)
            return self.model_copy(update={"path": files})
        if isinstance(path, dict):
            by_owner = {owner: _found_in(folder, file) for owner, file in path.items()}
            return self.model_copy(update={"path": by_owner})
        return self

    @abstractmethod
    def load(self, folder: Path, seed: int) -> Dataset:
        """All samples, checked.

        Relative paths start from `folder`. Artificial noise depends on `seed`, nothing else does.
        """

    def for_task(self, task: Task) -> Self:
        """The same data for this task, where the options do not say what is to be learned."""
        return self

    def table_origin(self) -> TableOrigin | None:
        """How new rows are to be read, where the data is a table."""
        return None

    def hints(self, schema: Schema) -> list[str]:
        """What is allowed but may be a mistake, with what to set if it is one."""
        return []


def _found_in(folder: Path, path: Path) -> Path:
    """The absolute path of this file in the folder, or the path as it is if it is not there."""
    beside = (folder / path).resolve()
    return beside if beside.exists() else path
