"""A run in numbers: all that the tables, the figures and the page show, and nothing drawn or worded yet."""

import math
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from federico.errors import RunError
from federico.methods import METHODS
from federico.report.old.metric import Metric, metric_of
from federico.runs.layout import CellDir, Description, RunDir
from federico.runs.records import Record
from federico.types import Task

FEDERICO, LOCAL = "federico", "local"


@dataclass(frozen=True)
class Comparison:
    """A method against another (Local), seed by seed, each at the last round that both have evaluated."""

    difference: float
    """Mean over the seeds of the method's figure minus the other's."""
    better: int
    """Runs in which the method is better than the other."""
    runs: int


@dataclass(frozen=True)
class Curve:
    """Mean and standard deviation over seeds, at every round that any seed has evaluated."""

    rounds: list[int]
    mean: list[float]
    sd: list[float]


@dataclass(frozen=True)
class Trust:
    """Where the posteriors lie after the last round: means over clients, then over seeds."""

    on_friends: float | None
    """Weight on peers of one's own true distribution, oneself among them; None where there are no groups."""
    collaborators: float
    """1 / sum of w^2: as many models as would count if all counted the same."""


@dataclass(frozen=True)
class MethodSummary:
    """One method over all its seeds."""

    name: str
    title: str
    by_seed: dict[int, float]
    """The figure at the last evaluated round; seeds without one are left out."""
    by_client: dict[str, float]
    """Each client's own figure, mean over seeds."""
    curve: Curve
    versus_local: Comparison | None
    bytes_by_round: list[float]
    """Bytes of all messages in each round, mean over seeds."""
    bytes_moved: float
    """The same for a whole run."""
    seconds: float
    """Of a whole run, mean over seeds."""
    trust: Trust | None

    @property
    def mean(self) -> float | None:
        """Over seeds; None before the first evaluation."""
        return _mean(list(self.by_seed.values())) if self.by_seed else None

    @property
    def sd(self) -> float | None:
        """Standard deviation over seeds; None for fewer than two."""
        return _sd(list(self.by_seed.values())) if len(self.by_seed) > 1 else None


@dataclass(frozen=True)
class Pending:
    """A cell that is not finished."""

    title: str
    seed: int
    round: int


@dataclass(frozen=True)
class Collaboration:
    """FedeRiCo's posteriors on its first seed, the one that is shown in full."""

    description: Description
    records: list[Record]

    @property
    def latest(self) -> list[dict[str, float]]:
        """The posteriors after the last round."""
        return self.records[-1].posterior


@dataclass(frozen=True)
class Summary:
    """One run directory."""

    name: str
    rounds: int | None
    """Rounds asked for; None where no config.toml says so."""
    methods: list[MethodSummary]
    cells: list[Description]
    pending: list[Pending]
    collaboration: Collaboration | None

    @property
    def first(self) -> Description:
        """The cell whose clients and partition are shown: first method, first seed."""
        return self.cells[0]

    @property
    def task(self) -> Task:
        """What was learnt."""
        return self.first.task

    @property
    def metric(self) -> Metric:
        """What the run is judged by."""
        return metric_of(self.task)

    @cached_property
    def seeds(self) -> list[int]:
        """All seeds that have begun."""
        return sorted({cell.seed for cell in self.cells})

    @property
    def same_partition(self) -> bool:
        """Whether a client has the same data on every seed."""
        return len({cell.partition_hash for cell in self.cells}) == 1

    @property
    def best(self) -> MethodSummary | None:
        """The method with the best figure; None before the first evaluation."""
        judged = {method.name: method.mean for method in self.methods if method.mean is not None}
        return max(
            (method for method in self.methods if method.name in judged),
            key=lambda method: self.metric.gain(judged[method.name]),
            default=None,
        )

    def method(self, name: str) -> MethodSummary | None:
        """The method of that name, if the run has it."""
        return next((method for method in self.methods if method.name == name), None)


def summarize(run: RunDir) -> Summary:
    """Read a run directory, finished or not."""
    cells = sorted(
        run.cells(), key=lambda cell: (_rank(cell.description.method), cell.description.seed)
    )
    if not cells:
        raise RunError(
            f"{run.path}: not a run directory, no folder in it holds a cell.json; "
            "give the folder that `federico run` wrote"
        )
    by_method: dict[str, dict[int, CellDir]] = defaultdict(dict)
    for cell in cells:
        by_method[cell.description.method][cell.description.seed] = cell
    config = _read_config(run.path / "config.toml")
    local = by_method.get(LOCAL, {})
    return Summary(
        name=run.path.resolve().name,
        rounds=config.get("rounds"),
        methods=[_summarize_method(name, seeds, local) for name, seeds in by_method.items()],
        cells=[cell.description for cell in cells],
        pending=_pending(run, by_method, config),
        collaboration=_collaboration(by_method.get(FEDERICO, {}).values()),
    )


def _summarize_method(
    name: str, cells: Mapping[int, CellDir], local: Mapping[int, CellDir]
) -> MethodSummary:
    scores = {seed: scores_of(cell) for seed, cell in cells.items()}
    moved = [[record.moved for record in cell.records] for cell in cells.values()]
    return MethodSummary(
        name=name,
        title=title_of(name),
        by_seed={seed: by_round[max(by_round)] for seed, by_round in scores.items() if by_round},
        by_client=by_client(cells.values()),
        curve=curve_of(scores.values()),
        versus_local=None if name == LOCAL else compare_runs(cells, local),
        bytes_by_round=mean_by_position(moved),
        bytes_moved=_mean([sum(cell) for cell in moved]),
        seconds=_mean(
            [sum(sum(spent.seconds.values()) for spent in cell.spent) for cell in cells.values()]
        ),
        trust=trust_of(cells.values()) if name == FEDERICO else None,
    )


def title_of(method: str) -> str:
    """The method's name for people; a method this version does not know keeps its own."""
    return METHODS[method].title if method in METHODS else method


def _rank(method: str) -> tuple[int, str]:
    """FedeRiCo first, then as `METHODS` has them, then the unknown."""
    names = [FEDERICO, *(name for name in METHODS if name != FEDERICO)]
    return (names.index(method) if method in names else len(names)), method


def scores_of(cell: CellDir) -> dict[int, float]:
    """The figure at every evaluated round."""
    description = cell.description
    metric = metric_of(description.task)
    found = {record.round: metric.mean(record, description) for record in cell.records}
    return {index: value for index, value in found.items() if value is not None}


def by_client(cells: Iterable[CellDir]) -> dict[str, float]:
    """Each client's own figure at the last evaluated round, mean over cells."""
    values: dict[str, list[float]] = defaultdict(list)
    for cell in cells:
        description = cell.description
        metric = metric_of(description.task)
        latest = next(filter(None, map(metric.per_client, reversed(cell.records))), [])
        for client, value in zip(description.clients, latest, strict=False):
            values[client].append(value)
    return {client: _mean(seen) for client, seen in values.items()}


def curve_of(scores: Iterable[Mapping[int, float]]) -> Curve:
    """Of figures by round, one mapping per seed."""
    values: dict[int, list[float]] = defaultdict(list)
    for by_round in scores:
        for index, value in by_round.items():
            values[index].append(value)
    rounds = sorted(values)
    return Curve(
        rounds, [_mean(values[index]) for index in rounds], [_sd(values[index]) for index in rounds]
    )


def compare_runs(cells: Mapping[int, CellDir], others: Mapping[int, CellDir]) -> Comparison | None:
    """Cells against others, both by seed."""
    pairs = []
    for seed in cells.keys() & others.keys():
        ours, theirs = scores_of(cells[seed]), scores_of(others[seed])
        shared = ours.keys() & theirs.keys()
        if shared:
            pairs.append((ours[max(shared)], theirs[max(shared)]))
    return (
        compare_figures(pairs, metric_of(next(iter(others.values())).description.task))
        if pairs
        else None
    )


def compare_figures(pairs: Sequence[tuple[float, float]], metric: Metric) -> Comparison:
    """One against the other in each pair."""
    differences = [_difference(*pair) for pair in pairs]
    better = sum(metric.gain(difference) > 0 for difference in differences)
    return Comparison(_mean(differences), better, len(differences))


def _difference(one: float, other: float) -> float:
    """Two that have both diverged are equally bad."""
    return 0.0 if one == other else one - other


def trust_of(cells: Iterable[CellDir]) -> Trust | None:
    """Of the cells that have posteriors over clients."""
    known = [cell for cell in cells if cell.records and cell.records[-1].posterior]
    if not known:
        return None
    friends = [on_friends(cell.description, cell.records[-1].posterior) for cell in known]
    counts = [_mean([effective(row) for row in cell.records[-1].posterior]) for cell in known]
    shares = [share for share in friends if share is not None]
    return Trust(_mean(shares) if shares else None, _mean(counts))


def true_groups(description: Description) -> list[int] | None:
    """The clients' true distributions; None where unknown, or where they group nobody (all the same or all apart)."""
    groups = description.distribution
    return groups if groups is not None and 1 < len(set(groups)) < len(groups) else None


def on_friends(description: Description, posterior: Sequence[Mapping[str, float]]) -> float | None:
    """Mean over clients of the weight on peers of their own true distribution, themselves among them."""
    found = true_groups(description)
    if found is None:
        return None
    groups = dict(zip(description.clients, found, strict=True))
    return _mean(
        [
            math.fsum(weight for peer, weight in row.items() if groups[peer] == groups[client])
            for client, row in zip(description.clients, posterior, strict=True)
        ]
    )


def effective(row: Mapping[str, float]) -> float:
    """1 / sum of w^2; 0 for a posterior over nobody."""
    squares = math.fsum(weight**2 for weight in row.values())
    return 1 / squares if squares else 0.0


def _collaboration(cells: Iterable[CellDir]) -> Collaboration | None:
    for cell in cells:
        records = [record for record in cell.records if record.posterior]
        if records:
            return Collaboration(cell.description, records)
    return None


def _pending(
    run: RunDir, by_method: Mapping[str, Mapping[int, CellDir]], config: Mapping[str, Any]
) -> list[Pending]:
    """The cells that have begun or were asked for, and are not finished."""
    wanted = {(method, seed) for method, seeds in by_method.items() for seed in seeds}
    wanted |= {
        (method, seed) for method in config.get("methods", []) for seed in config.get("seeds", [])
    }
    found = []
    for method, seed in sorted(wanted, key=lambda key: (_rank(key[0]), key[1])):
        cell = run.cell(method, seed)
        if cell.rounds_done < config.get("rounds", 1):
            found.append(
                Pending(title_of(method), seed, cell.records[-1].round if cell.records else 0)
            )
    return found


def _read_config(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(
            f"{path}: cannot be read: {error}; delete it to see the run without it"
        ) from error


def mean_by_position(rows: Sequence[Sequence[float]]) -> list[float]:
    """The mean of the first entries, of the second, and so on; rows may end early."""
    return [
        _mean([row[place] for row in rows if len(row) > place])
        for place in range(max(map(len, rows)))
    ]


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


def _sd(values: Sequence[float]) -> float:
    """Of the sample (n - 1); 0 for a single value or where one has diverged."""
    return float(np.std(values, ddof=1)) if len(values) > 1 and np.isfinite(values).all() else 0.0
