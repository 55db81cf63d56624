"""The one aggregation: from the lines of results and their table to all that a report shows.

Means are taken here and nowhere else. Terminal, page, LaTeX, Markdown and JSON show what this
module gives them, so they cannot disagree.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias, TypeVar

import numpy as np

from federico.errors import RunError
from federico.report.gains import (
    ClientGain,
    ClientTestSet,
    GainsOfClients,
    Interval,
    gains_of_run,
    mean_interval,
    paired_p_value,
    relative_variances,
)
from federico.report.worth_it import WorthToClient, mean_over_runs, worth_of_cell
from federico.runs.metric import METRICS, SKILL, Metric, metric_of, tuning_metric
from federico.runs.results import (
    CellResult,
    Provenance,
    RateKind,
    StoredAggregate,
    metric_of_result,
)
from federico.runs.table import ShownRate, TableDescription, TableRow
from federico.types import FloatArray, Task

Place: TypeAlias = tuple[str, str, str]
"""(row, column, kind of learning rate): where a figure stands."""
Command: TypeAlias = tuple[str, str]
"""What was typed, and the commit of the code that ran it."""
Key = TypeVar("Key")
LOCAL = "local"
"""The method that trains alone."""
FEDERICO = "federico"


@dataclass(frozen=True)
class RunClients:
    """Who the clients of a run are: two runs have the same clients if these are equal."""

    names: tuple[str, ...]
    drawn_for: int | None = None
    """The seed, where every seed draws other clients; None where they stay the same."""
    data: tuple[tuple[int, ...], ...] = ()
    """Training samples and true distributions, in results that do not say whether clients are drawn
    anew: there the data has to tell."""

    @classmethod
    def of(cls, cell: CellResult) -> "RunClients":
        """The clients of one cell."""
        names = tuple(cell.clients)
        if cell.clients_drawn is None:
            data = (tuple(cell.train_samples), tuple(cell.distribution or ()))
            return cls(names, data=data)
        if cell.clients_drawn:
            return cls(names, drawn_for=cell.seed)
        return cls(names)


@dataclass(frozen=True)
class SeedResult:
    """What one seed gave in one place: the values that means are taken over."""

    seed: int
    rate: float
    rounds: int
    settings: str
    evaluated: list[int]
    """The rounds that were evaluated; the lists below have one entry for each."""
    figure: list[float]
    """The figure that the run is judged by, mean over clients."""
    bytes_moved: list[float]
    """Bytes of all messages that training needed up to this round."""
    processor_seconds: list[float]
    """Seconds of all threads up to this round, without evaluation and waiting for checkpoints."""
    by_client: dict[str, float]
    """Each client's own figure at the last evaluated round, where its test data defines one."""
    other_figures: dict[str, float]
    """The task's other figures at the last evaluated round, by the names they are recorded under,
    mean over clients."""
    test_sets: dict[str, ClientTestSet]
    """What each client is tested on; empty where only means were stored."""
    worse_than_mean: int | None
    """Clients whose model was worse at the last evaluated round than the mean of their training
    targets; None for classes."""
    wall_seconds: float | None
    """Seconds by the clock on the wall, of the whole run."""
    on_own_distribution: float | None
    effective_collaborators: float | None
    provenance: list[Provenance]
    clients: RunClients
    alone: float | None = None
    """The figure of the models that clients trained alone, mean over clients; None where the method
    trains none."""
    worth: dict[str, WorthToClient] = field(default_factory=dict)
    """What each client is alone and together, where it trained a model alone."""
    stored_as_mean: bool = False
    """Whether only means over seeds were stored, and all but the last figure is made up of them."""
    finished: bool = True

    @property
    def commands(self) -> set[Command]:
        """The commands that its values come from."""
        return {command_of(source) for source in self.provenance}

    def at(self, values: Sequence[float], rounds: Sequence[int]) -> list[float]:
        """The entries of one of the lists above at some of the evaluated rounds."""
        by_round = dict(zip(self.evaluated, values, strict=False))
        return [by_round[index] for index in rounds]


@dataclass(frozen=True)
class Curve:
    """Mean and standard deviation over seeds, at every round that all seeds have evaluated."""

    rounds: list[int]
    mean: list[float]
    sd: list[float]


@dataclass(frozen=True)
class Difference:
    """A row against the reference row, seed by seed, both after the same number of rounds."""

    mean: float
    """Mean over the seeds of the row's figure minus the reference's."""
    better: int
    """Runs in which the row is better than the reference."""
    runs: int
    interval: Interval | None = None
    """Where the mean over runs lies (95 %); None for one run, or where one has diverged."""
    p_value: float | None = None
    """Of Wilcoxon's signed-rank test over runs; None where there is no interval."""
    clients: GainsOfClients | None = None
    """The same client by client; None where only means over runs were stored."""

    @property
    def is_clear(self) -> bool:
        """Whether the runs tell the two apart: the interval does not hold 0."""
        if self.interval is None:
            return False
        low, high = self.interval
        return low > 0 or high < 0


@dataclass(frozen=True)
class Entry:
    """One row in one column at one learning rate, over its seeds."""

    row: TableRow
    column: str
    rate_kind: ShownRate
    seeds: tuple[SeedResult, ...]
    versus: Difference | None = None
    """The difference to the reference row; None for that row, and where no seed can be compared."""

    @property
    def title(self) -> str:
        """The row's name for people."""
        return self.row.title

    @property
    def rate(self) -> float:
        """The learning rate."""
        return self.seeds[0].rate

    @cached_property
    def evaluated(self) -> list[int]:
        """The rounds that all seeds have evaluated."""
        shared = set(self.seeds[0].evaluated)
        for seed in self.seeds[1:]:
            shared &= set(seed.evaluated)
        return sorted(shared)

    @property
    def rounds(self) -> int:
        """The round after which the figure was taken."""
        return self.evaluated[-1]

    @property
    def finished(self) -> bool:
        """Whether these are finished runs; else they are still going on."""
        return all(seed.finished for seed in self.seeds)

    @property
    def stored_as_mean(self) -> bool:
        """Whether some of it was stored as means over seeds, and not run by run."""
        return any(seed.stored_as_mean for seed in self.seeds)

    @cached_property
    def by_seed(self) -> dict[int, float]:
        """The figure after the last round."""
        return self.after(self.rounds)

    def after(self, round_index: int) -> dict[int, float]:
        """The figure of every seed after a round that all have evaluated."""
        found = {}
        for seed in self.seeds:
            (figure,) = seed.at(seed.figure, [round_index])
            found[seed.seed] = figure
        return found

    @property
    def mean(self) -> float:
        """The figure after the last round, mean over seeds."""
        return _mean(list(self.by_seed.values()))

    def sd(self, over: str) -> float | None:
        """Standard deviation over `seeds` or `clients`; None for one, or where one has diverged.

        Where every seed has other clients, it is the mean of the deviations over those of a seed.
        """
        if over == "seeds":
            return _deviation(list(self.by_seed.values()))
        if self.clients_of_seed is None:
            return _deviation(list(self.by_client.values()))
        deviations = []
        for seed in self.seeds:
            deviation = _deviation(list(seed.by_client.values()))
            if deviation is None:
                return None
            deviations.append(deviation)
        return _mean(deviations)

    @property
    def clients_of_seed(self) -> int | None:
        """The seed that figures of single clients are from; None for means over all seeds.

        Where seeds draw other clients, one of the same name is another one: nobody is averaged with
        somebody else.
        """
        first = self.seeds[0]
        if all(seed.clients == first.clients for seed in self.seeds):
            return None
        return first.seed

    @property
    def with_same_clients(self) -> Sequence[SeedResult]:
        """The seeds that figures of single clients are means over."""
        if self.clients_of_seed is None:
            return self.seeds
        return self.seeds[:1]

    @cached_property
    def by_client(self) -> dict[str, float]:
        """Each client's own figure, mean over the seeds that have the same clients."""
        values: dict[str, list[float]] = defaultdict(list)
        for seed in self.with_same_clients:
            for client, value in seed.by_client.items():
                values[client].append(value)
        return _means(values)

    def other_figure(self, metric: Metric) -> float | None:
        """Another figure after the last round, mean over the seeds that know it."""
        return _mean_of_known(seed.other_figures.get(metric.recorded_as) for seed in self.seeds)

    @property
    def worse_than_mean(self) -> float | None:
        """Clients whose model is worse than the mean of their training targets, mean over seeds."""
        return _mean_of_known(seed.worse_than_mean for seed in self.seeds)

    @property
    def alone(self) -> float | None:
        """The figure of the models that clients trained alone, mean over the seeds that know it."""
        return _mean_of_known(seed.alone for seed in self.seeds)

    @property
    def worth_over_runs(self) -> list[WorthToClient]:
        """What all clients are alone and together: those of every run where each has others."""
        if self.clients_of_seed is None:
            return self.worth
        found: list[WorthToClient] = []
        for seed in self.seeds:
            found += seed.worth.values()
        return found

    @cached_property
    def worth(self) -> list[WorthToClient]:
        """What each client is alone and together, mean over the seeds that have the same clients.

        Empty without private models.
        """
        return mean_over_runs([seed.worth for seed in self.with_same_clients])

    @cached_property
    def curve(self) -> Curve:
        """The figure over the rounds."""
        by_seed = []
        for seed in self.seeds:
            by_seed.append(seed.at(seed.figure, self.evaluated))
        values = np.array(by_seed)  # [seeds, rounds]
        mean = values.mean(axis=0)

        sd = np.zeros_like(mean)
        if len(by_seed) > 1:
            with np.errstate(invalid="ignore"):
                sd = values.std(axis=0, ddof=1)
            # A round in which a seed has diverged has no band.
            sd[~np.isfinite(sd)] = 0.0
        return Curve(self.evaluated, mean.tolist(), sd.tolist())

    @cached_property
    def bytes_moved(self) -> list[float]:
        """Bytes of all messages up to each round of the curve, mean over seeds."""
        by_seed = []
        for seed in self.seeds:
            by_seed.append(seed.at(seed.bytes_moved, self.evaluated))
        return _mean_lists(by_seed)

    @cached_property
    def processor_seconds(self) -> list[float]:
        """Seconds of all threads up to each round of the curve, mean over seeds."""
        by_seed = []
        for seed in self.seeds:
            by_seed.append(seed.at(seed.processor_seconds, self.evaluated))
        return _mean_lists(by_seed)

    @property
    def wall_seconds(self) -> float | None:
        """Seconds by the clock on the wall of one run, mean over the seeds that know them."""
        return _mean_of_known(seed.wall_seconds for seed in self.seeds)

    @property
    def on_own_distribution(self) -> float | None:
        """The posterior's weight on peers of a client's own distribution, mean over clients."""
        return _mean_of_known(seed.on_own_distribution for seed in self.seeds)

    @property
    def effective_collaborators(self) -> float | None:
        """1 / sum of squared posterior weights, mean over clients."""
        return _mean_of_known(seed.effective_collaborators for seed in self.seeds)

    @cached_property
    def commands(self) -> set[Command]:
        """The commands that its runs come from."""
        found: set[Command] = set()
        for seed in self.seeds:
            found |= seed.commands
        return found


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

    @property
    def metric(self) -> Metric:
        """The figure that the table shows."""
        return metric_of(self.task)

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
    def _by_place(self) -> dict[Place, Entry]:
        found: dict[Place, Entry] = {}
        for entry in self.entries:
            found[entry.row.name, entry.column, entry.rate_kind] = entry
        return found

    def entry(self, row: str, column: str, rate_kind: ShownRate) -> Entry | None:
        """What is known of this row and column."""
        return self._by_place.get((row, column, rate_kind))

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
        return sorted(found, key=lambda entry: entry.row.method != FEDERICO)

    @property
    def stored_as_means(self) -> list[Entry]:
        """The entries of which only means over seeds were stored."""
        return [entry for entry in self.entries if entry.stored_as_mean]


def aggregate(
    table: TableDescription,
    cells: Sequence[CellResult],
    stored: Sequence[StoredAggregate] = (),
    unfinished: Sequence[CellResult] = (),
) -> Summary:
    """Take all means.

    `unfinished` are cells that are still going on, as far as they have come: they are listed as
    pending, and their figures are shown where nothing is finished yet. Hostile clients do not
    count.
    """
    hostile = {name for cell in [*cells, *unfinished] for name in cell.hostile}
    cells = [cell.without_hostile() for cell in cells]
    unfinished = [cell.without_hostile() for cell in unfinished]
    finished: dict[Place, list[SeedResult]] = defaultdict(list)
    for aggregate_line in stored:
        finished[_place(aggregate_line)] += from_aggregate(aggregate_line)
    for cell in cells:
        finished[_place(cell)].append(from_cell(cell))

    going_on: dict[Place, list[SeedResult]] = defaultdict(list)
    for cell in unfinished:
        going_on[_place(cell)].append(replace(from_cell(cell), finished=False))

    entries = _entries(table, finished, going_on)
    begun = [*cells, *unfinished]
    facts = _Facts.of(table, begun)
    summary = Summary(
        table=table,
        task=facts.task,
        clients=facts.clients,
        model_parameters=facts.model_parameters,
        entries=entries,
        tuned=_tuned(table, finished, tuning_metric(facts.task)),
        sources=_sources(table, cells, stored),
        pending=_pending(table, unfinished),
        population=_population(table, begun),
        hostile=sorted(hostile),
        epsilon=_privacy_spent([*cells, *unfinished]),
    )
    # Differences need the entries of the reference row, so they are taken when all are there.
    compared = []
    for entry in entries:
        versus = _versus(summary, entry)
        compared.append(replace(entry, versus=versus))
    return replace(summary, entries=compared)


def _entries(
    table: TableDescription,
    finished: Mapping[Place, Sequence[SeedResult]],
    going_on: Mapping[Place, Sequence[SeedResult]],
) -> list[Entry]:
    """Every place of the table that has a figure; finished runs count before those going on."""
    found = []
    for rate_kind in table.rates:
        for column in table.columns:
            for row in table.rows:
                place = (row.name, column, rate_kind)
                seeds: Sequence[SeedResult] = _that_count(finished.get(place, []), table.rounds)
                if not seeds:
                    seeds = going_on.get(place, [])
                entry = Entry(row, column, rate_kind, tuple(seeds))
                if seeds and entry.evaluated:
                    found.append(entry)
    return found


def from_cell(cell: CellResult) -> SeedResult:
    """The values of one cell."""
    metric = metric_of_result(cell)
    samples = np.add(cell.train_samples, cell.test_samples).tolist()

    figure = []
    by_client: dict[str, float] = {}
    other_figures: dict[str, float] = {}
    for place in range(len(cell.evaluated)):
        figures = cell.figures_at(place)
        figure.append(metric.mean(figures, samples))
    alone = None
    if cell.alone is not None:
        alone = metric.mean(cell.alone, samples)
    if cell.evaluated:
        last = cell.figures_at(-1)
        for client, value in zip(cell.clients, metric.of_clients(last), strict=True):
            if not math.isnan(value):
                by_client[client] = value
        for other in METRICS[cell.task][1:]:
            # Results that were kept before a figure was recorded do not have it.
            if other.recorded_as in last:
                other_figures[other.recorded_as] = other.mean(last, samples)

    return SeedResult(
        seed=cell.seed,
        rate=cell.rate,
        rounds=cell.rounds,
        settings=cell.settings,
        evaluated=cell.evaluated,
        figure=figure,
        bytes_moved=so_far(cell.bytes_by_round, cell.evaluated),
        processor_seconds=so_far(cell.processor_seconds_by_round, cell.evaluated),
        by_client=by_client,
        other_figures=other_figures,
        worse_than_mean=worse_than_mean(cell),
        test_sets=_test_sets(cell, metric),
        wall_seconds=math.fsum(cell.wall_seconds.values()),
        on_own_distribution=cell.on_own_distribution,
        effective_collaborators=cell.effective_collaborators,
        provenance=[cell.provenance],
        clients=RunClients.of(cell),
        alone=alone,
        worth=worth_of_cell(cell, metric),
    )


def _test_sets(cell: CellResult, metric: Metric) -> dict[str, ClientTestSet]:
    """The clients' test sets, as far as the last evaluated round shows them."""
    if not cell.evaluated:
        return {}
    samples = np.add(cell.train_samples, cell.test_samples).tolist()
    variances = relative_variances(cell.figures_at(-1), samples, metric)
    found: dict[str, ClientTestSet] = {}
    for client, tested, variance in zip(cell.clients, cell.test_samples, variances, strict=True):
        found[client] = ClientTestSet(tested, variance)
    return found


def worse_than_mean(cell: CellResult) -> int | None:
    """Clients that would do better to predict the mean of their training targets, at the end."""
    if SKILL.recorded_as not in cell.figures:
        return None
    skills = SKILL.of_clients(cell.figures_at(-1))
    return sum(skill < 0 for skill in skills)


def from_aggregate(stored: StoredAggregate) -> list[SeedResult]:
    """The values of several seeds of which only means were stored, one for each seed.

    The figure after the last round is each seed's own. Of the rounds before only mean and standard
    deviation are known: seeds get values that have exactly these, so that one rule for means and
    bands serves everything. Bytes, seconds and clients are the mean in every seed.
    """
    curve = np.array(stored.curve_mean)  # [rounds]
    spread = np.array(stored.curve_sd)  # [rounds]
    deviations = _unit_deviations(len(stored.by_seed))  # [seeds]

    found = []
    for place, (seed, last) in enumerate(stored.by_seed.items()):
        figure = curve + deviations[place] * spread
        figure[-1] = last
        found.append(
            SeedResult(
                seed=seed,
                rate=stored.rate,
                rounds=stored.rounds,
                settings=stored.settings,
                evaluated=stored.curve_rounds,
                figure=figure.tolist(),
                bytes_moved=stored.bytes_moved,
                processor_seconds=stored.processor_seconds,
                by_client=stored.by_client,
                other_figures={},
                worse_than_mean=None,
                test_sets={},
                wall_seconds=None,
                on_own_distribution=stored.on_own_distribution,
                effective_collaborators=stored.effective_collaborators,
                provenance=stored.provenance,
                clients=RunClients(tuple(stored.by_client)),
                stored_as_mean=True,
            )
        )
    return found


def so_far(by_round: Sequence[float], rounds: Sequence[int]) -> list[float]:
    """Sums up to each of these rounds; the last known sum where nothing more was written down."""
    sums = np.cumsum([0.0, *by_round])  # [rounds + 1]
    last = len(sums) - 1
    found = []
    for index in rounds:
        known = min(index, last)
        found.append(float(sums[known]))
    return found


def _unit_deviations(count: int) -> FloatArray:
    """As many numbers with mean 0 and standard deviation 1; a single 0 for one."""
    if count == 1:
        return np.zeros(1)
    deviations = np.linspace(-1.0, 1.0, count)
    unit: FloatArray = deviations / deviations.std(ddof=1)
    return unit


def _place(line: CellResult | StoredAggregate) -> Place:
    return (line.row, line.column, line.rate_kind)


def _that_count(found: Sequence[SeedResult], rounds: int) -> list[SeedResult]:
    """The runs of one place that its figure is made of, by seed.

    A place may have been run with other settings before, or for other rounds. Runs of as many
    rounds as the table asks for count, else the longest; of these the ones with the same settings
    as the last. What was stored as a mean counts beside them, until its seeds are measured again.
    """
    if not found:
        return []
    lengths = {seed.rounds for seed in found}
    length = max(lengths)
    if rounds in lengths:
        length = rounds
    as_long = [seed for seed in found if seed.rounds == length]

    last = as_long[-1]
    by_seed: dict[int, SeedResult] = {}
    for seed in as_long:
        same_settings = seed.stored_as_mean or seed.settings == last.settings
        if seed.rate == last.rate and same_settings:
            by_seed[seed.seed] = seed
    return [by_seed[seed] for seed in sorted(by_seed)]


def _versus(summary: Summary, entry: Entry) -> Difference | None:
    reference_row = summary.table.reference
    if reference_row is None or entry.row.name == reference_row:
        return None
    reference = summary.entry(reference_row, entry.column, entry.rate_kind)
    if reference is None:
        return None
    return compare(entry, reference, summary.metric)


def compare(entry: Entry, other: Entry, metric: Metric) -> Difference | None:
    """One row against another, over the seeds that both have; None where there are none."""
    if other.rounds != entry.rounds:
        return None
    return compare_after(entry.rounds, entry, other, metric)


def compare_after(
    round_index: int, entry: Entry, other: Entry, metric: Metric
) -> Difference | None:
    """The same after a round that all seeds of both have evaluated."""
    theirs = other.after(round_index)
    differences = []
    for seed, ours in entry.after(round_index).items():
        if seed in theirs:
            differences.append(_difference(ours, theirs[seed]))
    if not differences:
        return None
    better = 0
    for difference in differences:
        if metric.gain(difference) > 0:
            better += 1
    return Difference(
        mean=_mean(differences),
        better=better,
        runs=len(differences),
        interval=mean_interval(differences),
        p_value=paired_p_value(differences),
        clients=_gains_of_clients(entry, other, metric),
    )


def _gains_of_clients(entry: Entry, other: Entry, metric: Metric) -> GainsOfClients | None:
    """Client by client, over the runs that are known by client and end after the same round."""
    theirs_by_seed = {seed.seed: seed for seed in other.seeds}
    by_seed: dict[int, tuple[ClientGain, ...]] = {}
    for ours in entry.seeds:
        theirs = theirs_by_seed.get(ours.seed)
        if theirs is None or ours.evaluated[-1] != theirs.evaluated[-1]:
            continue
        # What was stored as a mean has no test sets, and gives no gains.
        gains = gains_of_run(ours.by_client, theirs.by_client, ours.test_sets, metric)
        if gains:
            by_seed[ours.seed] = gains
    if not by_seed:
        return None
    return GainsOfClients(by_seed)


def _difference(one: float, other: float) -> float:
    """One minus the other; two that have both diverged are equally bad."""
    if one == other:
        return 0.0  # infinite minus infinite would not be a number
    return one - other


def _tuned(
    table: TableDescription, finished: Mapping[Place, Sequence[SeedResult]], metric: Metric
) -> list[TunedRate]:
    """How the best learning rates were chosen, in the order of the table."""
    found = []
    for column in table.columns:
        for row in table.rows:
            tried = finished.get((row.name, column, "tuning"), [])
            if tried:
                found.append(_tuned_rate(row, column, tried, metric))
    return found


def _tuned_rate(
    row: TableRow, column: str, tried: Sequence[SeedResult], metric: Metric
) -> TunedRate:
    """All that was tried with the settings and rounds of the last attempt."""
    last = tried[-1]
    values: dict[float, list[float]] = defaultdict(list)
    commands: set[Command] = set()
    for seed in tried:
        same_attempt = (seed.settings, seed.rounds) == (last.settings, last.rounds)
        if same_attempt and seed.figure:
            values[seed.rate].append(seed.figure[-1])
            commands |= seed.commands

    scores = _means(values)
    best = best_rate(scores, metric)
    return TunedRate(row, column, last.rounds, scores, best, commands)


def best_rate(scores: Mapping[float, float], metric: Metric) -> float:
    """The learning rate with the best figure; of equals the first, and diverged is the worst."""

    def gain(rate: float) -> float:
        score = scores[rate]
        if not math.isfinite(score):
            return -math.inf
        return metric.gain(score)

    return max(scores, key=gain)


def _sources(
    table: TableDescription, cells: Sequence[CellResult], stored: Sequence[StoredAggregate]
) -> list[ResultSource]:
    """The commands that results come from: those of stored means first, they are older."""
    provenance: dict[Command, Provenance] = {}
    for aggregate_line in stored:
        for source in aggregate_line.provenance:
            provenance[command_of(source)] = source

    seconds: dict[Command, float] = {}
    if table.stored is not None:
        for command in table.stored.commands:
            seconds[command.command, command.commit] = command.seconds

    for cell in cells:
        key = command_of(cell.provenance)
        provenance[key] = cell.provenance
        spent = math.fsum(cell.wall_seconds.values())
        seconds[key] = seconds.get(key, 0.0) + spent

    found = []
    for key, spent in seconds.items():
        # Of a command that the table names, no result may be left.
        if key in provenance:
            found.append(ResultSource(provenance[key], spent))
    return found


def command_of(provenance: Provenance) -> Command:
    """What was typed, and the commit of the code that ran it."""
    return provenance.command, provenance.commit


def _pending(table: TableDescription, unfinished: Sequence[CellResult]) -> list[Pending]:
    """The cells that are going on, in the order of the table."""
    found = []
    for row in table.rows:
        of_row = []
        for cell in unfinished:
            if cell.row == row.name:
                of_row.append(
                    Pending(row, cell.column, cell.rate_kind, cell.seed, round_index=cell.rounds)
                )
        of_row.sort(key=lambda pending: (pending.column, pending.seed))
        found += of_row
    return found


@dataclass(frozen=True)
class _Facts:
    """What all cells of a table have in common."""

    task: Task
    clients: int
    model_parameters: int

    @classmethod
    def of(cls, table: TableDescription, cells: Sequence[CellResult]) -> "_Facts":
        if cells:
            first = cells[0]
            return cls(first.task, len(first.clients), first.model_parameters)
        if table.stored is not None:
            stored = table.stored
            return cls(stored.task, stored.clients, stored.model_parameters)
        raise RunError(
            f"{table.name}: nothing is finished yet; `federico run` resumes what has begun"
        )


def _population(table: TableDescription, cells: Iterable[CellResult]) -> Population | None:
    """The clients of the first row and column, on the first seed."""
    rows = [row.name for row in table.rows]
    known = []
    for cell in cells:
        if cell.row in rows and cell.column in table.columns:
            known.append(cell)
    if not known:
        return None

    def order(cell: CellResult) -> tuple[int, int, int]:
        return table.columns.index(cell.column), rows.index(cell.row), cell.seed

    first = min(known, key=order)
    return Population(
        seed=first.seed,
        clients=first.clients,
        distribution=first.distribution,
        train_samples=first.train_samples,
        test_samples=first.test_samples,
        same_on_every_seed=_same_data(first, known),
    )


def _same_data(first: CellResult, cells: Sequence[CellResult]) -> bool:
    """Whether all cells of this one's column and learning rate share out the data as it does."""
    for cell in cells:
        # Other columns may be about other data, and tuning holds back a part of it.
        if (cell.column, cell.rate_kind) != (first.column, first.rate_kind):
            continue
        if RunClients.of(cell) != RunClients.of(first):
            return False
    return True


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


def _deviation(values: Sequence[float]) -> float | None:
    """The standard deviation; None for one value, or where one has diverged."""
    if len(values) < 2 or not np.isfinite(values).all():
        return None
    return float(np.std(values, ddof=1))


def _means(values: Mapping[Key, Sequence[float]]) -> dict[Key, float]:
    """The mean of every list, under its key."""
    return {key: _mean(seen) for key, seen in values.items()}


def _mean_of_known(values: Iterable[float | None]) -> float | None:
    """The mean of those that are not None; None where all are."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    return _mean(known)


def _mean_lists(rows: Sequence[Sequence[float]]) -> list[float]:
    """The mean of the first entries, of the second, and so on."""
    means: list[float] = np.mean(rows, axis=0).tolist()
    return means


def _privacy_spent(cells: Sequence[CellResult]) -> dict[str, tuple[float, float]]:
    """Epsilon and delta of the client that has spent most, by title of the method."""
    spent: dict[str, tuple[float, float]] = {}
    for cell in cells:
        if cell.epsilon is not None and cell.delta is not None:
            before, _ = spent.get(cell.title, (0.0, 0.0))
            spent[cell.title] = (max(before, *cell.epsilon), cell.delta)
    return spent
