"""Images in one folder per label."""

from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field

from federico.data.dataset import Dataset, Samples, Schema, checked
from federico.data.files import existing, first_line
from federico.data.sources.base import SourceOptions
from federico.errors import DataError
from federico.types import Array

SUFFIXES = {".png", ".jpg", ".jpeg"}


class ImageFolder(SourceOptions):
    """Your own PNG or JPEG images, in one folder per label."""

    kind: Literal["image-folder"] = "image-folder"
    """Images in one folder per label."""
    path: Path
    """Folder whose subfolders are the labels."""
    size: int = Field(default=32, ge=1)
    """Width and height in pixels that every image is resized to."""

    def load(self, folder: Path, seed: int) -> Dataset:
        """All images in colour, ordered by label and then by file name."""
        root = existing(folder / self.path)
        if not root.is_dir():
            raise DataError(f"{root}: is a file; name the folder whose subfolders are the labels")

        labels = _label_folders(root)
        images: list[Array] = []
        numbers: list[int] = []
        for number, label in enumerate(labels):
            for file in _image_files(root / label):
                images.append(_read_pixels(file, self.size))
                numbers.append(number)
        if not images:
            raise DataError(
                f"{root}: no PNG or JPEG images found: put them in one subfolder per label"
            )

        x = np.stack(images)
        y = np.array(numbers, dtype=np.int64)
        schema = Schema("classification", x.shape[1:], len(labels), tuple(labels))
        return checked(Dataset(Samples(x, y), schema), root)


def _label_folders(root: Path) -> list[str]:
    """The names of the subfolders, without the hidden ones that other programs leave behind."""
    folders = [entry.name for entry in root.iterdir() if entry.is_dir()]
    return sorted(name for name in folders if not name.startswith("."))


def _image_files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.suffix.lower() in SUFFIXES)


def _read_pixels(file: Path, size: int) -> Array:
    """The image as bytes [3, size, size]."""
    from PIL import Image

    try:
        with Image.open(file) as image:
            resized = image.convert("RGB").resize((size, size))
            pixels = np.asarray(resized)  # [size, size, 3]
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DataError(
            f"{file}: not a readable image ({first_line(error)}): remove or replace it"
        ) from error
    return pixels.transpose(2, 0, 1)
