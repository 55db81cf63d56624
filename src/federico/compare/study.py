"""A study: one experiment file, run for every row and column of a table, on every seed, at one or two learning rates.

Columns change the problem (how many distributions), rows the method or its options. All cells of a column and a seed
share partition, initial models (where the method allows it) and local epochs: a row differs by what it is called after.
"""

import copy
import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias

from pydantic import (
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    field_validator,
    model_validator,
)

from federico.errors import ConfigError
from federico.experiment.config import Experiment, assign, cell_options, read, validate, validate_as
from federico.methods import METHODS
from federico.options import Options

At: TypeAlias = Literal["given", "best"]
LOCAL = "local"


class Column(Options):
    """A problem that every row is run on."""

    name: str = ""
    """The heading."""
    set: dict[str, Any] = Field(default={})
    """What it changes in the experiment, by dotted keys."""


class Row(Options):
    """A method, with options of its own."""

    name: str
    """What the row is called; the name of a method stands for its title."""
    method: str = "federico"
    """The method it runs."""
    set: dict[str, Any] = Field(default={})
    """What it changes in the experiment, by dotted keys; it has the last word over its column."""
    panel: str = ""
    """The part of a figure of curves that it is drawn in."""

    @field_validator("method")
    @classmethod
    def _known(cls, method: str) -> str:
        if method not in METHODS:
            raise ValueError(f"not a method; allowed: {', '.join(METHODS)}")
        return method


class Tuning(Options):
    """How the best learning rate of a row in a column is found: on training data alone, never on test data.

    A rate that was found in the same way before, and saved in `results/<name>.json`, is used from there, and said.
    """

    rates: tuple[PositiveFloat, ...] = (0.01, 0.003, 0.001, 0.0003)
    """The learning rates to choose from."""
    rounds: PositiveInt | None = None
    """Rounds of a tuning run; those of the experiment if not set."""
    column: str | None = None
    """The column that a row's rate is chosen in, for all columns; each column has its own if not set."""
    seeds: PositiveInt = 1
    """How many of the seeds are tuned on, from the first."""
    validation_fraction: float = Field(default=0.2, gt=0, lt=1)
    """Part of each client's training samples that a tuning run is scored on."""


class Paper(Options):
    """What a paper reports of the same study, to be shown beside the result."""

    where: str = ""
    """The table or figure."""
    rounds: PositiveInt | None = None
    """Rounds it was run for."""
    runs: PositiveInt | None = None
    """Runs it is the mean of."""
    rate: PositiveFloat | None = None
    """The learning rate it was run at."""
    finding: str = ""
    """What it shows, in a sentence."""
    differs: tuple[str, ...] = ()
    """How this study differs from it, whatever the number of rounds and runs."""
    values: dict[str, dict[str, tuple[NonNegativeFloat, NonNegativeFloat]]] = Field(default={})
    """Mean and standard deviation by row and column; accuracies in percent."""


class Drawing(Options):
    """The figure that goes with the tables."""

    draw: Literal["lines", "posteriors", "variants", "curves"]
    """`lines`: the fitted curves of a one-dimensional regression, and posteriors as bars. `posteriors`: weights over
    rounds, a panel per client of the first row. `variants`: the same for a few clients, a line of panels per row.
    `curves`: accuracy over rounds, a panel for each group of rows."""
    clients: tuple[NonNegativeInt, ...] = (0,)
    """The clients (by number) that `variants` draws."""


class Compare(Options):
    """What makes an experiment file a comparison."""

    title: str = ""
    """The title of its tables and page; the file's name if not set."""
    columns: tuple[Column, ...] = (Column(),)
    """The problems; the file's own if not set."""
    rows: tuple[Row, ...] = ()
    """The methods and variants; a row for each of the file's `methods` if not set."""
    at: tuple[At, ...] = ("given",)
    """Learning rates: the one the file gives, and the best for each row and column as found by tuning."""
    tuning: Tuning = Tuning()
    """How the best rate is found."""
    reference: str | None = None
    """The row that others are compared with, run by run; the first that runs `local` if not set."""
    spread: Literal["seeds", "clients"] = "seeds"
    """What a standard deviation is taken over."""
    paper: Paper = Paper()
    """What a paper reports."""
    figure: Drawing | None = None
    """The figure to draw."""

    @field_validator("columns", "rows", "at")
    @classmethod
    def _each_once(cls, values: tuple[Any, ...]) -> tuple[Any, ...]:
        names = [value if isinstance(value, str) else value.name for value in values]
        if len(set(names)) < len(names):
            raise ValueError("two have the same name: give each a name of its own")
        return values


class StudyFile(Experiment):
    """An experiment file with a `[compare]` table."""

    compare: Compare = Compare()
    """The comparison."""

    @model_validator(mode="after")
    def _names_agree(self) -> Self:
        rows, columns = (
            {row.name for row in self.rows},
            {column.name for column in self.compare.columns},
        )
        if self.compare.reference is not None and self.compare.reference not in rows:
            raise ValueError(
                f"compare.reference = {self.compare.reference!r}: there is no such row: {_listed(rows)}"
            )
        if self.compare.tuning.column not in (None, *columns):
            wrong = self.compare.tuning.column
            raise ValueError(
                f"compare.tuning.column = {wrong!r}: there is no such column: {_listed(columns)}"
            )
        for row, values in self.compare.paper.values.items():
            if unknown := values.keys() - columns:
                raise ValueError(
                    f"compare.paper.values.{row}.{min(unknown)}: there is no such column: {_listed(columns)}"
                )
        return self

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows that were given, or one for each method."""
        return self.compare.rows or tuple(
            Row(name=method, method=method) for method in self.methods
        )


@dataclass(frozen=True)
class Cell:
    """One row in one column on one seed, at one learning rate: an experiment of one method and one seed."""

    row: str
    column: str
    at: At | Literal["tuning"]
    experiment: Experiment

    @property
    def method(self) -> str:
        """Its method."""
        return self.experiment.methods[0]

    @property
    def seed(self) -> int:
        """Its seed."""
        return self.experiment.seeds[0]

    @property
    def rate(self) -> float:
        """Its learning rate."""
        return self.experiment.training.optimizer.learning_rate

    @property
    def name(self) -> str:
        """Of its run directory. The same experiment has the same name in every row, column and study."""
        return self.experiment.name

    @property
    def settings(self) -> str:
        """The hash in its name: the same for all seeds, and for any number of rounds."""
        return self.name.rpartition("-")[2]


@dataclass(frozen=True)
class Study:
    """A file, read and checked: every cell it asks for is a valid experiment."""

    file: StudyFile
    tables: Mapping[str, Any]
    """The file's own tables, which rows and columns change."""

    @property
    def name(self) -> str:
        """Of the directory that holds it."""
        return self.file.name

    @property
    def compare(self) -> Compare:
        """The table that makes it a comparison."""
        return self.file.compare

    @property
    def rows(self) -> tuple[Row, ...]:
        """What is compared."""
        return self.file.rows

    @property
    def title(self) -> str:
        """For people."""
        return self.compare.title or self.name

    @property
    def reference(self) -> str | None:
        """The row that the others are compared with."""
        local = next((row.name for row in self.rows if row.method == LOCAL), None)
        return self.compare.reference or local

    def cells(self, row: Row, column: Column, at: At, rate: float | None = None) -> list[Cell]:
        """One per seed, at this learning rate or at the one the file gives."""
        return [
            Cell(row.name, column.name, at, self._cell(row, column, seed, rate, {}))
            for seed in self.file.seeds
        ]

    def tuning_cells(self, row: Row, column: Column) -> list[Cell]:
        """One for each learning rate to choose from, and seed to choose by; scored once, after the last round."""
        tuning = self.compare.tuning
        rounds = tuning.rounds or self.file.rounds
        held = {"split.validation_fraction": tuning.validation_fraction}
        changes = held | {"rounds": rounds, "system.evaluate_every": rounds}
        tuned_in = next(
            (other for other in self.compare.columns if other.name == tuning.column), column
        )
        return [
            Cell(row.name, tuned_in.name, "tuning", self._cell(row, tuned_in, seed, rate, changes))
            for rate in tuning.rates
            for seed in self.file.seeds[: tuning.seeds]
        ]

    def cells_at(self, row: str, column: str, at: At, rate: float) -> list[Cell]:
        """One per seed for the row and column of these names; `rate` is the best one. Nothing where there are none."""
        found = [
            (r, c)
            for r, c in self.pairs()
            if (r.name, c.name) == (row, column) and at in self.compare.at
        ]
        return [
            cell for r, c in found for cell in self.cells(r, c, at, rate if at == "best" else None)
        ]

    def places(self) -> Iterator[tuple[str, str, At]]:
        """Row, column and learning rate of every entry of its tables."""
        for at in self.compare.at:
            for row, column in self.pairs():
                yield row.name, column.name, at

    def pairs(self) -> Iterator[tuple[Row, Column]]:
        """Every row in every column."""
        for column in self.compare.columns:
            for row in self.rows:
                yield row, column

    def _cell(
        self, row: Row, column: Column, seed: int, rate: float | None, changes: Mapping[str, Any]
    ) -> Experiment:
        where = f"{self.name}, row {row.name!r}" + (
            f", column {column.name!r}" if column.name else ""
        )
        raw = copy.deepcopy(dict(self.tables))
        try:
            for key, value in {**column.set, **row.set, **changes}.items():
                assign(raw, key, value)
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from None
        experiment = validate(raw | {"methods": [row.method], "seeds": [seed]}, where)
        if rate is not None:
            optimizer = experiment.training.optimizer.model_copy(update={"learning_rate": rate})
            training = experiment.training.model_copy(update={"optimizer": optimizer})
            experiment = experiment.model_copy(update={"training": training})
        return experiment.model_copy(update={"name": _run_name(experiment)})


def load_study(path: Path, overrides: Iterable[str] = ()) -> Study:
    """Read a file with a `[compare]` table, or a plain experiment file: that is a table of one column."""
    return parse_study(read(path, overrides), str(path))


def parse_study(raw: Mapping[str, Any], where: str) -> Study:
    """The study these tables describe; every cell is tried, so that nothing is found wrong after hours."""
    study = Study(
        validate_as(StudyFile, raw, where),
        {key: value for key, value in raw.items() if key != "compare"},
    )
    for row, column in study.pairs():
        study.cells(row, column, "given")
        study.tuning_cells(row, column)
    return study


def scaled(study: Study, scale: float) -> Study:
    """The same with that part of the rounds and of the seeds, at least one of each."""
    if not 0 < scale <= 1:
        raise ConfigError(
            f"--scale {scale:g}: give a number above 0 and at most 1, the part of rounds and seeds to run"
        )

    def part(count: int) -> int:
        return max(1, math.ceil(scale * count))

    file, tuning = study.file, study.compare.tuning
    rounds, seeds = part(file.rounds), file.seeds[: part(len(file.seeds))]
    shorter = tuning.model_copy(update={"rounds": part(tuning.rounds) if tuning.rounds else None})
    less = f"Run at --scale {scale:g}: {rounds} of {file.rounds} rounds, {len(seeds)} of {len(file.seeds)} seeds."
    paper = study.compare.paper
    paper = paper.model_copy(update={"differs": (*paper.differs, less)}) if scale < 1 else paper
    compare = study.compare.model_copy(update={"tuning": shorter, "paper": paper})
    changed = file.model_copy(update={"rounds": rounds, "seeds": seeds, "compare": compare})
    return replace(study, file=changed, tables={**study.tables, "rounds": rounds})


def _run_name(experiment: Experiment) -> str:
    """Method, seed, and a hash of every setting that can change a number."""
    method, seed = experiment.methods[0], experiment.seeds[0]
    options = json.dumps(cell_options(experiment, method), sort_keys=True)
    return f"{method}-{seed}-{hashlib.sha256(options.encode()).hexdigest()[:12]}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in sorted(names))
