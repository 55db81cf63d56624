"""The official binary files: a record is the label bytes, then three colour planes of 32 x 32 bytes."""

from pathlib import Path
from typing import Literal

import numpy as np

from federico.data.checks import checked
from federico.data.dataset import Dataset, Samples, Schema
from federico.data.files import existing
from federico.data.sources.base import SourceOptions
from federico.errors import DataError

PIXELS = 3 * 32 * 32


class Cifar10(SourceOptions):
    """CIFAR-10: colour images of 32 x 32 pixels in 10 classes."""

    kind: Literal["cifar10"] = "cifar10"
    """The training images of CIFAR-10."""
    path: Path = Path("cifar-10-batches-bin")
    """Folder of the official binary files; whichever training batches it holds are read."""

    def load(self, folder: Path, seed: int) -> Dataset:
        """The images of all training batches, in order of the files."""
        place = _folder(folder / self.path, self.kind)
        return _load(
            place, sorted(place.glob("data_batch_*.bin")), "batches.meta.txt", label_bytes=1
        )


class Cifar100(SourceOptions):
    """CIFAR-100: colour images of 32 x 32 pixels in 100 classes."""

    kind: Literal["cifar100"] = "cifar100"
    """The training images of CIFAR-100 with their fine labels."""
    path: Path = Path("cifar-100-binary")
    """Folder of the official binary files."""

    def load(self, folder: Path, seed: int) -> Dataset:
        """The training images, in order of the file."""
        place = _folder(folder / self.path, self.kind)
        return _load(place, sorted(place.glob("train.bin")), "fine_label_names.txt", label_bytes=2)


def _folder(place: Path, kind: str) -> Path:
    return existing(
        place, f"run `federico data get {kind}`, or set FEDERICO_DATA to the folder that holds it"
    )


def _load(place: Path, files: list[Path], names_file: str, *, label_bytes: int) -> Dataset:
    if not files:
        raise DataError(
            f"{place}: holds no training images (.bin): copy the official binary files there"
        )
    names = tuple(existing(place / names_file).read_text(encoding="utf-8").split())
    parts = [_records(file, label_bytes, len(names)) for file in files]
    x = np.concatenate([part.x for part in parts])
    y = np.concatenate([part.y for part in parts])
    return checked(
        Dataset(Samples(x, y), Schema("classification", x.shape[1:], len(names), names)), place
    )


def _records(file: Path, label_bytes: int, classes: int) -> Samples:
    size = label_bytes + PIXELS
    raw = np.fromfile(file, dtype=np.uint8)
    if len(raw) % size:
        raise DataError(
            f"{file}: {len(raw)} bytes are not a multiple of {size}: the file is cut off, copy it again"
        )
    records = raw.reshape(-1, size)
    labels = records[:, label_bytes - 1].astype(np.int64)
    if (labels >= classes).any():
        raise DataError(
            f"{file}: label {labels.max()} where {classes} are named: the file is damaged, copy it again"
        )
    return Samples(records[:, label_bytes:].reshape(-1, 3, 32, 32), labels)
