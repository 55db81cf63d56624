"""The federation file: what all members have agreed on, byte for byte the same meaning at every site."""

import hashlib
import json
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
from federico.data.dataset import Column, Schema
from federico.experiment.config import Training
from federico.learning.models import MLP, ModelOptions
from federico.methods.federico import FedericoOptions
from federico.network.limits import Limits
from federico.network.roster import NAME, Roster
from federico.options import Options
from federico.types import Task

PeerName = Annotated[str, StringConstraints(pattern=f"^{NAME.pattern}$")]


class ColumnOptions(Options):
    """A column of the tables that the sites keep."""

    name: str
    """Its name at every site."""
    categories: tuple[str, ...] | None = None
    """The choices, where it holds choices; nothing where it holds numbers."""


class Sample(Options):
    """What one sample looks like, at every site."""

    task: Task = "classification"
    """What is learned."""
    input_shape: tuple[PositiveInt, ...] = ()
    """Shape of one input, such as [64] or [3, 32, 32]; follows from the columns where there are some."""
    labels: tuple[str, ...] = ()
    """Names of the classes, in order; a site need not have samples of all."""
    outputs: PositiveInt = 1
    """For regression: how many values are predicted."""
    columns: tuple[ColumnOptions, ...] = ()
    """For tables: the columns to learn from, in order."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if bool(self.input_shape) == bool(self.columns):
            raise ValueError("give input_shape, or columns if the sites keep tables")
        if (self.task == "classification") != bool(self.labels):
            raise ValueError(
                "labels are for classification, which needs them, and for nothing else"
            )
        return self

    def as_schema(self) -> Schema:
        """The same for the data layer."""
        columns = tuple(Column(column.name, column.categories) for column in self.columns)
        width = sum(
            1 if column.categories is None else len(column.categories) for column in columns
        )
        return Schema(
            self.task,
            self.input_shape or (width,),
            len(self.labels) or self.outputs,
            self.labels,
            columns,
        )

    @classmethod
    def of(cls, schema: Schema) -> "Sample":
        """What to agree on, from somebody's data."""
        columns = tuple(
            ColumnOptions(name=column.name, categories=column.categories)
            for column in schema.columns
        )
        shape = () if columns else schema.input_shape
        outputs = 1 if schema.label_names else schema.outputs
        return cls(
            task=schema.task,
            input_shape=shape,
            labels=schema.label_names,
            outputs=outputs,
            columns=columns,
        )


class Agreement(Options):
    """A whole federation file."""

    name: PeerName
    """Name of the federation."""
    members: tuple[PeerName, ...] = Field(min_length=2)
    """The peers that take part, by the names in their certificates."""
    relays: tuple[PeerName, ...] = ()
    """Names of certificates that may pass on what members say to each other, for sites that only dial out."""
    rounds: PositiveInt = 30
    """Rounds each member plays."""
    seed: NonNegativeInt = 0
    """Seed of all random streams."""
    mode: Literal["asynchronous", "lock-step"] = "asynchronous"
    """Everybody at its own pace, or all in the same round: slower, and the same numbers as a simulation."""
    dtype: Literal["float32", "float64"] = "float32"
    """Precision of the models."""
    sample: Sample
    """What every site's data looks like."""
    model: ModelOptions = MLP()
    """What everybody trains."""
    training: Training = Training()
    """How it trains."""
    federico: FedericoOptions = FedericoOptions()
    """Options of the method."""
    limits: Limits = Limits()
    """How patient members are with each other, and how strict."""

    @field_validator("members", "relays")
    @classmethod
    def _each_once(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(names)) < len(names):
            raise ValueError("each name only once")
        return tuple(sorted(names))  # so that the order in the file says nothing

    @property
    def digest(self) -> bytes:
        """SHA-256 of the meaning of the file: comments, order and spelled-out defaults do not change it."""
        meaning = self.model_dump(mode="json")
        return hashlib.sha256(json.dumps(meaning, sort_keys=True).encode()).digest()

    @property
    def roster(self) -> Roster:
        """The members as the network knows them."""
        return Roster(self.name, self.digest, self.members, self.relays)


def load_agreement(path: Path) -> Agreement:
    """Read a federation file, or say all that is wrong with it."""
    return validated(Agreement, read_tables(path, "federation file"), str(path))
