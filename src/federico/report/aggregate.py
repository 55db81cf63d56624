"""The one aggregation: from the lines of results and their table to all that a report shows.

Means are taken here and nowhere else. Terminal, page, LaTeX, Markdown and JSON show what this
module gives them, so they cannot disagree.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np

from federico.errors import RunError
from federico.report.metric import Metric, metric_of
from federico.runs.results import CellResult, Provenance, RateKind, StoredAggregate
from federico.runs.table import ShownRate, TableDescription, TableRow
from federico.types import FloatArray, Task

Place: TypeAlias = tuple[str, str, str]
"""(row, column, kind of learning rate): where a figure stands."""
Command: TypeAlias = tuple[str, str]
"""What was typed, and the commit of the code that ran it."""


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
    """Seconds of all threads up to this round, without evaluation and checkpoints."""
    by_client: dict[str, float]
    """Each client's own figure at the last evaluated round."""
    wall_seconds: float | None
    """Seconds by the clock on the wall, of the whole run."""
    on_own_distribution: float | None
    effective_collaborators: float | None
    provenance: list[Provenance]
    stored_as_mean: bool = False
    """Whether only means over seeds were stored, and all but the last figure is made up of them."""
    finished: bool = True

    def at(self, values: Sequence[float], rounds: Sequence[int]) -> list[float]:
        """The entries of one of the lists above at some of the evaluated rounds."""
        place = {index: number for number, index in enumerate(self.evaluated)}
        return [values[place[index]] for index in rounds]


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
        found = {}
        for seed in self.seeds:
            (last,) = seed.at(seed.figure, [self.rounds])
            found[seed.seed] = last
        return found

    @property
    def mean(self) -> float:
        """The figure after the last round, mean over seeds."""
        return _mean(list(self.by_seed.values()))

    def sd(self, over: str) -> float | None:
        """Standard deviation over `seeds` or `clients`; None for one, or where one has diverged."""
        values = list(self.by_client.values())
        if over == "seeds":
            values = list(self.by_seed.values())
        if len(values) < 2:
            return None
        if not np.isfinite(values).all():
            return None
        return float(np.std(values, ddof=1))

    @cached_property
    def by_client(self) -> dict[str, float]:
        """Each client's own figure, mean over the seeds that have a client of that name."""
        values: dict[str, list[float]] = defaultdict(list)
        for seed in self.seeds:
            for client, value in seed.by_client.items():
                values[client].append(value)
        return {client: _mean(seen) for client, seen in values.items()}

    @cached_property
    def curve(self) -> Curve:
        """The figure over the rounds."""
        by_seed = [seed.at(seed.figure, self.evaluated) for seed in self.seeds]
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
        by_seed = [seed.at(seed.bytes_moved, self.evaluated) for seed in self.seeds]
        return _mean_lists(by_seed)

    @cached_property
    def processor_seconds(self) -> list[float]:
        """Seconds of all threads up to each round of the curve, mean over seeds."""
        by_seed = [seed.at(seed.processor_seconds, self.evaluated) for seed in self.seeds]
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
        sources = [source for seed in self.seeds for source in seed.provenance]
        return {(source.command, source.commit) for source in sources}


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
        return self.provenance.command, self.provenance.commit


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

    @cached_property
    def _by_place(self) -> dict[Place, Entry]:
        return {(entry.row.name, entry.column, entry.rate_kind): entry for entry in self.entries}

    def entry(self, row: str, column: str, rate_kind: ShownRate) -> Entry | None:
        """What is known of this row and column."""
        return self._by_place.get((row, column, rate_kind))

    def column(self, column: str, rate_kind: ShownRate) -> list[Entry]:
        """A whole column, in the order of the rows."""
        found = [self.entry(row.name, column, rate_kind) for row in self.table.rows]
        return [entry for entry in found if entry is not None]

    def best(self, column: str, rate_kind: ShownRate) -> Entry | None:
        """The row with the best figure; none where some were run for more rounds than others."""
        found = self.column(column, rate_kind)
        lengths = {entry.rounds for entry in found}
        if len(lengths) != 1:
            return None

        def gain(entry: Entry) -> float:
            return self.metric.gain(entry.mean)

        return max(found, key=gain)

    def filled(self, rate_kind: ShownRate) -> bool:
        """Whether anything is known at this learning rate."""
        return any(entry.rate_kind == rate_kind for entry in self.entries)

    @property
    def shown_rate(self) -> ShownRate:
        """The learning rate that headlines and pictures show: the best ones if they are known."""
        return "best" if self.filled("best") else "given"

    @property
    def reference_title(self) -> str:
        """The reference row's name for people; empty where there is none."""
        titles = [row.title for row in self.table.rows if row.name == self.table.reference]
        return titles[0] if titles else ""

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
    pending, and their figures are shown where nothing is finished yet.
    """
    finished: dict[Place, list[SeedResult]] = defaultdict(list)
    for aggregate_line in stored:
        finished[_place(aggregate_line)] += from_aggregate(aggregate_line)
    for cell in cells:
        finished[_place(cell)].append(from_cell(cell))

    going_on: dict[Place, list[SeedResult]] = defaultdict(list)
    for cell in unfinished:
        going_on[_place(cell)].append(replace(from_cell(cell), finished=False))

    entries = []
    for rate_kind in table.rates:
        for column in table.columns:
            for row in table.rows:
                place = (row.name, column, rate_kind)
                seeds = _that_count(finished.get(place, []), table.rounds)
                if not seeds:
                    seeds = going_on.get(place, [])
                entry = Entry(row, column, rate_kind, tuple(seeds))
                if seeds and entry.evaluated:
                    entries.append(entry)

    begun = [*cells, *unfinished]
    facts = _Facts.of(table, begun)
    summary = Summary(
        table=table,
        task=facts.task,
        clients=facts.clients,
        model_parameters=facts.model_parameters,
        entries=entries,
        tuned=_tuned(table, finished, metric_of(facts.task)),
        sources=_sources(table, cells, stored),
        pending=_pending(table, unfinished),
        population=_population(table, begun),
    )
    compared = [replace(entry, versus=_versus(summary, entry)) for entry in entries]
    return replace(summary, entries=compared)


def from_cell(cell: CellResult) -> SeedResult:
    """The values of one cell."""
    metric = metric_of(cell.task)
    by_round = cell.figures[metric.recorded_as]
    samples = np.add(cell.train_samples, cell.test_samples).tolist()

    by_client: dict[str, float] = {}
    if by_round:
        for client, value in zip(cell.clients, by_round[-1], strict=True):
            by_client[client] = math.inf if value is None else value

    return SeedResult(
        seed=cell.seed,
        rate=cell.rate,
        rounds=cell.rounds,
        settings=cell.settings,
        evaluated=cell.evaluated,
        figure=[metric.mean(values, samples) for values in by_round],
        bytes_moved=so_far(cell.bytes_by_round, cell.evaluated),
        processor_seconds=so_far(cell.processor_seconds_by_round, cell.evaluated),
        by_client=by_client,
        wall_seconds=math.fsum(cell.wall_seconds.values()),
        on_own_distribution=cell.on_own_distribution,
        effective_collaborators=cell.effective_collaborators,
        provenance=[cell.provenance],
    )


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
                wall_seconds=None,
                on_own_distribution=stored.on_own_distribution,
                effective_collaborators=stored.effective_collaborators,
                provenance=stored.provenance,
                stored_as_mean=True,
            )
        )
    return found


def so_far(by_round: Sequence[float], rounds: Sequence[int]) -> list[float]:
    """Sums up to each of these rounds; the last known sum where nothing more was written down."""
    sums = np.cumsum([0.0, *by_round])
    last = len(sums) - 1
    return [float(sums[min(index, last)]) for index in rounds]


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
    length = rounds if rounds in lengths else max(lengths)
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
    if reference is None or reference.rounds != entry.rounds:
        return None

    differences = []
    for seed, ours in entry.by_seed.items():
        if seed in reference.by_seed:
            differences.append(_difference(ours, reference.by_seed[seed]))
    if not differences:
        return None
    better = sum(summary.metric.gain(difference) > 0 for difference in differences)
    return Difference(_mean(differences), better, len(differences))


def _difference(one: float, other: float) -> float:
    """One minus the other; two that have both diverged are equally bad."""
    return 0.0 if one == other else one - other


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
            commands |= {(source.command, source.commit) for source in seed.provenance}

    scores = {rate: _mean(seen) for rate, seen in values.items()}
    best = best_rate(scores, metric)
    return TunedRate(row, column, last.rounds, scores, best, commands)


def best_rate(scores: Mapping[float, float], metric: Metric) -> float:
    """The learning rate with the best figure; of equals the first, and diverged is the worst."""

    def gain(rate: float) -> float:
        score = scores[rate]
        return metric.gain(score) if math.isfinite(score) else -math.inf

    return max(scores, key=gain)


def _sources(
    table: TableDescription, cells: Sequence[CellResult], stored: Sequence[StoredAggregate]
) -> list[ResultSource]:
    """The commands that results come from: those of stored means first, they are older."""
    provenance: dict[Command, Provenance] = {}
    for aggregate_line in stored:
        for source in aggregate_line.provenance:
            provenance[source.command, source.commit] = source
    seconds: dict[Command, float] = {}
    if table.stored is not None:
        for command in table.stored.commands:
            seconds[command.command, command.commit] = command.seconds

    for cell in cells:
        key = (cell.provenance.command, cell.provenance.commit)
        provenance[key] = cell.provenance
        seconds[key] = seconds.get(key, 0.0) + math.fsum(cell.wall_seconds.values())
    return [
        ResultSource(provenance[key], spent) for key, spent in seconds.items() if key in provenance
    ]


def _pending(table: TableDescription, unfinished: Sequence[CellResult]) -> list[Pending]:
    """The cells that are going on, in the order of the table."""
    rows = {row.name: row for row in table.rows}
    order = list(rows)
    known = [cell for cell in unfinished if cell.row in rows]
    found = [
        Pending(rows[cell.row], cell.column, cell.rate_kind, cell.seed, cell.rounds)
        for cell in known
    ]
    return sorted(found, key=lambda cell: (order.index(cell.row.name), cell.column, cell.seed))


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
    known = [cell for cell in cells if cell.row in rows and cell.column in table.columns]
    if not known:
        return None

    def order(cell: CellResult) -> tuple[int, int, int]:
        return table.columns.index(cell.column), rows.index(cell.row), cell.seed

    first = min(known, key=order)
    same = all(
        cell.train_samples == first.train_samples and cell.distribution == first.distribution
        for cell in known
        if cell.column == first.column and cell.rate_kind == first.rate_kind
    )
    return Population(
        first.seed,
        first.clients,
        first.distribution,
        first.train_samples,
        first.test_samples,
        same,
    )


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


def _mean_of_known(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return _mean(known) if known else None


def _mean_lists(rows: Sequence[Sequence[float]]) -> list[float]:
    """The mean of the first entries, of the second, and so on."""
    means: list[float] = np.mean(rows, axis=0).tolist()
    return means
