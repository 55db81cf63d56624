"""The result of one cell, read from its folder: from its records, seconds and description."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pydantic import TypeAdapter

from federico.errors import RunError
from federico.runs.layout import CellDir, Description
from federico.runs.provenance import provenance
from federico.runs.records import RECORDS, Record, iterate_parts, read_last_record, weights_kept
from federico.runs.results import CellResult, RateKind
from federico.stopwatch import Spent

NOT_THE_METHOD = frozenset({"evaluate", "checkpoint"})
"""Phases of a round that belong to the experiment and not to the method."""
MOST_FIGURES = 200_000
"""Figures of one metric that a result holds at most, of all clients in all rounds it has."""


@dataclass(frozen=True)
class RoundFigures:
    """What a result needs of every round, see `Record`."""

    round: int
    figures: dict[str, list[float | None]] | None
    moved: int
    evaluation_moved: int
    alone: dict[str, list[float | None]] | None = None
    together: dict[str, list[float | None]] | None = None
    together_share: list[float] | None = None
    together_chance: list[float | None] | None = None
    epsilon: list[float] | None = None
    delta: float | None = None
    kept_rounds: list[int] | None = None

    def without_comparison(self) -> "RoundFigures":
        """The round without what a result keeps of the last evaluated round only."""
        return RoundFigures(self.round, self.figures, self.moved, self.evaluation_moved)


ROUND_FIGURES = TypeAdapter(RoundFigures)


@dataclass(frozen=True)
class PlayedRounds:
    """What the records of a cell say of its rounds, as far as it has come."""

    count: int
    """The rounds that it has; one that ended early has all that were asked for."""
    moved: list[int]
    """Bytes of all messages, by round that was played."""
    evaluation_moved: list[int]
    evaluated: list[RoundFigures]
    last_evaluated: RoundFigures
    """The last round that was evaluated, with what each client is alone and together."""

    @classmethod
    def of(cls, cell: CellDir) -> "PlayedRounds":
        """Read the records of a cell, one after the other."""
        moved: list[int] = []
        evaluation_moved: list[int] = []
        evaluated: list[RoundFigures] = []
        last_evaluated = RoundFigures(0, None, 0, 0)
        for played in iterate_parts(cell.path, ROUND_FIGURES):
            moved.append(played.moved)
            evaluation_moved.append(played.evaluation_moved)
            if played.figures is not None:
                evaluated.append(played.without_comparison())
                last_evaluated = played

        # A cell that ended early is as good as one that went on: its clients keep what they have.
        count = max(len(moved), cell.rounds_done)
        if evaluated and count > len(moved):
            evaluated.append(replace(evaluated[-1], round=count))
        return cls(count, moved, evaluation_moved, evaluated, last_evaluated)

    @property
    def ended_after(self) -> int | None:
        """After how many rounds the cell ended early; None if it did not."""
        if self.count == len(self.moved):
            return None
        return len(self.moved)


def cell_result(
    cell: CellDir,
    *,
    row: str | None = None,
    title: str | None = None,
    column: str | None = None,
    rate_kind: RateKind | None = None,
    command: str | None = None,
) -> CellResult:
    """The result of a cell as far as it has come.

    One cell may stand in several rows of a table; without a row it is the one the cell was first
    run for.
    """
    about = cell.description
    last_round = _last_round(cell, about)
    played = PlayedRounds.of(cell)
    kept = _enough_rounds(played.evaluated, len(about.clients))
    last = played.last_evaluated

    try:
        return CellResult(
            settings=about.settings,
            row=about.row if row is None else row,
            method=about.method,
            title=about.title if title is None else title,
            column=about.column if column is None else column,
            rate=about.rate,
            rate_kind=about.rate_kind if rate_kind is None else rate_kind,
            seed=about.seed,
            rounds=played.count,
            task=about.task,
            clients=about.clients,
            distribution=about.distribution,
            train_samples=about.train_samples,
            test_samples=about.test_samples,
            model_parameters=about.model_parameters,
            evaluated=[each.round for each in kept],
            figures=_by_metric(kept),
            bytes_by_round=played.moved,
            evaluation_bytes_by_round=played.evaluation_moved,
            wall_seconds=_wall_seconds(cell.spent),
            processor_seconds_by_round=[_method_seconds(spent) for spent in cell.spent],
            on_own_distribution=_on_own_distribution(about, last_round),
            effective_collaborators=_effective_collaborators(last_round),
            provenance=provenance(about.command if command is None else command, about.versions),
            alone=last.alone,
            together=last.together,
            together_share=last.together_share,
            together_chance=last.together_chance,
            ended_after=played.ended_after,
            kept_rounds=last.kept_rounds,
            epsilon=last.epsilon,
            delta=last.delta,
            clients_drawn=about.clients_drawn,
            hostile=about.hostile,
        )
    except ValueError as error:
        damaged = f"{cell.path / RECORDS}: {error}: the file is damaged"
        raise RunError(f"{damaged}; delete {cell.path} and run it again") from error


def _last_round(cell: CellDir, about: Description) -> Record | None:
    """The last record of a cell, if it is about the clients that the cell has."""
    last = read_last_record(cell.path)
    if last is not None and last.posterior and len(last.posterior) != len(about.clients):
        raise RunError(
            f"{cell.path / RECORDS}: damaged: its last round has the posteriors of "
            f"{len(last.posterior)} clients, and the cell has {len(about.clients)}"
        )
    return last


def _by_metric(rounds: Sequence[RoundFigures]) -> dict[str, list[list[float | None]]]:
    """By metric the figures of these rounds, each with one for every client."""
    figures: dict[str, list[list[float | None]]] = {}
    for played in rounds:
        for name, by_client in (played.figures or {}).items():
            figures.setdefault(name, []).append(by_client)
    return figures


def _enough_rounds(evaluated: Sequence[RoundFigures], clients: int) -> Sequence[RoundFigures]:
    """The rounds whose figures a result holds: all of them, but with thousands of clients fewer.

    Then it is every second round, or every fourth, eighth and so on, and the first and the last.
    Rounds that a longer run holds are thus among those of a shorter one, and the two can be
    compared.
    """
    most = max(3, MOST_FIGURES // clients)
    if len(evaluated) <= most:
        return evaluated

    step = 2
    while len(evaluated) > step * (most - 2):
        step *= 2
    between = evaluated[step - 1 : -1 : step]
    return [evaluated[0], *between, evaluated[-1]]


def _wall_seconds(rounds: Sequence[Spent]) -> dict[str, float]:
    """Seconds by the clock on the wall, by phase, of all rounds together."""
    total: dict[str, float] = {}
    for spent in rounds:
        for phase, seconds in spent.seconds.items():
            total[phase] = total.get(phase, 0.0) + seconds
    return total


def _method_seconds(spent: Spent) -> float:
    """Processor seconds of a round, without what the experiment does beside the method."""
    return sum(
        seconds for phase, seconds in spent.processor_seconds.items() if phase not in NOT_THE_METHOD
    )


def _on_own_distribution(about: Description, last: Record | None) -> float | None:
    """Mean over clients of the weight on peers of their own distribution, themselves among them."""
    groups = _groups(about)
    if groups is None or last is None or not last.posterior:
        return None
    if last.on_own_distribution is not None:
        return _mean(last.on_own_distribution)
    if weights_kept(len(about.clients)) < len(about.clients):
        return None  # the run is going on, and this round does not say

    shares = []
    for client, row in zip(about.clients, last.posterior, strict=True):
        if not row.keys() <= groups.keys():
            return None  # weights over models that no client owns
        own = [weight for peer, weight in row.items() if groups[peer] == groups[client]]
        shares.append(math.fsum(own))
    return _mean(shares)


def _groups(about: Description) -> dict[str, int] | None:
    """The clients' distributions; None where unknown, or where they group nobody."""
    distribution = about.distribution
    if distribution is None:
        return None

    groups = len(set(distribution))
    if groups == 1 or groups == len(distribution):
        return None
    return dict(zip(about.clients, distribution, strict=True))


def _effective_collaborators(last: Record | None) -> float | None:
    """Mean over clients of 1 / sum of squared weights."""
    if last is None or not last.posterior:
        return None
    if last.effective_collaborators is not None:
        return _mean(last.effective_collaborators)
    if weights_kept(len(last.posterior)) < len(last.posterior):
        return None

    counts = []
    for row in last.posterior:
        squares = math.fsum(weight**2 for weight in row.values())
        counts.append(1 / squares if squares else 0.0)
    return _mean(counts)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
