"""The personal models of all clients of a cell, in two files whatever the number of clients.

    clients/  index.json          what all clients have in common, their names, owners of models
              models.safetensors  rows            [models, size]     each model once
                                  mixture.counts  [clients]          models in each mixture
                                  mixture.models  [all of them]      which rows they are
                                  mixture.weights [all of them]
                                  standardizer.*  [clients, inputs]  where the data was a table

One client's personal model is opened by `open_client` without reading those of the others. Its
method `save` writes it to a folder of its own.
"""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from federico.data.standardizer import Standardizer
from federico.errors import ConfigError, RunError
from federico.exchange.processes import ProcessGroup
from federico.experiment.build import Setup
from federico.learning.bank import Bank
from federico.learning.layout import ModelLayout
from federico.learning.models import Factory
from federico.methods.method import Method, Mixtures
from federico.runs.atomic import PARTIAL, disk_errors, sync
from federico.runs.bundle import (
    FORMAT,
    HEADER,
    MODELS_FILE,
    Bundle,
    Header,
    common_header,
    damaged,
    read_json_header,
    replace_folder,
    validated_header,
)
from federico.runs.layout import CellDir
from federico.runs.tensor_file import save_tensors
from federico.types import IntArray

INDEX_FILE = "index.json"
STANDARDIZER = ("median", "mean", "scale")


def save_clients(
    folder: Path, setup: Setup, method: Method, mixtures: Mixtures, team: ProcessGroup
) -> None:
    """Write the personal models of all clients; they appear all at once."""
    everything = _assemble(mixtures, team)
    if team.rank > 0:
        team.wait()
        return

    tensors = _tensors(setup, everything)
    partial = folder.with_name(folder.name + PARTIAL)
    with disk_errors(folder):
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        save_tensors(partial / MODELS_FILE, tensors)
        index = _index(setup, method, mixtures.bank.layout, everything["owners"], tensors)
        (partial / INDEX_FILE).write_text(json.dumps(index), encoding="utf-8")
        for written in (partial / MODELS_FILE, partial / INDEX_FILE, partial):
            sync(written)
        replace_folder(partial, folder)
        sync(folder.parent)
    team.wait()


def open_client(cell: CellDir, name: str, factory: Factory | None = None) -> Bundle:
    """The personal model of one client of a finished cell."""
    folder = cell.path / "clients"
    if not folder.exists():
        raise RunError(f"{cell.path}: not finished yet; `federico run` it again and it resumes")
    index = read_json_header(folder / INDEX_FILE)
    try:
        place = index["clients"].index(name)
    except (KeyError, ValueError):
        raise RunError(f"{folder / INDEX_FILE}: has no client {name!r}") from None

    models, weights, standardizer = _mixture(folder / MODELS_FILE, index, place)
    raw = dict(index["common"])
    raw["client"] = name
    raw["owners"] = [index["owners"][model] for model in models.tolist()]
    raw["weights"] = weights.tolist()
    raw["standardizer"] = None
    header = validated_header(raw, folder / INDEX_FILE)
    if standardizer is not None:
        header = Header(**{**vars(header), "standardizer": standardizer})

    def read_rows(layout: ModelLayout) -> list[Tensor]:
        _check_layout(layout, index["slots"])
        return _read_rows(folder / MODELS_FILE, models, index["sha256"])

    return Bundle(header, read_rows, factory)


def _assemble(mixtures: Mixtures, team: ProcessGroup) -> dict[str, Tensor]:
    """The mixtures of all clients and the models in them, at the first process of the team.

    Every process brings the models that it hosts.
    """
    visits = mixtures.visits
    by_rank = team.gather(np.unique(visits.owners))
    used = team.broadcast(np.unique(np.concatenate(by_rank)) if by_rank else visits.owners)
    here = np.intersect1d(mixtures.bank.owners, used)
    return team.assemble(
        {
            "rows": _rows(mixtures.bank, here),
            "owners": torch.from_numpy(here),
            "visits.clients": torch.from_numpy(visits.clients),
            "visits.owners": torch.from_numpy(visits.owners),
            "visits.weights": torch.from_numpy(np.asarray(mixtures.weights, dtype=np.float64)),
        }
    )


def _rows(bank: Bank, owners: IntArray) -> Tensor:
    """The models of these owners side by side, without a copy where they already are."""
    places = bank.places(owners)
    if torch.equal(places.cpu(), torch.arange(len(places))):
        return bank.rows[: len(places)].cpu()
    return bank.rows.index_select(0, places).cpu()


def _tensors(setup: Setup, everything: dict[str, Tensor]) -> dict[str, Tensor]:
    """What goes into the file of models."""
    owners = everything["owners"].numpy()
    rows = everything["rows"]
    if (np.diff(owners) < 0).any():  # several processes: models that no client owns come early
        order = np.argsort(owners)
        rows = rows[torch.from_numpy(order)]
        owners = owners[order]
        everything["owners"] = torch.from_numpy(owners)

    clients = everything["visits.clients"].numpy()
    order = np.argsort(clients, kind="stable")
    models = np.searchsorted(owners, everything["visits.owners"].numpy()[order])
    counts = np.bincount(clients, minlength=len(setup.clients))
    tensors = {
        "rows": rows,
        "mixture.counts": torch.from_numpy(counts),
        "mixture.models": torch.from_numpy(models),
        "mixture.weights": everything["visits.weights"][torch.from_numpy(order)],
    }
    fitted = [client.standardizer for client in setup.clients]
    if all(each is not None for each in fitted):
        for name in STANDARDIZER:
            values = np.stack([getattr(each, name) for each in fitted])
            tensors[f"standardizer.{name}"] = torch.from_numpy(values)
    return tensors


def _index(
    setup: Setup,
    method: Method,
    layout: ModelLayout,
    owners: Tensor,
    tensors: dict[str, Tensor],
) -> dict[str, Any]:
    """Everything that is not a number of a model."""
    placeholder = Header(
        client="", standardizer=None, owners=[], weights=[], **common_header(setup, method.name)
    )
    common = HEADER.dump_python(placeholder, mode="json")
    return {
        "format": FORMAT,
        "common": common,
        "clients": [client.id for client in setup.clients],
        "owners": [method.names[owner] for owner in owners.tolist()],
        "slots": _slots(layout),
        "sha256": [_digest(row) for row in tensors["rows"]],
        "mixtures_sha256": _mixtures_digest(tensors),
    }


def _slots(layout: ModelLayout) -> list[list[Any]]:
    """The names and shapes of a model's tensors, in the order they have in a row."""
    return [[slot.name, list(slot.shape)] for slot in layout.slots]


def _check_layout(layout: ModelLayout, slots: list[list[Any]]) -> None:
    wanted = _slots(layout)
    if wanted != slots:
        raise ConfigError(f"model: the stored tensors {slots} are not those of this model {wanted}")


def _mixture(
    file: Path, index: dict[str, Any], place: int
) -> tuple[Tensor, Tensor, Standardizer | None]:
    """Which models the client's mixture has, their weights, and how its table was scaled."""
    tensors: dict[str, Tensor] = {}
    try:
        with safe_open(file, framework="pt") as opened:
            for name in opened.keys():  # noqa: SIM118 (not a dictionary)
                if name != "rows":
                    tensors[name] = opened.get_tensor(name)
    except FileNotFoundError:
        raise RunError(f"{file}: cannot be read: there is no such file") from None
    except (OSError, SafetensorError):
        raise damaged(file) from None
    if _mixtures_digest(tensors) != index["mixtures_sha256"]:
        raise damaged(file)

    counts = tensors["mixture.counts"]
    first = int(counts[:place].sum())
    mine = slice(first, first + int(counts[place]))
    standardizer = None
    if "standardizer.mean" in tensors:
        parts = [tensors[f"standardizer.{name}"][place].numpy() for name in STANDARDIZER]
        standardizer = Standardizer(*parts)
    return tensors["mixture.models"][mine], tensors["mixture.weights"][mine], standardizer


def _read_rows(file: Path, models: Tensor, digests: list[str]) -> list[Tensor]:
    """Some of the models, each checked; the others are not read."""
    rows = []
    try:
        with safe_open(file, framework="pt") as opened:
            stored = opened.get_slice("rows")
            for model in models.tolist():
                row = stored[model : model + 1][0].clone()
                if _digest(row) != digests[model]:
                    raise damaged(file)
                rows.append(row)
    except FileNotFoundError:
        raise RunError(f"{file}: cannot be read: there is no such file") from None
    except (OSError, SafetensorError):
        raise damaged(file) from None
    return rows


def _mixtures_digest(tensors: dict[str, Tensor]) -> str:
    """A hash of all that is not a model."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        if name != "rows":
            digest.update(name.encode())
            digest.update(tensors[name].contiguous().numpy().tobytes())
    return digest.hexdigest()


def _digest(row: Tensor) -> str:
    return hashlib.sha256(row.contiguous().numpy().data).hexdigest()
