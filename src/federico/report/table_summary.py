"""All that is known of a table; every report shows this and nothing else."""

import math
from dataclasses import dataclass, field
from functools import cached_property

from federico.report.entry import Entry
from federico.report.seed_result import Command, command_of
from federico.runs.metric import Metric, metric_of
from federico.runs.results import Provenance, RateKind
from federico.runs.table import LOCAL, OURS, EntryKey, ShownRate, TableDescription, TableRow
from federico.types import Task


@dataclass(frozen=True)
class TunedRate:
    """How the best learning rate of a row was chosen: on a validation part of the training data."""

    row: TableRow
    column: str
    rounds: int
    scores: dict[float, float]
    """The figure on the validation parts by learning rate, mean over seeds."""
    rate: float
    """The best of them; of equals the first that was tried."""
    commands: set[Command]
    """The commands that tried them."""


@dataclass(frozen=True)
class Pending:
    """A cell that has begun and is not finished."""

    row: TableRow
    column: str
    rate_kind: RateKind
    seed: int
    round_index: int
    """Rounds that it has done."""


@dataclass(frozen=True)
class ResultSource:
    """One command that results come from."""

    provenance: Provenance
    seconds: float
    """Seconds by the clock on the wall, of all its runs together, tuning included."""

    @property
    def command(self) -> Command:
        """What was typed, and the commit of the code that ran it."""
        return command_of(self.provenance)


@dataclass(frozen=True)
class Population:
    """The clients of one cell, the one that is shown in full."""

    seed: int
    clients: list[str]
    distribution: list[int] | None
    train_samples: list[int]
    test_samples: list[int]
    same_on_every_seed: bool
    """Whether every seed shares out the data in the same way."""


@dataclass(frozen=True)
class Summary:
    """All that is known of a table: what every report shows."""

    table: TableDescription
    task: Task
    clients: int
    model_parameters: int
    entries: list[Entry]
    tuned: list[TunedRate]
    sources: list[ResultSource]
    """The commands that the results come from, the earliest first."""
    pending: list[Pending]
    population: Population | None
    """None where all results were stored as means: they do not say how much data a client has."""
    hostile: list[str] = field(default_factory=list)
    """Clients that were hostile in some run; all figures are those of the others."""
    epsilon: dict[str, tuple[float, float]] = field(default_factory=dict)
    """By title of a method whose training is differentially private: the most that any client has
    spent in any run, and delta."""
    trigger_success: dict[str, float] = field(default_factory=dict)
    """By row and column in which a member has planted a backdoor: the share of honest clients'
    marked test samples for which its mark decides, mean over clients and runs."""

    @property
    def metric(self) -> Metric:
        """The figure that the table shows."""
        return metric_of(self.task)

    @property
    def of_single_runs(self) -> bool:
        """Whether nothing was run more than once, so that nobody knows how far runs differ."""
        return bool(self.entries) and all(len(entry.by_seed) == 1 for entry in self.entries)

    @property
    def unfinished(self) -> int:
        """Runs that the table asks for and that are not finished."""
        table = self.table
        places = len(table.rows) * len(table.columns) * len(table.rates)
        asked = places * len(table.seeds)
        there = 0
        for entry in self.entries:
            if entry.finished:
                there += len(entry.seeds)
        return max(asked - there, 0)

    @property
    def lengths(self) -> set[int]:
        """The rounds after which figures were taken: more than one where some ran for longer."""
        return {entry.rounds for entry in self.entries}

    @cached_property
    def _by_key(self) -> dict[EntryKey, Entry]:
        found: dict[EntryKey, Entry] = {}
        for entry in self.entries:
            found[entry.row.name, entry.column, entry.rate_kind] = entry
        return found

    def entry(self, row: str, column: str, rate_kind: ShownRate) -> Entry | None:
        """What is known of this row and column."""
        return self._by_key.get((row, column, rate_kind))

    def column(self, column: str, rate_kind: ShownRate) -> list[Entry]:
        """A whole column, in the order of the rows."""
        found = []
        for row in self.table.rows:
            entry = self.entry(row.name, column, rate_kind)
            if entry is not None:
                found.append(entry)
        return found

    def row(self, row: str, rate_kind: ShownRate) -> list[Entry]:
        """A whole row, in the order of the columns."""
        found = []
        for column in self.table.columns:
            entry = self.entry(row, column, rate_kind)
            if entry is not None:
                found.append(entry)
        return found

    def best(self, column: str, rate_kind: ShownRate) -> Entry | None:
        """The row with the best figure; none where some were run for more rounds than others."""
        found = self.column(column, rate_kind)
        lengths = {entry.rounds for entry in found}
        if len(lengths) != 1:
            return None
        return max(found, key=self.rank)

    def rank(self, entry: Entry) -> float:
        """The figure turned so that higher is better; an undefined one is the lowest."""
        if math.isnan(entry.mean):
            return -math.inf
        return self.metric.gain(entry.mean)

    def filled(self, rate_kind: ShownRate) -> bool:
        """Whether anything is known at this learning rate."""
        return any(entry.rate_kind == rate_kind for entry in self.entries)

    def rates(self, rate_kind: ShownRate) -> set[float]:
        """The learning rates of this kind that rows were run at."""
        return {entry.rate for entry in self.entries if entry.rate_kind == rate_kind}

    @property
    def shown_rate(self) -> ShownRate:
        """The learning rate that headlines and pictures show: the best ones if they are known."""
        if self.filled("best"):
            return "best"
        return "given"

    @property
    def reference_title(self) -> str:
        """The reference row's name for people; empty where there is none."""
        for row in self.table.rows:
            if row.name == self.table.reference:
                return row.title
        return ""

    @property
    def reference_is_local(self) -> bool:
        """Whether rows are compared with training alone."""
        for row in self.table.rows:
            if row.name == self.table.reference:
                return row.method == LOCAL
        return False

    @cached_property
    def worth_known(self) -> list[Entry]:
        """The entries whose clients say what they are alone, FedeRiCo's before others.

        They are of the learning rate that pictures show, in the order of columns and rows.
        """
        found = []
        for column in self.table.columns:
            for entry in self.column(column, self.shown_rate):
                if entry.worth:
                    found.append(entry)
        return sorted(found, key=lambda entry: entry.row.method != OURS)

    @property
    def stored_as_means(self) -> list[Entry]:
        """The entries of which only means over seeds were stored."""
        return [entry for entry in self.entries if entry.stored_as_mean]
