"""Every kind of data that an experiment can name, one file each.

Options must be cheap to import: a source imports pandas, scikit-learn or Pillow only when it loads.
"""

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeAlias, get_args

from pydantic import Field

from federico.data.sources.base import SourceOptions
from federico.data.sources.cifar import Cifar10, Cifar100
from federico.data.sources.digits import Digits
from federico.data.sources.fed_heart_disease import FedHeartDisease
from federico.data.sources.image_folder import ImageFolder
from federico.data.sources.npz import Npz
from federico.data.sources.office_home import OfficeHome
from federico.data.sources.python import PythonArrays
from federico.data.sources.sine import Sine
from federico.data.sources.table import Table

__all__ = [
    "SOURCES",
    "Cifar10",
    "Cifar100",
    "Digits",
    "FedHeartDisease",
    "ImageFolder",
    "Npz",
    "OfficeHome",
    "Sine",
    "Source",
    "SourceOptions",
    "SourceSummary",
    "Table",
    "list_sources",
]

Source: TypeAlias = Annotated[
    Digits
    | Sine
    | Cifar10
    | Cifar100
    | OfficeHome
    | FedHeartDisease
    | Npz
    | Table
    | ImageFolder
    | PythonArrays,
    Field(discriminator="kind"),
]
"""The data of an experiment; `kind` says which options go with it."""

SOURCES: tuple[type[SourceOptions], ...] = tuple(
    kind for kind in get_args(get_args(Source)[0]) if kind is not PythonArrays
)
"""What an experiment file can name."""


@dataclass(frozen=True)
class SourceSummary:
    """A kind of data in one line, and whether it can be loaded."""

    kind: str
    summary: str
    present: bool | None
    """Whether its files are there; None where the user names the files."""


def list_sources(folder: Path) -> list[SourceSummary]:
    """All kinds of data, and which of them can be loaded from this folder."""
    summaries: list[SourceSummary] = []
    for source in SOURCES:
        kind = source.model_fields["kind"].default
        summary = inspect.getdoc(source) or ""
        summaries.append(SourceSummary(kind, summary, _is_present(source, folder)))
    return summaries


def _is_present(source: type[SourceOptions], folder: Path) -> bool | None:
    path = source.model_fields.get("path")
    if path is None:
        # It comes with a package or is computed.
        return True
    if path.is_required():
        return None
    default_path: Path = folder / path.default
    return default_path.exists()
