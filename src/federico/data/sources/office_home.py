"""Features of the Office-Home images."""

from pathlib import Path
from typing import Literal

from federico.data.arrays import dataset_from_arrays
from federico.data.dataset import Dataset
from federico.data.files import read_npz
from federico.data.sources.base import SourceOptions
from federico.errors import DataError
from federico.types import Array


class OfficeHome(SourceOptions):
    """Office-Home: features of 15,588 images of 65 kinds of things, seen in four domains."""

    kind: Literal["office-home"] = "office-home"
    """Features of the Office-Home images, all domains merged."""
    path: Path = Path("office-home/features-efficientnet-lite0-pca512.npz")
    """File with the arrays x, y, domain, class_names and domain_names."""

    def load(self, folder: Path, seed: int) -> Dataset:
        """The images of all domains, each owned by its domain.

        The features are not rescaled: their overall spread is 1 already.
        """
        file = folder / self.path
        x, y, domain = read_npz(file, "x", "y", "domain")
        class_names, domain_names = read_npz(file, "class_names", "domain_names")
        _refuse_unnamed_domains(domain, len(domain_names), file)
        return dataset_from_arrays(
            x,
            y,
            domain_names[domain],
            file,
            task="classification",
            label_names=class_names.tolist(),
        )


def _refuse_unnamed_domains(domain: Array, count: int, file: Path) -> None:
    """Refuse a file in which a sample belongs to none of the named domains."""
    if domain.dtype.kind not in "iu":
        raise DataError(f"{file}: domain must hold whole numbers, not {domain.dtype}")
    unnamed = domain[(domain < 0) | (domain >= count)]
    if len(unnamed):
        raise DataError(
            f"{file}: domain {unnamed[0]} where {count} are named: write the file again"
        )
