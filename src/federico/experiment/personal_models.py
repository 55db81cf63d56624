"""Writes the personal models of a cell's clients, as `federico.runs` reads them."""

import json
import shutil
from collections.abc import Sequence, Set
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from federico.exchange.processes import ProcessGroup
from federico.experiment.build import Setup
from federico.learning.bank import Bank
from federico.learning.calibration import Calibration
from federico.methods.method import Method, Mixtures
from federico.runs.atomic import PARTIAL, disk_errors, sync
from federico.runs.bundle import (
    MODELS_FILE,
    base_tensors,
    folder_name,
    replace_folder,
    save_folder,
)
from federico.runs.bundle_header import FORMAT, HEADER, Header
from federico.runs.client_models import (
    CALIBRATION,
    INDEX_FILE,
    STANDARDIZER,
    TARGET_SCALE,
    mixtures_digest,
    row_digest,
    slots_of,
)
from federico.runs.comparison import Comparisons
from federico.runs.tensor_file import save_tensors
from federico.types import IntArray


def save_clients(
    folder: Path,
    setup: Setup,
    method: Method,
    mixtures: Mixtures,
    processes: ProcessGroup,
    comparisons: Comparisons | None = None,
) -> None:
    """Write the personal models of all clients; they appear all at once.

    `comparisons` say what every client is alone and together, where that is known.
    """
    mixtures = mixtures.personal()
    everything = _assemble(mixtures, processes)
    if processes.rank > 0:
        processes.wait()
        return

    tensors = _tensors(setup, everything)
    partial = folder.with_name(folder.name + PARTIAL)
    with disk_errors(folder):
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        save_tensors(partial / MODELS_FILE, tensors)
        index = _index(setup, method, everything["owners"], tensors)
        index["comparisons"] = None if comparisons is None else asdict(comparisons)
        (partial / INDEX_FILE).write_text(json.dumps(index), encoding="utf-8")
        for written in (partial / MODELS_FILE, partial / INDEX_FILE, partial):
            sync(written)
        replace_folder(partial, folder)
        sync(folder.parent)
    processes.wait()


def save_hosted_clients(
    folder: Path,
    setup: Setup,
    method: Method,
    mixtures: Mixtures,
    comparisons: Comparisons | None = None,
    *,
    only: Set[int] | None = None,
) -> None:
    """Write a folder of its own for each client that this process hosts, or for some of them.

    `comparisons` say what each of them is alone and together, where that is known.
    """
    mixtures = mixtures.personal()
    names = method.names
    for place, (index, mine) in enumerate(mixtures.visits.by_client()):
        if only is not None and index not in only:
            continue
        client = setup.clients[index]
        owners = mixtures.visits.owners[mine]
        header = Header(
            client=client.id,
            standardizer=client.standardizer,
            target_scale=client.target_scale if setup.standardizes_targets else None,
            owners=[names[b] for b in owners],
            weights=mixtures.weights[mine].tolist(),
            comparison=None if comparisons is None else comparisons.of(place),
            **_calibration_header(mixtures.calibration, mine),
            **_common_header(setup, method.name),
        )
        rows = list(mixtures.bank.whole(mixtures.visits[mine]))
        target = folder / folder_name(client.id)
        save_folder(target, header, setup.layout, rows)


def _calibration_header(calibration: Calibration | None, mine: IntArray) -> dict[str, Any]:
    """How one client reads the outputs of its models."""
    if calibration is None:
        return {}
    own = calibration.take(mine)
    return {"temperatures": own.temperatures.tolist(), "offsets": own.offsets.tolist()}


def _common_header(setup: Setup, method: str) -> dict[str, Any]:
    """What the headers of all clients of a cell have in common."""
    return {
        "method": method,
        "seed": setup.seed,
        "schema": setup.schema,
        "model": setup.experiment.located_model,
        "dtype": setup.experiment.system.dtype,
        "has_base": bool(setup.layout.base_slots),
        "table": setup.experiment.data.table_origin(),
        "input_dtype": str(setup.clients[0].train.x.dtype),
    }


def _assemble(mixtures: Mixtures, processes: ProcessGroup) -> dict[str, Tensor]:
    """The mixtures of all clients and the models in them, at the first process.

    Every process brings the models that it hosts.
    """
    visits = mixtures.visits
    if mixtures.bank.personal is None:
        by_rank = processes.gather(np.unique(visits.owners))
        used = processes.broadcast(np.unique(np.concatenate(by_rank)) if by_rank else visits.owners)
        here = np.intersect1d(mixtures.bank.owners, used)
        rows = _rows(mixtures.bank, here)
    else:
        # The clients' own parts complete the models they visit: no two have the same model.
        here = visits.owners
        rows = torch.stack(list(mixtures.bank.whole(visits))).cpu()
    parts = {
        "rows": rows,
        "owners": torch.from_numpy(here),
        "visits.clients": torch.from_numpy(visits.clients),
        "visits.owners": torch.from_numpy(visits.owners),
        "visits.weights": torch.from_numpy(np.asarray(mixtures.weights, dtype=np.float64)),
    }
    if mixtures.calibration is not None:
        parts["visits.temperatures"] = torch.from_numpy(mixtures.calibration.temperatures)
        parts["visits.offsets"] = torch.from_numpy(mixtures.calibration.offsets)
    return processes.assemble(parts)


def _rows(bank: Bank, owners: IntArray) -> Tensor:
    """The models of these owners side by side, without a copy where they already are."""
    places = bank.places(owners)
    count = len(places)
    are_first_rows = torch.equal(places.cpu(), torch.arange(count))
    if are_first_rows:
        return bank.rows[:count].cpu()
    return bank.rows.index_select(0, places).cpu()


def _tensors(setup: Setup, everything: dict[str, Tensor]) -> dict[str, Tensor]:
    """What goes into the file of models."""
    owners = everything["owners"].numpy()
    rows = everything["rows"]
    one_each = len(np.unique(owners)) == len(owners)
    if (
        one_each and (np.diff(owners) < 0).any()
    ):  # several processes: models that no client owns come early
        order = np.argsort(owners)
        rows = rows[torch.from_numpy(order)]
        owners = owners[order]
        everything["owners"] = torch.from_numpy(owners)

    clients = everything["visits.clients"].numpy()
    order = np.argsort(clients, kind="stable")
    models = order
    if one_each:
        models = np.searchsorted(owners, everything["visits.owners"].numpy()[order])
    counts = np.bincount(clients, minlength=len(setup.clients))
    tensors = {
        "rows": rows,
        **base_tensors(setup.layout),
        "mixture.counts": torch.from_numpy(counts),
        "mixture.models": torch.from_numpy(models),
        "mixture.weights": everything["visits.weights"][torch.from_numpy(order)],
    }
    for name in CALIBRATION:
        if f"visits.{name}" in everything:
            in_order = everything[f"visits.{name}"][torch.from_numpy(order)]
            tensors[f"mixture.{name}"] = in_order
    fitted = [client.standardizer for client in setup.clients]
    tensors |= _stacked("standardizer", STANDARDIZER, fitted)
    if setup.standardizes_targets:
        scales = [client.target_scale for client in setup.clients]
        tensors |= _stacked("target_scale", TARGET_SCALE, scales)
    return tensors


def _stacked(prefix: str, names: Sequence[str], fitted: Sequence[object]) -> dict[str, Tensor]:
    """What was fitted for every client, [clients, ...] under each name; nothing if nothing was."""
    if any(each is None for each in fitted):
        return {}
    tensors = {}
    for name in names:
        values = np.stack([getattr(each, name) for each in fitted])
        tensors[f"{prefix}.{name}"] = torch.from_numpy(values)
    return tensors


def _index(
    setup: Setup,
    method: Method,
    owners: Tensor,
    tensors: dict[str, Tensor],
) -> dict[str, Any]:
    """Everything that is not a number of a model."""
    placeholder = Header(
        client="",
        standardizer=None,
        target_scale=None,
        owners=[],
        weights=[],
        **_common_header(setup, method.name),
    )
    common = HEADER.dump_python(placeholder, mode="json")
    names = method.names  # worked out anew each time it is asked for
    return {
        "format": FORMAT,
        "common": common,
        "clients": [client.id for client in setup.clients],
        "owners": [names[owner] for owner in owners.tolist()],
        "slots": slots_of(setup.layout),
        "sha256": [row_digest(row) for row in tensors["rows"]],
        "mixtures_sha256": mixtures_digest(tensors),
    }
