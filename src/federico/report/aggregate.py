"""The one aggregation: from the lines of results and their table to all that a report shows.

Means over seeds are taken in this room and nowhere else. Terminal, page, LaTeX, Markdown and JSON
show the same `Summary`, so they cannot disagree.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mean

from federico.errors import RunError
from federico.report.differences import compare
from federico.report.entry import Difference, Entry
from federico.report.means import means_by_key
from federico.report.seed_result import (
    Command,
    RunClients,
    SeedResult,
    command_of,
    from_aggregate,
    from_cell,
)
from federico.report.table_summary import (
    Pending,
    Population,
    ResultSource,
    Summary,
    TunedRate,
)
from federico.runs.metric import TRIGGER_SUCCESS, Metric, tuning_metric
from federico.runs.results import CellResult, Provenance, StoredAggregate
from federico.runs.table import EntryKey, TableDescription, TableRow
from federico.types import Task


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
    finished: dict[EntryKey, list[SeedResult]] = defaultdict(list)
    for aggregate_line in stored:
        finished[_entry_key(aggregate_line)] += from_aggregate(aggregate_line)
    for cell in cells:
        finished[_entry_key(cell)].append(from_cell(cell))

    going_on: dict[EntryKey, list[SeedResult]] = defaultdict(list)
    for cell in unfinished:
        going_on[_entry_key(cell)].append(replace(from_cell(cell), finished=False))

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
        trigger_success=_trigger_success(cells),
    )
    # Differences need the entries of the reference row, so they are taken when all are there.
    compared = []
    for entry in entries:
        versus = _versus(summary, entry)
        compared.append(replace(entry, versus=versus))
    return replace(summary, entries=compared)


def _entries(
    table: TableDescription,
    finished: Mapping[EntryKey, Sequence[SeedResult]],
    going_on: Mapping[EntryKey, Sequence[SeedResult]],
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


def _entry_key(line: CellResult | StoredAggregate) -> EntryKey:
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


def _tuned(
    table: TableDescription, finished: Mapping[EntryKey, Sequence[SeedResult]], metric: Metric
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

    scores = means_by_key(values)
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


def _trigger_success(cells: Sequence[CellResult]) -> dict[str, float]:
    """How often the mark of a backdoor decides, mean over clients and runs, by row and column."""
    found: dict[str, list[float]] = defaultdict(list)
    for cell in cells:
        by_round = cell.figures.get(TRIGGER_SUCCESS)
        if not by_round:
            continue
        shares = by_round[-1]
        known = [share for share in shares if share is not None]
        if known:
            place = f"{cell.row}, {cell.column}" if cell.column else cell.row
            found[place].append(mean(known))
    return {place: mean(shares) for place, shares in found.items()}


def _privacy_spent(cells: Sequence[CellResult]) -> dict[str, tuple[float, float]]:
    """Epsilon and delta of the client that has spent most, by title of the method."""
    spent: dict[str, tuple[float, float]] = {}
    for cell in cells:
        if cell.epsilon is not None and cell.delta is not None:
            before, _ = spent.get(cell.title, (0.0, 0.0))
            spent[cell.title] = (max(before, *cell.epsilon), cell.delta)
    return spent
