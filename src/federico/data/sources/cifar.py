"""CIFAR-10 and CIFAR-100, read from the official binary files.

A record of these files is the label bytes, then three colour planes of 32 x 32 bytes each.
"""

from pathlib import Path
from typing import Literal

import numpy as np

from federico.data.dataset import Dataset, Samples, Schema, checked
from federico.data.files import existing
from federico.data.sources.base import SourceOptions
from federico.errors import DataError

IMAGE_SHAPE = (3, 32, 32)
IMAGE_BYTES = 3 * 32 * 32


class Cifar10(SourceOptions):
    """CIFAR-10: colour images of 32 x 32 pixels in 10 classes."""

    kind: Literal["cifar10"] = "cifar10"
    """The training images of CIFAR-10."""
    path: Path = Path("cifar-10-batches-bin")
    """Folder of the official binary files; whichever training batches it holds are read."""

    def load(self, folder: Path, seed: int) -> Dataset:
        """The images of all training batches, in the order of the files."""
        return _load(
            folder / self.path,
            self.kind,
            images="data_batch_*.bin",
            label_names="batches.meta.txt",
            label_bytes=1,
        )


class Cifar100(SourceOptions):
    """CIFAR-100: colour images of 32 x 32 pixels in 100 classes."""

    kind: Literal["cifar100"] = "cifar100"
    """The training images of CIFAR-100 with their fine labels."""
    path: Path = Path("cifar-100-binary")
    """Folder of the official binary files."""

    def load(self, folder: Path, seed: int) -> Dataset:
        """The training images, in the order of the file."""
        # The first label byte is the coarse label, the second the fine one.
        return _load(
            folder / self.path,
            self.kind,
            images="train.bin",
            label_names="fine_label_names.txt",
            label_bytes=2,
        )


def _load(folder: Path, kind: str, *, images: str, label_names: str, label_bytes: int) -> Dataset:
    """The images of all files that match the pattern, with the label in the last label byte."""
    existing(
        folder, f"run `federico data get {kind}`, or set FEDERICO_DATA to the folder that holds it"
    )
    files = sorted(folder.glob(images))
    if not files:
        raise DataError(
            f"{folder}: holds no training images (.bin): copy the official binary files there"
        )
    names_file = existing(folder / label_names)
    names = tuple(names_file.read_text(encoding="utf-8").split())

    parts = [_read_records(file, label_bytes, len(names)) for file in files]
    x = np.concatenate([part.x for part in parts])
    y = np.concatenate([part.y for part in parts])
    schema = Schema("classification", IMAGE_SHAPE, len(names), names)
    return checked(Dataset(Samples(x, y), schema), folder)


def _read_records(file: Path, label_bytes: int, classes: int) -> Samples:
    """The images of one file: each record has one or two labels, of which the last counts."""
    record_bytes = label_bytes + IMAGE_BYTES
    raw = np.fromfile(file, dtype=np.uint8)
    if len(raw) % record_bytes:
        raise DataError(
            f"{file}: {len(raw)} bytes are not a multiple of {record_bytes}: "
            "the file is cut off, copy it again"
        )

    records = raw.reshape(-1, record_bytes)
    labels = records[:, label_bytes - 1].astype(np.int64)
    if (labels >= classes).any():
        raise DataError(
            f"{file}: label {labels.max()} where {classes} are named: "
            "the file is damaged, copy it again"
        )
    images = records[:, label_bytes:].reshape(-1, *IMAGE_SHAPE)
    return Samples(images, labels)
