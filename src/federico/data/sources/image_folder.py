from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field

from federico.data.checks import checked
from federico.data.dataset import Dataset, Samples, Schema
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
        """All images in colour, by label and then by file name."""
        place = existing(folder / self.path)
        if not place.is_dir():
            raise DataError(f"{place}: is a file; name the folder whose subfolders are the labels")
        labels = sorted(entry.name for entry in place.iterdir() if entry.is_dir())
        files = [
            (file, number) for number, label in enumerate(labels) for file in _images(place / label)
        ]
        if not files:
            raise DataError(
                f"{place}: no PNG or JPEG images found: put them in one subfolder per label"
            )
        x = np.stack([_pixels(file, self.size) for file, _ in files])
        y = np.array([number for _, number in files], dtype=np.int64)
        schema = Schema("classification", x.shape[1:], len(labels), tuple(labels))
        return checked(Dataset(Samples(x, y), schema), place)


def _images(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.suffix.lower() in SUFFIXES)


def _pixels(file: Path, size: int) -> Array:
    """Bytes of shape (3, size, size)."""
    from PIL import Image

    try:
        with Image.open(file) as image:
            return np.asarray(image.convert("RGB").resize((size, size))).transpose(2, 0, 1)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DataError(
            f"{file}: not a readable image ({first_line(error)}): remove or replace it"
        ) from error
