"""What one seed gave in one place of a table: read off its line of results, or off stored means."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from federico.report.gains import ClientTestSet, relative_variances
from federico.report.worth_it import WorthToClient, worth_of_cell
from federico.runs.metric import METRICS, SKILL, Metric
from federico.runs.results import CellResult, Provenance, StoredAggregate, metric_of_result
from federico.types import FloatArray

Command: TypeAlias = tuple[str, str]
"""What was typed, and the commit of the code that ran it."""


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


def command_of(provenance: Provenance) -> Command:
    """What was typed, and the commit of the code that ran it."""
    return provenance.command, provenance.commit
