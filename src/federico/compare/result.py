"""A study in numbers: all that its tables and figures show; what `results/*.json` holds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from federico.compare.study import At, Column, Paper, Row, Study
from federico.compare.studydir import PlayedCell, StudyDir
from federico.compare.tuning import Tuned
from federico.report.old.metric import Metric, metric_of
from federico.report.old.summary import (
    FEDERICO,
    Comparison,
    Curve,
    Trust,
    by_client,
    compare_figures,
    curve_of,
    mean_by_position,
    scores_of,
    title_of,
    trust_of,
)
from federico.types import Task

MOST_POINTS = 60
"""Of a curve."""
NOT_THE_METHOD = {"evaluate", "checkpoint"}
"""Phases of a round that are the experiment's, not the method's."""


@dataclass(frozen=True)
class Entry:
    """A row in a column at one learning rate: means over the finished runs."""

    row: str
    method: str
    column: str
    at: At
    rate: float
    settings: str
    """A hash of every setting that can change a number, as in the names of the run directories."""
    by_seed: dict[int, float]
    """The figure after the last round."""
    by_client: dict[str, float]
    """Each client's own, mean over runs."""
    versus: Comparison | None
    """Against the reference row, run by run; None for itself, and where no run can be compared."""
    curve: Curve
    bytes_moved: list[float]
    """Bytes of all messages up to each round of the curve."""
    processor_seconds: list[float]
    """All cores together up to each round of the curve: without evaluation and waiting for checkpoints, but with the
    thread that writes them while the next rounds are played."""
    trust: Trust | None
    saves: tuple[int, ...] = (0,)
    """In a saved result: the places of what says where its runs come from, in its list of saves."""

    @property
    def rounds(self) -> int:
        """After which the figure was taken."""
        return self.curve.rounds[-1]

    @property
    def title(self) -> str:
        """For people."""
        return title_of(self.row)

    @property
    def mean(self) -> float:
        """Over runs."""
        return float(np.mean(list(self.by_seed.values())))

    def sd(self, over: str) -> float | None:
        """Standard deviation over `seeds` or `clients`; None for a single one, or where one has diverged."""
        values = list((self.by_seed if over == "seeds" else self.by_client).values())
        return (
            float(np.std(values, ddof=1)) if len(values) > 1 and np.isfinite(values).all() else None
        )


@dataclass(frozen=True)
class Result:
    """What is finished of a study."""

    name: str
    title: str
    task: Task
    clients: int
    model_parameters: int
    rounds: int
    seeds: list[int]
    rows: list[str]
    columns: list[str]
    at: list[At]
    reference: str | None
    spread: str
    paper: Paper
    entries: list[Entry]
    tuned: list[Tuned]
    """How the best learning rates were chosen."""

    @property
    def unfinished(self) -> int:
        """Runs that are still to be finished: on every seed that any row has."""
        asked = len(self.rows) * len(self.columns) * len(self.at) * len(self.seeds)
        return asked - sum(len(entry.by_seed) for entry in self.entries)

    @property
    def metric(self) -> Metric:
        """What the study is judged by."""
        return metric_of(self.task)

    @cached_property
    def _entries(self) -> dict[tuple[str, str, At], Entry]:
        return {(entry.row, entry.column, entry.at): entry for entry in self.entries}

    def entry(self, row: str, column: str, at: At) -> Entry | None:
        """What is known of this row and column."""
        return self._entries.get((row, column, at))

    def column(self, column: str, at: At) -> list[Entry]:
        """A whole column, in the order of the rows."""
        found = (self.entry(row, column, at) for row in self.rows)
        return [entry for entry in found if entry is not None]

    def best(self, column: str, at: At) -> Entry | None:
        """The row with the best figure; none is best where some were run for more rounds than others."""
        found = self.column(column, at)
        if len({entry.rounds for entry in found}) > 1:
            return None
        return max(found, key=lambda entry: self.metric.gain(entry.mean), default=None)

    def filled(self, at: At) -> bool:
        """Whether anything is known at this learning rate."""
        return any(entry.at == at for entry in self.entries)


def gather(study: Study, folder: StudyDir) -> Result | None:
    """Read what is finished; None before the first run is."""
    entries, first = [], None
    for at in study.compare.at:
        for column in study.compare.columns:
            for row in study.rows:
                runs = _runs(study, folder, row, column, at)
                if runs:
                    first = first or next(iter(runs.values()))
                    entries.append(_entry(row, column, at, runs))
    return (
        None if first is None else compared(_result(study, entries, _tuned(study, folder), first))
    )


def compared(result: Result) -> Result:
    """With every row's difference to the reference row, where both have the same rounds and some of the same seeds."""
    return replace(
        result, entries=[replace(entry, versus=_versus(result, entry)) for entry in result.entries]
    )


def _versus(result: Result, entry: Entry) -> Comparison | None:
    reference = result.entry(result.reference or "", entry.column, entry.at)
    if reference is None or reference is entry or reference.rounds != entry.rounds:
        return None
    shared = [seed for seed in entry.by_seed if seed in reference.by_seed]
    pairs = [(entry.by_seed[seed], reference.by_seed[seed]) for seed in shared]
    return compare_figures(pairs, result.metric) if pairs else None


def _tuned(study: Study, folder: StudyDir) -> list[Tuned]:
    if "best" not in study.compare.at:
        return []
    return [
        found
        for row, column in study.pairs()
        if (found := folder.tuned(study, row, column)) is not None
    ]


def _result(study: Study, entries: list[Entry], tuned: list[Tuned], first: PlayedCell) -> Result:
    compare, about = study.compare, first.description
    return Result(
        name=study.name,
        title=study.title,
        task=about.task,
        clients=len(about.clients),
        model_parameters=about.model_parameters,
        rounds=study.file.rounds,
        seeds=list(study.file.seeds),
        rows=[row.name for row in study.rows],
        columns=[column.name for column in compare.columns],
        at=list(compare.at),
        reference=study.reference,
        spread=compare.spread,
        paper=compare.paper,
        entries=entries,
        tuned=tuned,
    )


def _runs(
    study: Study, folder: StudyDir, row: Row, column: Column, at: At
) -> dict[int, PlayedCell]:
    """The finished runs by seed, those that have a figure within the rounds asked for."""
    rate = folder.best_rate(study, row, column) if at == "best" else None
    if at == "best" and rate is None:
        return {}
    finished = {
        cell.seed: folder.cell(cell) for cell in folder.finished(study.cells(row, column, at, rate))
    }
    return {seed: cell for seed, cell in finished.items() if cell.figure is not None}


def _entry(row: Row, column: Column, at: At, runs: dict[int, PlayedCell]) -> Entry:
    scores = {seed: scores_of(cell) for seed, cell in runs.items()}
    curve = curve_of(scores.values())
    kept = _thinned(len(curve.rounds))
    rounds = [curve.rounds[place] for place in kept]
    cells = list(runs.values())
    return Entry(
        row=row.name,
        method=row.method,
        column=column.name,
        at=at,
        rate=cells[0].cell.rate,
        settings=cells[0].cell.settings,
        by_seed={seed: by_round[max(by_round)] for seed, by_round in scores.items()},
        by_client=by_client(cells),
        versus=None,
        curve=Curve(
            rounds, [curve.mean[place] for place in kept], [curve.sd[place] for place in kept]
        ),
        bytes_moved=_so_far(cells, rounds, lambda cell: [record.moved for record in cell.records]),
        processor_seconds=_so_far(cells, rounds, _method_seconds),
        trust=trust_of(cells) if row.method == FEDERICO else None,
    )


def _method_seconds(cell: PlayedCell) -> list[float]:
    return [
        sum(
            seconds
            for phase, seconds in spent.processor_seconds.items()
            if phase not in NOT_THE_METHOD
        )
        for spent in cell.spent
    ]


def _so_far(
    cells: Sequence[PlayedCell],
    rounds: Sequence[int],
    by_round: Callable[[PlayedCell], Sequence[float]],
) -> list[float]:
    """Sums up to each of these rounds, mean over runs; a last known sum where nothing more was written down."""
    sums = np.cumsum([0.0, *mean_by_position([by_round(cell) for cell in cells])])
    return [float(sums[min(index, len(sums) - 1)]) for index in rounds]


def _thinned(count: int) -> list[int]:
    """Places of so many points that a curve still looks the same, first and last among them."""
    if count <= MOST_POINTS:
        return list(range(count))
    return sorted(set(np.linspace(0, count - 1, MOST_POINTS).round().astype(int).tolist()))
