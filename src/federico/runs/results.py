"""Results: one JSON line for every finished cell, in `results.jsonl`.

A cell is one row (a method with its options) in one column (a problem), at one learning rate, on
one seed. Its line holds every figure that a table or a report shows, so that results can be read,
moved and merged without the runs they come from: merging is a union by key, and means are taken
on reading. Nothing here needs torch.

    runs/<name>/     table.json  results.jsonl  config.toml  <cell>/ ...
    results/<name>/  table.json  results.jsonl  *.png          (kept: the same two files, no cells)
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

from pydantic import TypeAdapter, ValidationError

from federico.bounded_files import TooLargeError, whole_lines
from federico.errors import RunError
from federico.runs.atomic import disk_errors, publish_text
from federico.runs.comparison import Comparisons
from federico.runs.metric import Metric, metric_of, tuning_metric
from federico.types import Task

T = TypeVar("T")

RESULTS = "results.jsonl"
RateKind: TypeAlias = Literal["given", "best", "tuning"]
"""The learning rate that the file gives, the best one found by tuning, or one being tried."""


class Key(NamedTuple):
    """What makes two lines of results the same one."""

    settings: str
    row: str
    column: str
    rate_kind: RateKind
    rate: float
    seed: int
    rounds: int

    @classmethod
    def of(cls, cell: object) -> "Key":
        """The key of a cell, which has all of these as attributes, before or after its run."""
        return cls(*[getattr(cell, name) for name in cls._fields])


@dataclass(frozen=True)
class Provenance:
    """Where a result comes from: what was typed, with which code, on which machine."""

    command: str
    commit: str
    """The checkout's commit; with `-dirty` if it had changes, empty if it was not a checkout."""
    machine: str
    versions: dict[str, str]
    finished: str
    """When the cell was finished: ISO 8601, UTC; empty where that was never recorded."""


@dataclass(frozen=True)
class CellResult:
    """One finished cell. Lists by client follow the order of `clients`."""

    settings: str
    """A hash of every setting that can change a number, but not of seed, rounds or rate."""
    row: str
    method: str
    title: str
    """The row's name for people."""
    column: str
    rate: float
    rate_kind: RateKind
    seed: int
    rounds: int
    task: Task
    clients: list[str]
    distribution: list[int] | None
    """The clients' true distributions, where the partition knows them; for reports only."""
    train_samples: list[int]
    test_samples: list[int]
    model_parameters: int
    evaluated: list[int]
    """The rounds that were evaluated, or with thousands of clients some of them, the last among
    them; figures have one entry for each."""
    figures: dict[str, list[list[float | None]]]
    """By metric, then evaluated round, then client; None is undefined or not finite."""
    bytes_by_round: list[int]
    """Bytes of all messages that training needed, in each round."""
    evaluation_bytes_by_round: list[int]
    """Bytes that reading models for evaluation needed on top, in each round."""
    wall_seconds: dict[str, float]
    """Seconds by the clock on the wall, by phase, over the whole run."""
    processor_seconds_by_round: list[float]
    """Seconds of all threads in each round, without evaluation and waiting for checkpoints."""
    on_own_distribution: float | None
    """Mean over clients of the posterior's weight on peers of their own distribution."""
    effective_collaborators: float | None
    """Mean over clients of 1 / sum of squared posterior weights."""
    provenance: Provenance
    alone: dict[str, list[float | None]] | None = None
    """At the last evaluated round, by metric, then client: of the model that each client trained
    alone and shows to nobody; None where the method trains none."""
    together: dict[str, list[float | None]] | None = None
    """The same of the collaborators' models, without the one trained alone."""
    together_share: list[float] | None = None
    """How much the collaborators' models count in what each client predicts with."""
    together_chance: list[float | None] | None = None
    """How probable it is, as held-out samples tell, that they do better than the model trained
    alone; None where nothing can be said."""
    epsilon: list[float] | None = None
    """What all that each client has sent costs in differential privacy of its samples; None where
    training is not private."""
    delta: float | None = None
    """The probability with which the bound of `epsilon` may fail."""
    ended_after: int | None = None
    """The round after which a cell ended before the last that was asked for, because no client
    gained any more: from then on nothing changes and nothing is sent."""
    kept_rounds: list[int] | None = None
    """The round whose personal model each client keeps; None where it is the last."""
    clients_drawn: bool | None = None
    """Whether clients of the same name are others on another seed; None where nobody wrote it."""
    hostile: list[str] = field(default_factory=list)
    """The clients that are hostile, in a simulation of an attack. Reports are about the others."""

    def __post_init__(self) -> None:
        """Refuse lists that are not about the same clients or rounds."""
        by_client: list[Sequence[object] | None] = [
            self.distribution,
            self.train_samples,
            self.test_samples,
            self.together_share,
            self.together_chance,
            self.epsilon,
            self.kept_rounds,
            *(self.alone or {}).values(),
            *(self.together or {}).values(),
        ]
        for name, by_round in self.figures.items():
            if len(by_round) != len(self.evaluated):
                raise ValueError(f"figures.{name}: one list for each evaluated round belongs")
            by_client += by_round
        for values in by_client:
            if values is not None and len(values) != len(self.clients):
                raise ValueError(
                    f"a list has {len(values)} entries for {len(self.clients)} clients"
                )

    def without_hostile(self) -> "CellResult":
        """The same of honest clients alone.

        What the line has only as a mean over all clients is not known of the honest ones.
        """
        if not self.hostile:
            return self
        honest = [place for place, name in enumerate(self.clients) if name not in self.hostile]
        figures = {}
        for name, by_round in self.figures.items():
            figures[name] = [_chosen(by_client, honest) for by_client in by_round]
        distribution = self.distribution
        if distribution is not None:
            distribution = _chosen(distribution, honest)
        together_share = self.together_share
        if together_share is not None:
            together_share = _chosen(together_share, honest)
        together_chance = self.together_chance
        if together_chance is not None:
            together_chance = _chosen(together_chance, honest)
        epsilon = self.epsilon
        if epsilon is not None:
            epsilon = _chosen(epsilon, honest)
        return replace(
            self,
            clients=_chosen(self.clients, honest),
            distribution=distribution,
            train_samples=_chosen(self.train_samples, honest),
            test_samples=_chosen(self.test_samples, honest),
            figures=figures,
            on_own_distribution=None,
            effective_collaborators=None,
            alone=_chosen_figures(self.alone, honest),
            together=_chosen_figures(self.together, honest),
            together_share=together_share,
            together_chance=together_chance,
            kept_rounds=None if self.kept_rounds is None else _chosen(self.kept_rounds, honest),
            epsilon=epsilon,
        )

    @property
    def comparisons(self) -> Comparisons | None:
        """What each client is alone, together and as used, at the last evaluated round."""
        if self.alone is None or self.together is None or self.together_share is None:
            return None
        return Comparisons(
            self.alone,
            self.together,
            self.figures_at(-1),
            self.together_share,
            self.together_chance,
        )

    def figures_at(self, place: int) -> dict[str, list[float | None]]:
        """All figures of one of the evaluated rounds, by metric, then client."""
        return {name: by_round[place] for name, by_round in self.figures.items()}

    @property
    def key(self) -> Key:
        """What makes this measurement different from every other."""
        return Key.of(self)


def _chosen(values: Sequence[T], places: Sequence[int]) -> list[T]:
    return [values[place] for place in places]


def _chosen_figures(
    figures: Mapping[str, Sequence[float | None]] | None, places: Sequence[int]
) -> dict[str, list[float | None]] | None:
    if figures is None:
        return None
    return {name: _chosen(by_client, places) for name, by_client in figures.items()}


def metric_of_result(result: CellResult) -> Metric:
    """The figure that this cell is judged by."""
    if result.rate_kind == "tuning":
        return tuning_metric(result.task)
    return metric_of(result.task)


@dataclass(frozen=True)
class StoredAggregate:
    """Means over several seeds from before results were stored cell by cell.

    Kept, and marked as such wherever it is shown, until the cells are measured again.
    """

    settings: str
    row: str
    method: str
    title: str
    column: str
    rate: float
    rate_kind: RateKind
    rounds: int
    by_seed: dict[int, float]
    """The figure after the last round; accuracies as fractions. "inf" was diverged."""
    by_client: dict[str, float]
    """Each client's own figure, mean over seeds."""
    curve_rounds: list[int]
    curve_mean: list[float]
    curve_sd: list[float]
    bytes_moved: list[float]
    """Bytes of all messages up to each round of the curve, mean over seeds."""
    processor_seconds: list[float]
    """Seconds of all threads up to each round of the curve, mean over seeds."""
    on_own_distribution: float | None
    effective_collaborators: float | None
    provenance: list[Provenance]
    stored_as: Literal["aggregate"] = field(default="aggregate")


RESULT = TypeAdapter(CellResult)
AGGREGATE = TypeAdapter(StoredAggregate)


def append_result(folder: Path, result: CellResult) -> None:
    """Add the line of a finished cell to the results of a run."""
    line = _as_line(result) + "\n"
    path = folder / RESULTS
    with disk_errors(path):
        _cut_torn_line(path)
        with path.open("a", encoding="utf-8") as file:
            file.write(line)


def read_results(folder: Path) -> tuple[list[CellResult], list[StoredAggregate]]:
    """Read all lines; of two with the same key the later one counts."""
    path = folder / RESULTS
    cells: dict[Key, CellResult] = {}
    aggregates: list[StoredAggregate] = []
    for number, raw in _lines(path):
        try:
            if isinstance(raw, dict) and raw.get("stored_as") == "aggregate":
                aggregates.append(AGGREGATE.validate_python(raw))
            else:
                cell = RESULT.validate_python(raw)
                cells[cell.key] = cell
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"])
            fault = f"{place}: {first['msg']}" if place else first["msg"]
            raise RunError(
                f"{path}: line {number} is not a result ({fault}); delete that line to read "
                "the rest"
            ) from None
    return list(cells.values()), aggregates


def merge_results(target: Path, results: Iterable[CellResult]) -> None:
    """Add results to a folder that keeps them: a union by key, the new ones count.

    Means from before are dropped where all their seeds have been measured again.
    """
    kept, aggregates = read_results(target)
    union: dict[Key, CellResult] = {}
    for result in [*kept, *results]:
        union[result.key] = result

    lines = []
    for aggregate in aggregates:
        if not _measured_again(aggregate, union.values()):
            line = json.dumps(asdict(aggregate), allow_nan=False)
            lines.append(f"{line}\n")
    for result in union.values():
        lines.append(f"{_as_line(result)}\n")
    publish_text(target / RESULTS, "".join(lines))


def _as_line(result: CellResult) -> str:
    # Not `asdict`: it copies every number, of which there may be millions.
    fields = vars(result) | {"provenance": asdict(result.provenance)}
    return json.dumps(fields, allow_nan=False)


def _measured_again(aggregate: StoredAggregate, cells: Iterable[CellResult]) -> bool:
    """Whether there is a cell of at least as many rounds for every seed of the means."""
    if aggregate.rate_kind == "tuning":
        return False

    place = (aggregate.row, aggregate.column, aggregate.rate_kind)
    seeds = set()
    for cell in cells:
        same_place = (cell.row, cell.column, cell.rate_kind) == place
        if same_place and cell.rounds >= aggregate.rounds:
            seeds.add(cell.seed)
    return seeds >= aggregate.by_seed.keys()


def _cut_torn_line(path: Path) -> None:
    """Remove a last line that a crash has cut short: the next one must not be written behind it."""
    if not path.exists():
        return
    with path.open("rb+") as file:
        content = file.read()
        file.truncate(content.rfind(b"\n") + 1)


def _lines(path: Path) -> list[tuple[int, Any]]:
    """What the whole lines of the file hold, with their numbers.

    A last line cut short by a crash is left out.
    """
    if not path.exists():
        return []
    found: list[tuple[int, Any]] = []
    number = 0
    try:
        for number, line in enumerate(whole_lines(path), start=1):
            found.append((number, json.loads(line)))
    except TooLargeError as error:
        raise RunError(f"{path}: line {number + 1}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise RunError(
            f"{path}: line {number} is damaged ({error}); delete that line to read the rest"
        ) from None
    return found
