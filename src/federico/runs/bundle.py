"""A client's folder: its personal model and all that is needed to predict with it, movable to another machine."""

import hashlib
import json
import shutil
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import quote

import numpy as np
import torch
from pydantic import BeforeValidator, InstanceOf, TypeAdapter, ValidationError
from safetensors.torch import load

from federico.data.arrays import as_inputs
from federico.data.dataset import Client, Schema
from federico.data.inputs import read_inputs
from federico.data.standardizer import Standardizer
from federico.errors import DataError, RunError
from federico.exchange.processes import ProcessGroup
from federico.experiment.build import Setup
from federico.learning.bank import Bank
from federico.learning.layout import ModelLayout
from federico.learning.mixture import MixturePredictor
from federico.learning.models import Factory, ModelOptions
from federico.methods.method import Method, Mixtures
from federico.runs.atomic import PARTIAL, disk_errors, sync
from federico.runs.tensor_file import save_tensors
from federico.types import Array, FloatArray, IntArray

FORMAT = 1
MODELS = "models.safetensors"
LONGEST = 200


def _standardizer(value: Any) -> Standardizer | None:
    return (
        None
        if value is None
        else Standardizer(**{name: np.array(numbers) for name, numbers in value.items()})
    )


@dataclass(frozen=True)
class Header:
    """`bundle.json`: everything but the models."""

    client: str
    method: str
    seed: int
    schema: Schema
    standardizer: Annotated[InstanceOf[Standardizer] | None, BeforeValidator(_standardizer)]
    model: ModelOptions
    dtype: Literal["float32", "float64"]
    table: dict[str, list[str]] | None
    """How the training table was read: `names` of its columns and `missing` markers; None if it was no table."""
    owners: list[str]
    """Whose models make up the mixture, in the order they are stored."""
    weights: list[float]
    models_sha256: str
    format: int = FORMAT


HEADER = TypeAdapter(Header)


def folder_name(client: str) -> str:
    """A folder name for any client name."""
    name = quote(client, safe=" ")
    if name.strip(".") and len(name) <= LONGEST:
        return name
    return (
        "%" + hashlib.sha256(client.encode()).hexdigest()[:32]
    )  # "", "..", or more than a file system takes


def save_clients(
    folder: Path, setup: Setup, method: Method, mixtures: Mixtures, team: ProcessGroup
) -> None:
    """Write every client's folder, each where it is hosted; they appear all at once."""
    partial = folder.with_name(folder.name + PARTIAL)
    with disk_errors(folder):
        if team.rank == 0:
            shutil.rmtree(partial, ignore_errors=True)
        team.wait()
        for index in np.unique(mixtures.visits.clients).tolist():
            client = setup.clients[index]
            mine = np.flatnonzero(mixtures.visits.clients == index)
            owners = mixtures.visits.owners[mine]
            target = partial / folder_name(client.id)
            target.mkdir(parents=True)
            digest = _save_models(target, mixtures.bank, owners)
            header = _header(setup, client, mixtures.weights[mine])
            header |= {
                "method": method.name,
                "owners": [method.names[b] for b in owners],
                "models_sha256": digest,
            }
            (target / "bundle.json").write_text(json.dumps(header, indent=1), encoding="utf-8")
            for written in (target / MODELS, target / "bundle.json", target):
                sync(written)
        team.wait()
        if team.rank == 0:
            _swap(partial, folder)
            sync(folder.parent)


def _swap(new: Path, folder: Path) -> None:
    """Put the new folder in the place of the old one, which is gone only once the new one is there."""
    old = folder.with_name(f"{folder.name}.old{PARTIAL}")
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.replace(old)
    new.replace(folder)
    shutil.rmtree(old, ignore_errors=True)


def _save_models(folder: Path, bank: Bank, owners: IntArray) -> str:
    rows = [bank.rows[place].cpu() for place in bank.places(owners)]
    room = bank.storage.empty(
        len(rows), bank.layout.size, dtype=bank.layout.dtype, device=torch.device("cpu")
    )
    named = [bank.layout.named(row, place) for row, place in zip(rows, room, strict=True)]
    tensors = {
        f"{k}/{name}": tensor for k, model in enumerate(named) for name, tensor in model.items()
    }
    return save_tensors(folder / MODELS, tensors)


def _header(setup: Setup, client: Client, weights: FloatArray) -> dict[str, Any]:
    fitted = client.standardizer
    return {
        "format": FORMAT,
        "client": client.id,
        "seed": setup.seed,
        "schema": asdict(setup.schema),
        "standardizer": None
        if fitted is None
        else {name: value.tolist() for name, value in asdict(fitted).items()},
        "model": setup.experiment.model.model_dump(),
        "table": setup.experiment.data.model_dump(include={"names", "missing"})
        if setup.schema.columns
        else None,
        "dtype": setup.experiment.system.dtype,
        "weights": weights.tolist(),
    }


class Bundle:
    """A client's folder, read and checked."""

    def __init__(self, folder: Path, factory: Factory | None = None) -> None:
        self.folder = folder
        self._factory = factory
        self.header = _read_header(folder / "bundle.json")

    @property
    def posterior(self) -> dict[str, float]:
        """Whose models this client predicts with, and how much each weighs."""
        return dict(zip(self.header.owners, self.header.weights, strict=True))

    def collaborators(self, at_least: float = 0.01) -> list[str]:
        """The other peers whose models weigh at least this much, heaviest first."""
        others = {
            name: weight for name, weight in self.posterior.items() if name != self.header.client
        }
        ranked = sorted(others, key=lambda name: -others[name])
        return [name for name in ranked if others[name] >= at_least]

    def probabilities(self, x: Array) -> FloatArray:
        """Class probabilities [n, classes]; for regression the predicted values [n, outputs]."""
        schema = self.header.schema
        x = as_inputs(np.asarray(x), "x")
        if not len(x):
            raise DataError("x: holds no samples: at least one is needed")
        if x.shape[1:] != tuple(schema.input_shape):
            raise DataError(
                f"inputs of shape {x.shape[1:]}, where the model takes {tuple(schema.input_shape)}"
            )
        return self._predictor(self.header.standardizer(x) if self.header.standardizer else x)

    def read(self, file: Path) -> Array:
        """New inputs from a CSV, Parquet or npz file, read as the training data was."""
        return read_inputs(file, self.header.schema, **(self.header.table or {}))

    def predict(self, x: Array) -> Array:
        """For classification label names, or class numbers where those are the names; for regression values."""
        outputs = self.probabilities(x)
        if self.header.schema.task == "regression":
            return outputs
        if list(self.header.schema.label_names) == [
            str(number) for number in range(self.header.schema.outputs)
        ]:
            numbers: Array = outputs.argmax(1)
            return numbers
        labels: Array = np.array(self.header.schema.label_names)[outputs.argmax(1)]
        return labels

    @cached_property
    def _predictor(self) -> MixturePredictor:
        header, schema = self.header, self.header.schema
        factory = self._factory or header.model.factory(tuple(schema.input_shape), schema.outputs)
        layout = ModelLayout(factory, getattr(torch, header.dtype))
        stored = self._models()
        rows = [
            layout.from_named(
                {
                    name.partition("/")[2]: t
                    for name, t in stored.items()
                    if name.startswith(f"{k}/")
                }
            )
            for k in range(len(header.owners))
        ]
        return MixturePredictor(layout, rows, np.array(header.weights), schema.task)

    def _models(self) -> dict[str, torch.Tensor]:
        file = self.folder / MODELS
        try:
            content = file.read_bytes()
        except OSError as error:
            raise RunError(f"{file}: cannot be read: {error.strerror}") from error
        if hashlib.sha256(content).hexdigest() != self.header.models_sha256:
            raise RunError(
                f"{file}: damaged (its hash is not the one in bundle.json); in the run directory, delete done.json of "
                "this method and run the experiment again: the models are written anew from the last checkpoint"
            )
        models: dict[str, torch.Tensor] = load(content)
        return models


def _read_header(path: Path) -> Header:
    try:
        return HEADER.validate_json(path.read_bytes())
    except OSError as error:
        raise RunError(f"{path}: cannot be read: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        raise RunError(
            f"{path}: not a client's bundle: {'.'.join(map(str, first['loc']))}: {first['msg']}"
        ) from None
