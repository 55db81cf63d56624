from pathlib import Path
from typing import Literal

from federico.data.dataset import Dataset
from federico.data.files import read_npz
from federico.data.sources.base import SourceOptions
from federico.data.sources.npz import from_arrays
from federico.errors import DataError


class OfficeHome(SourceOptions):
    """Office-Home: features of 15,588 images of 65 kinds of things, seen in four domains."""

    kind: Literal["office-home"] = "office-home"
    """Features of the Office-Home images, all domains merged."""
    path: Path = Path("office-home/features-efficientnet-lite0-pca512.npz")
    """File with the arrays x, y, domain, class_names and domain_names."""

    def load(self, folder: Path, seed: int) -> Dataset:
        """All domains, with the domain as owner; not rescaled, as the features' overall spread is 1 already."""
        file = folder / self.path
        x, y, domain, classes, domains = read_npz(
            file, "x", "y", "domain", "class_names", "domain_names"
        )
        if domain.dtype.kind not in "iu" or domain.max(initial=0) >= len(domains):
            raise DataError(
                f"{file}: domain {domain.max()} where {len(domains)} are named: write the file again"
            )
        return from_arrays(
            x, y, domains[domain], file, task="classification", label_names=classes.tolist()
        )
