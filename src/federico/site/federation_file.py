"""The federation file: what all members have agreed on. It means the same at every site."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import (
    Field,
    NonNegativeInt,
    PositiveInt,
    StringConstraints,
    field_validator,
    model_validator,
)

from federico.config_file import read_tables, validated
from federico.data.dataset import Schema, TableColumn
from federico.experiment.privacy_options import PrivacyOptions
from federico.experiment.training_options import Training, files_beside
from federico.learning.model_options import MLP, ModelOptions
from federico.methods.federico_options import FedericoOptions
from federico.network.limits import Limits
from federico.network.roster import NAME, Roster
from federico.options import Options
from federico.types import Task

PeerName = Annotated[str, StringConstraints(pattern=f"^{NAME.pattern}$")]


class ColumnOptions(Options):
    """A column of the tables that the sites keep."""

    name: str
    """Its name, the same at every site."""
    categories: tuple[str, ...] | None = None
    """The possible choices, if the column holds choices; not set if it holds numbers."""


class SampleOptions(Options):
    """What one sample looks like, at every site."""

    task: Task = "classification"
    """What is learned."""
    input_shape: tuple[PositiveInt, ...] = ()
    """Shape of one input, such as [64] or [3, 32, 32]; for tables it follows from the columns."""
    labels: tuple[str, ...] = ()
    """Names of the classes, in order; a site need not have samples of every class."""
    outputs: PositiveInt = 1
    """For regression: the number of values to predict."""
    columns: tuple[ColumnOptions, ...] = ()
    """For tables: the columns to learn from, in order."""

    @model_validator(mode="after")
    def _check_complete(self) -> Self:
        if bool(self.input_shape) == bool(self.columns):
            raise ValueError("give input_shape, or columns if the sites keep tables")
        if (self.task == "classification") != bool(self.labels):
            raise ValueError(
                "labels are for classification, which needs them, and for nothing else"
            )
        return self

    def as_schema(self) -> Schema:
        """The same in the words of the data layer."""
        columns = tuple(TableColumn(column.name, column.categories) for column in self.columns)
        return Schema(
            self.task,
            self.input_shape or (_table_width(columns),),
            len(self.labels) or self.outputs,
            self.labels,
            columns,
        )

    @classmethod
    def from_schema(cls, schema: Schema) -> "SampleOptions":
        """What a federation agrees on whose data all looks like this."""
        columns = []
        for column in schema.columns:
            columns.append(ColumnOptions(name=column.name, categories=column.categories))
        return cls(
            task=schema.task,
            input_shape=() if columns else schema.input_shape,
            labels=schema.label_names,
            outputs=1 if schema.label_names else schema.outputs,
            columns=tuple(columns),
        )


def _table_width(columns: Iterable[TableColumn]) -> int:
    """Numbers that a model is given for one row: one for a number, one per choice for a choice."""
    width = 0
    for column in columns:
        width += 1 if column.categories is None else len(column.categories)
    return width


class FederationOptions(Options):
    """A whole federation file."""

    name: PeerName
    """Name of the federation."""
    members: tuple[PeerName, ...] = Field(min_length=2)
    """The peers that take part, by the names in their certificates."""
    relays: tuple[PeerName, ...] = ()
    """Certificate names of relays, which pass on messages of sites that can only dial out."""
    rounds: PositiveInt = 30
    """Number of rounds that each member plays."""
    seed: NonNegativeInt = 0
    """Seed of all random streams."""
    mode: Literal["asynchronous", "lock-step"] = "asynchronous"
    """Every member at its own pace, or all in the same round: slower, but with the same numbers as
    a simulation."""
    dtype: Literal["float32", "float64"] = "float32"
    """Precision of the models."""
    sample: SampleOptions
    """What every site's data looks like."""
    model: ModelOptions = MLP()
    """What everybody trains."""
    training: Training = Training()
    """How it trains."""
    privacy: PrivacyOptions = PrivacyOptions()
    """What may be learned about a site's samples from what it sends."""
    federico: FedericoOptions = FedericoOptions()
    """Options of the method."""
    limits: Limits = Limits()
    """How patient members are with each other, and how strict."""

    @field_validator("members", "relays")
    @classmethod
    def _check_unique(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(names)) < len(names):
            raise ValueError("each name only once")
        return tuple(sorted(names))  # so that their order in the file does not matter

    @model_validator(mode="after")
    def _check_patience(self) -> Self:
        if self.mode == "lock-step" and self.training.patience is not None:
            raise ValueError(
                "training.patience: in lock-step every member plays every round; take it out, or "
                "set mode = 'asynchronous'"
            )
        return self

    @property
    def digest(self) -> bytes:
        """SHA-256 of what the file means: comments, order and explicit defaults do not matter."""
        meaning = self.model_dump(mode="json")
        meaning["training"] = self.training.meaning()
        return hashlib.sha256(json.dumps(meaning, sort_keys=True).encode()).digest()

    @property
    def roster(self) -> Roster:
        """The members as the network knows them."""
        return Roster(self.name, self.digest, self.members, self.relays)


def load_federation(path: Path) -> FederationOptions:
    """Read a federation file, or say all that is wrong with it."""
    tables = files_beside(read_tables(path, "federation file"), path.parent)
    return validated(FederationOptions, tables, str(path))
