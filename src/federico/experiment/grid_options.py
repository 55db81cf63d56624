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
    """Name of the row; if it is the name of a method, the method's title is shown."""
    method: str = "federico"
    """The method that the row runs."""
    set: dict[str, Any] = Field(default={})
    """What the row changes in the experiment, by dotted keys; it takes precedence over its
    column."""
    panel: str = ""
    """The panel that the row is drawn in, in a figure with `draw = "curves"`."""


class TuningOptions(Options):
    """How the best learning rate of a row is found: on training data alone, never on test data.

    A rate that was found in the same way before and saved in `results/<name>` is used again.
    """

    rates: tuple[PositiveFloat, ...] = (0.01, 0.003, 0.001, 0.0003)
    """The learning rates to choose from."""
    rounds: PositiveInt | None = None
    """Rounds of a tuning run; those of the experiment if not set."""
    column: str | None = None
    """The column that a row's rate is chosen in, for all columns; if not set, each column has its
    own."""
    seeds: PositiveInt = 1
    """How many seeds to tune on, starting with the first."""
    validation_fraction: float = Field(default=0.2, gt=0, lt=1)
    """Fraction of each client's training samples that a tuning run is evaluated on."""


class GridOptions(Options):
    """What is run: every row in every column, at every kind of learning rate, on every seed."""

    title: str = ""
    """Title of the tables and the page; the file's name if not set."""
    columns: tuple[GridColumn, ...] = (GridColumn(),)
    """The problems; the file's own if not set."""
    rows: tuple[GridRow, ...] = ()
    """The methods and variants; a row for each of the file's `methods` if not set."""
    rates: tuple[ShownRate, ...] = ("given",)
    """Learning rates: `given` is the one in the file, `best` is found by tuning for each row and
    column."""
    tuning: TuningOptions = TuningOptions()
    """How the best rate is found."""
    reference: str | None = None
    """The row that the others are compared with, seed by seed; if not set, the first that runs
    `local`."""
    spread: Literal["seeds", "clients"] = "seeds"
    """Whether standard deviations are over seeds or over clients."""

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
