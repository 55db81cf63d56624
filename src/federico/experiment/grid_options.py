"""The table `[grid]` of an experiment file: rows, columns and learning rates to run it for.

Columns change the problem (how many distributions, say), rows the method or its options. All cells
of a column and a seed share the partition, the initial models (where the method allows it) and the
local epochs: a row differs by what it is called after.
"""

from typing import Any, Literal

from pydantic import Field, PositiveFloat, PositiveInt, field_validator

from federico.options import Options
from federico.runs.table import ShownRate


class GridColumn(Options):
    """A problem that every row is run on."""

    name: str = ""
    """The heading."""
    set: dict[str, Any] = Field(default={})
    """What the column changes in the experiment, by dotted keys."""


class GridRow(Options):
    """A method, with options of its own."""

    name: str
    """What the row is called; the name of a method stands for its title."""
    method: str = "federico"
    """The method that the row runs."""
    set: dict[str, Any] = Field(default={})
    """What the row changes in the experiment, by dotted keys; it overrules its column."""
    panel: str = ""
    """The panel of a figure of curves that the row is drawn in."""


class TuningOptions(Options):
    """How the best learning rate of a row is found: on training data alone, never on test data.

    A rate that was found in the same way before, and saved in `results/<name>`, is used from there.
    """

    rates: tuple[PositiveFloat, ...] = (0.01, 0.003, 0.001, 0.0003)
    """The learning rates to choose from."""
    rounds: PositiveInt | None = None
    """Rounds of a tuning run; those of the experiment if not set."""
    column: str | None = None
    """The column that a row's rate is chosen in, for all columns; if not set, each column has its
    own."""
    seeds: PositiveInt = 1
    """How many of the seeds are tuned on, from the first."""
    validation_fraction: float = Field(default=0.2, gt=0, lt=1)
    """Part of each client's training samples that a tuning run is scored on."""


class GridOptions(Options):
    """Which cells an experiment has: every row in every column, at every kind of learning rate."""

    title: str = ""
    """The title of tables and page; the file's name if not set."""
    columns: tuple[GridColumn, ...] = (GridColumn(),)
    """The problems; the file's own if not set."""
    rows: tuple[GridRow, ...] = ()
    """The methods and variants; a row for each of the file's `methods` if not set."""
    rates: tuple[ShownRate, ...] = ("given",)
    """Learning rates: the one that the file gives, and the best for each row and column as found by
    tuning."""
    tuning: TuningOptions = TuningOptions()
    """How the best rate is found."""
    reference: str | None = None
    """The row that others are compared with, seed by seed; the first that runs `local` if not
    set."""
    spread: Literal["seeds", "clients"] = "seeds"
    """What a standard deviation is taken over."""

    @field_validator("columns", "rows", "rates")
    @classmethod
    def _each_once(cls, values: tuple[Any, ...]) -> tuple[Any, ...]:
        names = [value if isinstance(value, str) else value.name for value in values]
        if len(set(names)) < len(names):
            raise ValueError("two have the same name: give each a name of its own")
        return values

    @field_validator("columns", "rates")
    @classmethod
    def _at_least_one(cls, values: tuple[Any, ...]) -> tuple[Any, ...]:
        if not values:
            raise ValueError("needs at least one entry")
        return values
