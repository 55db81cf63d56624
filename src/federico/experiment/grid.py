"""The cells of an experiment: every row in every column, on every seed, at one or two rates."""

import copy
import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import tomli_w

from federico.errors import ConfigError
from federico.experiment.config import Experiment, assign, cell_options, read, validate
from federico.experiment.grid_options import GridColumn, GridOptions, GridRow
from federico.learning.model_options import Imported
from federico.own_code import settle
from federico.runs.results import Key, RateKind
from federico.runs.table import LOCAL, ReportedValues, ShownRate, TableDescription, TableRow

SAME_FOR_ALL = {"name", "methods", "seeds", "rounds", "grid", "paper", "figure", "origin"}
"""What no row or column may change."""
SETTINGS_DIGITS = 12
"""Digits of the hash of a cell's settings."""
FOLDER_DIGITS = 8
"""Digits of the hash in the name of a cell's folder."""


@dataclass(frozen=True)
class Cell:
    """One row in one column at one learning rate on one seed."""

    row: str
    title: str
    """The row's name for people."""
    column: str
    rate_kind: RateKind
    experiment: Experiment
    """An experiment of one method and one seed."""

    @property
    def method(self) -> str:
        """The name of the cell's method."""
        return self.experiment.methods[0]

    @property
    def seed(self) -> int:
        """The cell's seed."""
        return self.experiment.seeds[0]

    @property
    def rounds(self) -> int:
        """The rounds that the cell is to have."""
        return self.experiment.rounds

    @property
    def rate(self) -> float:
        """The cell's learning rate."""
        return self.experiment.training.optimizer.learning_rate

    @cached_property
    def options(self) -> dict[str, Any]:
        """Every setting that can change a number of this cell."""
        return cell_options(self.experiment, self.method)

    @cached_property
    def settings(self) -> str:
        """A hash of the options but for the learning rate: the same for all seeds and rounds."""
        return _hash(without_rate(self.options))[:SETTINGS_DIGITS]

    @cached_property
    def identity(self) -> str:
        """The same for two cells that would compute the same numbers, whatever their rows."""
        return identity_of(self.method, self.seed, self.options)

    @property
    def key(self) -> Key:
        """The key of the line that this cell leaves in the results."""
        return Key.of(self)


class Grid:
    """All cells that an experiment asks for; each of them is a valid experiment of its own."""

    def __init__(self, experiment: Experiment, tables: Mapping[str, Any] | None = None) -> None:
        """`tables`: the file as it was read, which rows and columns change."""
        self.experiment = experiment
        if tables is None:
            tables = experiment.model_dump(exclude_unset=True)
        self.tables = tables
        self._experiments: dict[tuple[str, str], Experiment] = {}
        # Every row is tried in every column, so that no name is found wrong after hours.
        for row, column in self.places():
            self._experiment(row, column)

    @property
    def name(self) -> str:
        """The name of the run directory."""
        return self.experiment.name

    @property
    def title(self) -> str:
        """What the table is called."""
        return self.options.title or self.name

    @property
    def options(self) -> GridOptions:
        """The table `[grid]` of the file."""
        return self.experiment.grid

    @property
    def rows(self) -> tuple[GridRow, ...]:
        """The methods and variants."""
        return self.experiment.rows

    @property
    def columns(self) -> tuple[GridColumn, ...]:
        """The problems that every row is run on."""
        return self.options.columns

    @property
    def reference(self) -> str | None:
        """The row that the others are compared with."""
        if self.options.reference is not None:
            return self.options.reference
        for row in self.rows:
            if row.method == LOCAL:
                return row.name
        return None

    def places(self) -> list[tuple[GridRow, GridColumn]]:
        """Every row in every column, column after column."""
        return [(row, column) for column in self.columns for row in self.rows]

    def settle_own_code(self) -> None:
        """Ask about models and losses of one's own, where somebody is there to be asked.

        One's own methods have been imported when the experiment was read.
        """
        for row, column in self.places():
            experiment = self._experiment(row, column)
            model = experiment.located_model
            if isinstance(model, Imported):
                settle(model.path, "model.path")
            if experiment.training.loss is not None:
                settle(experiment.training.loss, "training.loss")

    def cells(
        self, row: GridRow, column: GridColumn, rate_kind: ShownRate, rate: float | None = None
    ) -> list[Cell]:
        """One cell per seed, at this learning rate or at the one that the file gives."""
        experiment = self._experiment(row, column)
        return [
            self._cell(row, column, rate_kind, experiment, seed, rate)
            for seed in self.experiment.seeds
        ]

    def tuning_cells(self, row: GridRow, column: GridColumn) -> list[Cell]:
        """One cell for each learning rate to choose from and each seed to choose by."""
        tuning = self.options.tuning
        for other in self.columns:
            if other.name == tuning.column:
                column = other

        # Scored once, after the last round, on a part of the training data that is held out.
        experiment = self._experiment(row, column)
        rounds = tuning.rounds or self.experiment.rounds
        split = experiment.split.model_copy(
            update={"validation_fraction": tuning.validation_fraction}
        )
        system = experiment.system.model_copy(update={"evaluate_every": rounds})
        changes = {"rounds": rounds, "split": split, "system": system}
        held_out = experiment.model_copy(update=changes)

        return [
            self._cell(row, column, "tuning", held_out, seed, rate)
            for rate in tuning.rates
            for seed in self.experiment.seeds[: tuning.seeds]
        ]

    def folder_name(self, cell: Cell) -> str:
        """The name of the cell's folder: method and seed, and a hash where these are not enough."""
        rows_of_method = [row for row in self.rows if row.method == cell.method]
        one_row = len(rows_of_method) == 1
        one_column = len(self.columns) == 1
        one_rate = self.options.rates == ("given",)
        if one_row and one_column and one_rate:
            return f"{cell.method}-{cell.seed}"
        return cell.identity

    def table(self) -> TableDescription:
        """What the results of this grid are for."""
        rows = []
        for row in self.rows:
            title = self._title(row)
            rows.append(TableRow(name=row.name, title=title, method=row.method, panel=row.panel))
        return TableDescription(
            name=self.name,
            title=self.title,
            rows=tuple(rows),
            columns=tuple(column.name for column in self.columns),
            rates=self.options.rates,
            reference=self.reference,
            spread=self.options.spread,
            rounds=self.experiment.rounds,
            seeds=self.experiment.seeds,
            paper=self.experiment.paper,
            figure=self.experiment.figure,
        )

    def to_toml(self) -> str:
        """The experiment with every default spelled out, readable as an experiment file.

        A table that a row or column changes is written as the file has it: what is left out there
        may follow from what a row sets.
        """
        tables = self.experiment.model_dump(mode="json", exclude_none=True)
        changed = [key for row in self.rows for key in row.set]
        changed += [key for column in self.columns for key in column.set]
        for key in changed:
            name = key.partition(".")[0]
            if name in self.tables:
                tables[name] = self.tables[name]
            else:
                tables.pop(name, None)
        return tomli_w.dumps(tables)

    def _experiment(self, row: GridRow, column: GridColumn) -> Experiment:
        """The file's experiment as this row and column change it, of this row's method alone."""
        place = (row.name, column.name)
        if place not in self._experiments:
            self._experiments[place] = self._changed(row, column)
        return self._experiments[place]

    def _changed(self, row: GridRow, column: GridColumn) -> Experiment:
        """See `_experiment`: the tables of the file are changed and validated again as a whole."""
        where = self.name
        if self.options.rows or column.name:
            where += f", row {row.name!r}"
        if column.name:
            where += f", column {column.name!r}"

        plain = {"grid": GridOptions(), "paper": ReportedValues(), "figure": None}
        changes = {**column.set, **row.set}
        experiment = self.experiment
        if changes:
            tables = copy.deepcopy(dict(self.tables))
            for name in plain:
                tables.pop(name, None)
            try:
                for key, value in changes.items():
                    if key.partition(".")[0] in SAME_FOR_ALL:
                        raise ConfigError(f"{key} is the same for all rows and columns")
                    assign(tables, key, value)
            except ConfigError as error:
                raise ConfigError(f"{where}: {error}") from None
            experiment = validate(tables, where)
        return experiment.model_copy(update={**plain, "methods": (row.method,)})

    def _cell(
        self,
        row: GridRow,
        column: GridColumn,
        rate_kind: RateKind,
        experiment: Experiment,
        seed: int,
        rate: float | None,
    ) -> Cell:
        changes: dict[str, Any] = {"seeds": (seed,)}
        if rate is not None:
            optimizer = experiment.training.optimizer.model_copy(update={"learning_rate": rate})
            changes["training"] = experiment.training.model_copy(update={"optimizer": optimizer})
        changed = experiment.model_copy(update=changes)
        return Cell(row.name, self._title(row), column.name, rate_kind, changed)

    def _title(self, row: GridRow) -> str:
        """The row's name for people: the title of the method that it is named after, or its own."""
        if row.name == row.method:
            return self.experiment.method(row.method).title
        return row.name


def load_grid(path: Path, overrides: Iterable[str] = ()) -> Grid:
    """Read an experiment file; each override is `dotted.key=value`, the value as in TOML."""
    return make_grid(read(path, overrides), str(path))


def make_grid(tables: Mapping[str, Any], where: str) -> Grid:
    """The grid of the experiment that these tables describe."""
    return Grid(validate(tables, where), tables)


def scaled(grid: Grid, scale: float) -> Grid:
    """The same grid with that part of the rounds and of the seeds, at least one of each."""
    if not 0 < scale <= 1:
        raise ConfigError(
            f"--scale {scale:g}: give a number above 0 and at most 1, "
            "the part of rounds and seeds to run"
        )
    if scale == 1:
        return grid

    experiment = grid.experiment
    rounds = _part(scale, experiment.rounds)
    seeds = experiment.seeds[: _part(scale, len(experiment.seeds))]
    less = (
        f"Run at --scale {scale:g}: {rounds} of {experiment.rounds} rounds, "
        f"{len(seeds)} of {len(experiment.seeds)} seeds."
    )
    paper = experiment.paper.model_copy(update={"differs": (*experiment.paper.differs, less)})
    tuning = grid.options.tuning
    if tuning.rounds is not None:
        tuning = tuning.model_copy(update={"rounds": _part(scale, tuning.rounds)})
    options = grid.options.model_copy(update={"tuning": tuning})
    changes = {"rounds": rounds, "seeds": seeds, "paper": paper, "grid": options}
    return Grid(experiment.model_copy(update=changes), {**grid.tables, "rounds": rounds})


def identity_of(method: str, seed: int, options: Mapping[str, Any]) -> str:
    """Method, seed and a hash of every setting that can change a number."""
    return f"{method}-{seed}-{_hash(options)[:FOLDER_DIGITS]}"


def without_rate(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a cell but for the learning rate."""
    changed = copy.deepcopy(dict(options))
    del changed["training"]["optimizer"]["learning_rate"]
    return changed


def _part(scale: float, count: int) -> int:
    return max(1, math.ceil(scale * count))


def _hash(options: Mapping[str, Any]) -> str:
    text = json.dumps(options, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def ordered(cells: Sequence[Cell], grid: Grid) -> list[Cell]:
    """Seed after seed and column after column, so that the table fills with single runs first.

    Local training comes first: the others are shown against it.
    """
    seeds = list(grid.experiment.seeds)
    columns = [column.name for column in grid.columns]

    def place(cell: Cell) -> tuple[int, int, bool]:
        return seeds.index(cell.seed), columns.index(cell.column), cell.method != LOCAL

    return sorted(cells, key=place)
