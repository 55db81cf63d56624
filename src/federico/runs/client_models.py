"""The personal models of all clients of a cell, in two files whatever the number of clients.

    clients/  index.json          what all clients have in common, their names, owners of models,
                                  what each is alone, together and as used
              models.safetensors  rows            [models, size]     each model once
                                  base/<name>     what all models share because it was frozen
                                  mixture.counts  [clients]          models in each mixture
                                  mixture.models  [all of them]      which rows they are
                                  mixture.weights [all of them]
                                  mixture.temperatures, mixture.offsets  where models are calibrated
                                  standardizer.*  [clients, inputs]  where the data was a table
                                  target_scale.*  [clients, outputs] where targets were standardised

One client's personal model is opened by `open_client` without reading those of the others. Its
method `save` writes it to a folder of its own.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from typing import Any

import torch
from pydantic import TypeAdapter, ValidationError
from safetensors import SafetensorError, safe_open
from torch import Tensor

from federico.errors import ConfigError, RunError
from federico.learning.layout import ModelLayout
from federico.learning.models import Factory
from federico.own_code import NOTHING, Trust
from federico.runs.bundle import (
    BASE,
    MODELS_FILE,
    Bundle,
    damaged,
    folder_name,
    open_folder,
    stored_shapes,
    tensors_below,
)
from federico.runs.bundle_header import FORMAT, read_json_header, validated_header
from federico.runs.comparison import Comparisons
from federico.runs.layout import CellDir
from federico.runs.tensor_file import refuse_long_header
from federico.types import Array

INDEX_FILE = "index.json"
CALIBRATION = ("temperatures", "offsets")
STANDARDIZER = ("median", "mean", "scale")
TARGET_SCALE = ("mean", "spread")


@dataclass(frozen=True)
class Index:
    """What the index says: all that is not a number of a model."""

    common: dict[str, Any]
    """What the headers of all clients have in common."""
    clients: list[str]
    owners: list[str]
    """Whose each model is."""
    slots: list[tuple[str, list[int]]]
    """The names and shapes of a model's tensors, in the order they have in a row."""
    sha256: list[str]
    """A hash of each model."""
    mixtures_sha256: str
    comparisons: Comparisons | None = None
    """What each client is alone, together and as used; None where no model is trained alone."""
    format: int = FORMAT

    def __post_init__(self) -> None:
        """Refuse lists that are not about the same models or clients."""
        if len(self.sha256) != len(self.owners):
            raise ValueError("sha256: one for each of the owners belongs")
        if self.comparisons is None:
            return
        of_all = self.comparisons
        lists: list[Sequence[float | None]] = [of_all.together_share]
        if of_all.together_chance is not None:
            lists.append(of_all.together_chance)
        for figures in (of_all.alone, of_all.together, of_all.used):
            lists += figures.values()
        if any(len(by_client) != len(self.clients) for by_client in lists):
            raise ValueError("comparisons: one for each client belongs")


INDEX = TypeAdapter(Index)


def open_client(
    cell: CellDir, name: str, factory: Factory | None = None, *, trust: Trust = NOTHING
) -> Bundle:
    """The personal model of one client of a finished cell; `trust` as of `open_folder`."""
    folder = cell.path / "clients"
    if not folder.exists():
        raise RunError(f"{cell.path}: not finished yet; `federico run` it again and it resumes")
    if name not in cell.description.clients:
        raise RunError(f"{cell.path}: has no client {name!r}")
    own_folder = folder / folder_name(name)
    if own_folder.is_dir():  # clients that keep models of different rounds share no files
        return open_folder(own_folder, factory, trust=trust)
    index = read_index(folder)
    if name not in index.clients:
        raise RunError(f"{folder / INDEX_FILE}: has no client {name!r}")
    place = index.clients.index(name)

    tensors = _small_tensors(folder / MODELS_FILE, index)
    models, numbers = _mixture(tensors, place, index, folder / MODELS_FILE)
    raw = dict(index.common)
    raw["client"] = name
    raw["owners"] = [index.owners[model] for model in models.tolist()]
    for part, values in numbers.items():
        raw[part] = values.tolist()
    for part, names in (("standardizer", STANDARDIZER), ("target_scale", TARGET_SCALE)):
        raw[part] = None
        if f"{part}.mean" in tensors:
            raw[part] = _client_row(tensors, part, names, place, folder / MODELS_FILE)
    raw["comparison"] = None
    if index.comparisons is not None:
        raw["comparison"] = asdict(index.comparisons.of(place))
    header = validated_header(raw, folder / INDEX_FILE)

    def read_rows(layout: ModelLayout) -> list[Tensor]:
        _refuse_replaced(folder, index)
        _check_layout(layout, index.slots)
        return _read_rows(folder / MODELS_FILE, models, index.sha256, layout)

    def read_base() -> dict[str, Tensor]:
        return tensors_below(BASE, tensors)

    def stored_numbers() -> int:
        shapes = stored_shapes(folder / MODELS_FILE)
        shared = 0
        for tensor, shape in shapes.items():
            if tensor.startswith(BASE):
                shared += prod(shape)
        rows = shapes.get("rows", [])
        if len(rows) != 2:
            raise damaged(folder / MODELS_FILE)
        return rows[1] + shared

    return Bundle(header, read_rows, factory, read_base, stored_numbers=stored_numbers, trust=trust)


def read_index(folder: Path) -> Index:
    """What the index in this folder says, once it is known to be one."""
    file = folder / INDEX_FILE
    try:
        return INDEX.validate_python(read_json_header(file))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        fault = f"{place}: {first['msg']}" if place else first["msg"]
        raise RunError(
            f"{file}: damaged ({fault}); bring it back from a copy, or delete done.json of this "
            "cell and run the experiment again: it is written again from the last checkpoint"
        ) from None


def _refuse_replaced(folder: Path, index: Index) -> None:
    """Refuse to read the models of a run that was trained again since its index was read."""
    if read_index(folder) != index:
        raise RunError(
            f"{folder}: was trained again since this personal model was opened; open it again"
        )


def slots_of(layout: ModelLayout) -> list[tuple[str, list[int]]]:
    """The names and shapes of a model's tensors, in the order they have in a row."""
    return [(slot.name, list(slot.shape)) for slot in layout.slots]


def _check_layout(layout: ModelLayout, slots: list[tuple[str, list[int]]]) -> None:
    wanted = slots_of(layout)
    if wanted != slots:
        raise ConfigError(f"model: the stored tensors {slots} are not those of this model {wanted}")


def _small_tensors(file: Path, index: Index) -> dict[str, Tensor]:
    """All that the file holds beside the models, checked."""
    refuse_long_header(file)
    tensors: dict[str, Tensor] = {}
    try:
        with safe_open(file, framework="pt") as opened:
            for name in opened.keys():  # noqa: SIM118 (not a dictionary)
                if name != "rows":
                    tensors[name] = opened.get_tensor(name)
    except FileNotFoundError:
        raise RunError(f"{file.absolute()}: cannot be read: there is no such file") from None
    except (OSError, SafetensorError):
        raise damaged(file) from None
    if mixtures_digest(tensors) != index.mixtures_sha256:
        raise damaged(file)
    return tensors


def _mixture(
    tensors: dict[str, Tensor], place: int, index: Index, file: Path
) -> tuple[Tensor, dict[str, Tensor]]:
    """Which models the client's mixture has, and what it says of each."""
    counts = _whole_numbers(tensors, "mixture.counts", file)
    models = _whole_numbers(tensors, "mixture.models", file)
    if len(counts) != len(index.clients) or int(counts.sum()) != len(models):
        raise damaged(file)
    if bool((models >= len(index.owners)).any()):
        raise damaged(file)

    first = int(counts[:place].sum())
    mine = slice(first, first + int(counts[place]))
    numbers: dict[str, Tensor] = {}
    for part in ("weights", *CALIBRATION):
        values = tensors.get(f"mixture.{part}")
        if values is not None:
            if not values.is_floating_point() or values.shape[:1] != models.shape:
                raise damaged(file)
            numbers[part] = values[mine]
    return models[mine], numbers


def _whole_numbers(tensors: dict[str, Tensor], name: str, file: Path) -> Tensor:
    """A list of numbers that count or name something."""
    values = tensors.get(name)
    if values is None or values.dtype != torch.int64 or values.dim() != 1:
        raise damaged(file)
    if bool((values < 0).any()):
        raise damaged(file)
    return values


def _client_row(
    tensors: dict[str, Tensor], prefix: str, names: Sequence[str], place: int, file: Path
) -> dict[str, Array]:
    """How one client's inputs or targets were scaled."""
    row = {}
    for name in names:
        values = tensors.get(f"{prefix}.{name}")
        if values is None or values.dim() != 2 or len(values) <= place:
            raise damaged(file)
        row[name] = values[place].numpy()
    return row


def _read_rows(file: Path, models: Tensor, digests: list[str], layout: ModelLayout) -> list[Tensor]:
    """Some of the models, each checked; the others are not read."""
    rows = []
    try:
        with safe_open(file, framework="pt") as opened:
            stored = opened.get_slice("rows")
            if stored.get_shape() != [len(digests), layout.size]:
                raise damaged(file)
            for model in models.tolist():
                row = stored[model : model + 1][0].clone()
                if row.dtype != layout.dtype or row_digest(row) != digests[model]:
                    raise damaged(file)
                rows.append(row)
    except FileNotFoundError:
        raise RunError(f"{file.absolute()}: cannot be read: there is no such file") from None
    except (OSError, SafetensorError):
        raise damaged(file) from None
    return rows


def mixtures_digest(tensors: dict[str, Tensor]) -> str:
    """A hash of all that is not a model."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        if name != "rows":
            digest.update(name.encode())
            # As bytes: NumPy does not know all types of numbers that a file may hold.
            digest.update(tensors[name].reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def row_digest(row: Tensor) -> str:
    """A hash of one model."""
    return hashlib.sha256(row.contiguous().numpy().data).hexdigest()
