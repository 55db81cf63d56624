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
from dataclasses import asdict
from math import prod
from pathlib import Path
from typing import Any

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
from federico.runs.bundle_header import read_json_header, validated_header
from federico.runs.comparison import Comparisons
from federico.runs.layout import CellDir
from federico.types import Array

INDEX_FILE = "index.json"
CALIBRATION = ("temperatures", "offsets")
STANDARDIZER = ("median", "mean", "scale")
TARGET_SCALE = ("mean", "spread")


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
    index = read_json_header(folder / INDEX_FILE)
    try:
        place = index["clients"].index(name)
    except (KeyError, ValueError):
        raise RunError(f"{folder / INDEX_FILE}: has no client {name!r}") from None

    tensors = _small_tensors(folder / MODELS_FILE, index)
    models, numbers = _mixture(tensors, place)
    raw = dict(index["common"])
    raw["client"] = name
    raw["owners"] = [index["owners"][model] for model in models.tolist()]
    for part, values in numbers.items():
        raw[part] = values.tolist()
    raw["standardizer"] = _client_row(tensors, "standardizer", STANDARDIZER, place)
    raw["target_scale"] = _client_row(tensors, "target_scale", TARGET_SCALE, place)
    raw["comparison"] = _comparison(index, place)
    header = validated_header(raw, folder / INDEX_FILE)

    def read_rows(layout: ModelLayout) -> list[Tensor]:
        _refuse_replaced(folder, index)
        _check_layout(layout, index["slots"])
        return _read_rows(folder / MODELS_FILE, models, index["sha256"])

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


def _refuse_replaced(folder: Path, index: dict[str, Any]) -> None:
    """Refuse to read the models of a run that was trained again since its index was read."""
    if read_json_header(folder / INDEX_FILE) != index:
        raise RunError(
            f"{folder}: was trained again since this personal model was opened; open it again"
        )


def slots_of(layout: ModelLayout) -> list[list[Any]]:
    """The names and shapes of a model's tensors, in the order they have in a row."""
    return [[slot.name, list(slot.shape)] for slot in layout.slots]


def _check_layout(layout: ModelLayout, slots: list[list[Any]]) -> None:
    wanted = slots_of(layout)
    if wanted != slots:
        raise ConfigError(f"model: the stored tensors {slots} are not those of this model {wanted}")


def _comparison(index: dict[str, Any], place: int) -> dict[str, Any] | None:
    """What the client is alone, together and as used, where the method trains a model alone."""
    of_all = index.get("comparisons")
    if of_all is None:
        return None
    return asdict(Comparisons(**of_all).of(place))


def _small_tensors(file: Path, index: dict[str, Any]) -> dict[str, Tensor]:
    """All that the file holds beside the models, checked."""
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
    if mixtures_digest(tensors) != index["mixtures_sha256"]:
        raise damaged(file)
    return tensors


def _mixture(tensors: dict[str, Tensor], place: int) -> tuple[Tensor, dict[str, Tensor]]:
    """Which models the client's mixture has, and what it says of each."""
    counts = tensors["mixture.counts"]
    first = int(counts[:place].sum())
    mine = slice(first, first + int(counts[place]))
    numbers: dict[str, Tensor] = {}
    for part in ("weights", *CALIBRATION):
        if f"mixture.{part}" in tensors:
            numbers[part] = tensors[f"mixture.{part}"][mine]
    return tensors["mixture.models"][mine], numbers


def _client_row(
    tensors: dict[str, Tensor], prefix: str, names: Sequence[str], place: int
) -> dict[str, Array] | None:
    """How one client's inputs or targets were scaled; None where they were not."""
    if f"{prefix}.mean" not in tensors:
        return None
    return {name: tensors[f"{prefix}.{name}"][place].numpy() for name in names}


def _read_rows(file: Path, models: Tensor, digests: list[str]) -> list[Tensor]:
    """Some of the models, each checked; the others are not read."""
    rows = []
    try:
        with safe_open(file, framework="pt") as opened:
            stored = opened.get_slice("rows")
            for model in models.tolist():
                row = stored[model : model + 1][0].clone()
                if row_digest(row) != digests[model]:
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
            digest.update(tensors[name].contiguous().numpy().tobytes())
    return digest.hexdigest()


def row_digest(row: Tensor) -> str:
    """A hash of one model."""
    return hashlib.sha256(row.contiguous().numpy().data).hexdigest()
