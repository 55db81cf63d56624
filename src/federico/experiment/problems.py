"""Sets up cells, loading the data of each problem once, and checks every cell."""

from collections.abc import Sequence
from dataclasses import replace

from federico.data.dataset import Dataset
from federico.data.summary import DataSummary, summarize_data
from federico.errors import FedericoError
from federico.experiment.build import Problem, Setup, assemble, load_problem
from federico.experiment.grid import Cell
from federico.learning.models import Factory


class ProblemCache:
    """The problem that was set up last: cells on one problem come one after the other.

    More than one is not held, as each may take gigabytes.
    """

    def __init__(self, dataset: Dataset | None = None, factory: Factory | None = None) -> None:
        """`dataset` and `factory` are given where Python brings its own data and model."""
        self._dataset = dataset
        self._factory = factory
        self._problem: Problem | None = None
        self._problem_key = ""
        self._setup: Setup | None = None
        self._model_key = ""

    def setup(self, cell: Cell) -> Setup:
        """The data and the model of this cell, checked."""
        experiment = cell.experiment
        problem = self._load(cell)
        if self._setup is not None and self._model_key == model_key(cell):
            self._setup.check_cell(experiment, cell.method)
            return replace(self._setup, experiment=experiment, seed=cell.seed)

        self._setup = assemble(
            experiment, cell.seed, problem.dataset, problem.shares, problem.clients, self._factory
        )
        self._model_key = model_key(cell)
        return self._setup

    def summary(self, cell: Cell) -> DataSummary:
        """What the data of this cell looks like."""
        problem = self._load(cell)
        return summarize_data(problem.dataset, problem.shares)

    def _load(self, cell: Cell) -> Problem:
        key = problem_key(cell)
        if self._problem is None or key != self._problem_key:
            # Let go of the last one before the next is loaded.
            self._problem = None
            self._setup = None
            self._problem = load_problem(cell.experiment, cell.seed, self._dataset)
            self._problem_key = key
        return self._problem


def model_key(cell: Cell) -> str:
    """What is the same for cells that train the same kind of model."""
    experiment = cell.experiment
    training = experiment.training
    model = experiment.model.model_dump_json()
    parts: list[object] = [
        experiment.system.dtype,
        training.precision,
        training.pretrained,
        training.shared,
    ]
    if training.shared != "all":
        parts.append(cell.seed)  # what is frozen may be drawn
    return f"{parts} {model}"


def problem_key(cell: Cell) -> str:
    """What is the same for cells whose clients have the same data."""
    experiment = cell.experiment
    tables = experiment.model_dump_json(include={"data", "partition", "split"})
    return f"{experiment.data_seed(cell.seed)} {tables}"


def by_problem(cells: Sequence[Cell]) -> list[Cell]:
    """The same cells, those on one problem one after the other."""
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        group = groups.setdefault(problem_key(cell), [])
        group.append(cell)

    ordered: list[Cell] = []
    for group in groups.values():
        ordered += group
    return ordered


def explain(error: FedericoError, cell: Cell, *, several: bool) -> FedericoError:
    """The error with the row and column it was found in, where there are several."""
    if not several:
        return error
    place = f"row {cell.row!r}"
    if cell.column:
        place += f", column {cell.column!r}"
    if cell.rate_kind == "tuning":
        place += ", tuning"
    return type(error)(f"{place}, seed {cell.seed}: {error}")
