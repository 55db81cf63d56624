"""Every kind of data an experiment can name, one file each."""

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeAlias, get_args

from pydantic import Field

from federico.data.sources.base import SourceOptions
from federico.data.sources.cifar import Cifar10, Cifar100
from federico.data.sources.digits import Digits
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
    "Entry",
    "ImageFolder",
    "Npz",
    "OfficeHome",
    "Sine",
    "Source",
    "SourceOptions",
    "Table",
    "catalogue",
]

Source: TypeAlias = Annotated[
    Digits | Sine | Cifar10 | Cifar100 | OfficeHome | Npz | Table | ImageFolder | PythonArrays,
    Field(discriminator="kind"),
]
"""The data of an experiment; `kind` says which options go with it."""

SOURCES: tuple[type[SourceOptions], ...] = tuple(
    kind for kind in get_args(get_args(Source)[0]) if kind is not PythonArrays
)
"""What an experiment file can name."""


@dataclass(frozen=True)
class Entry:
    """A line of the catalogue."""

    kind: str
    summary: str
    present: bool | None
    """Whether its files are there; nothing where the user names the files."""


def catalogue(folder: Path) -> list[Entry]:
    """All kinds of data, and which of them can be loaded from this folder."""
    return [
        Entry(
            source.model_fields["kind"].default,
            inspect.getdoc(source) or "",
            _present(source, folder),
        )
        for source in SOURCES
    ]


def _present(source: type[SourceOptions], folder: Path) -> bool | None:
    path = source.model_fields.get("path")
    if path is None:
        return True
    return None if path.is_required() else (folder / path.default).exists()
