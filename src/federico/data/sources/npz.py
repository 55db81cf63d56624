"""Arrays of an npz file."""

from pathlib import Path
from typing import Literal, Self

from federico.data.arrays import dataset_from_arrays
from federico.data.dataset import Dataset, Schema, has_unusable_values
from federico.data.files import read_npz
from federico.data.fixed_split import marked_for_testing
from federico.data.sources.base import SourceOptions
from federico.data.targets import many_classes_hint
from federico.errors import DataError
from federico.types import Array, Task


class Npz(SourceOptions):
    """Your own arrays, written with numpy.savez."""

    kind: Literal["npz"] = "npz"
    """Arrays of an npz file."""
    path: Path
    """The npz file."""
    x: str = "x"
    """Name of the array of inputs, one row per sample; bytes of shape (samples, channels, height,
    width) are images."""
    y: str = "y"
    """Name of the array of targets: class numbers from 0, or values."""
    client: str | None = None
    """Name of the array that says who owns each sample, for the natural partition."""
    labels: str | None = None
    """Name of the array of class names; without it, classes are named by their numbers."""
    test: str | None = None
    """Name of the array that says what each sample is for, `test` (or 1) or `train` (or 0); without
    it, `[split]` divides each client's samples at random."""
    task: Task | None = None
    """What to learn; without it, whole numbers in y are classes, others values to predict
    (regression)."""

    def load(self, folder: Path, seed: int) -> Dataset:
        """The samples of the file, in its order."""
        file = folder / self.path
        x, y = read_npz(file, self.x, self.y)

        label_names = None
        if self.labels is not None:
            label_names = _read_names(file, self.labels).tolist()
        owners = None
        if self.client is not None:
            owners = _read_names(file, self.client)
        is_test = None
        if self.test is not None:
            is_test = marked_for_testing(_read_names(file, self.test), file, self.test)
        return dataset_from_arrays(
            x, y, owners, file, task=self.task, label_names=label_names, is_test=is_test
        )

    def for_task(self, task: Task) -> Self:
        """See `SourceOptions`."""
        if self.task is not None:
            return self
        return self.model_copy(update={"task": task})

    def hints(self, schema: Schema) -> list[str]:
        """Many whole numbers that nobody has said to be classes."""
        hint = many_classes_hint(schema)
        if self.task is not None or not hint:
            return []
        return [hint]


def _read_names(file: Path, array: str) -> Array:
    """A list of names; numbers become texts."""
    (names,) = read_npz(file, array)
    if names.ndim != 1:
        raise DataError(
            f"{file}: array '{array}' has shape {names.shape}: it must be a list of names"
        )
    if has_unusable_values(names):
        raise DataError(f"{file}: array '{array}' holds missing values: name all of them")
    try:
        return names.astype(str)
    except UnicodeDecodeError as error:
        raise DataError(f"{file}: array '{array}' must hold texts, not bytes: {error}") from error
