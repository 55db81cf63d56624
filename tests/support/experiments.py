"""Experiments that take a tenth of a second, and an observer that remembers what it was told."""

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from federico.data.summary import DataSummary
from federico.experiment.config import Experiment, validate
from federico.experiment.grid import Cell, Grid, make_grid
from federico.experiment.runner import simulate
from federico.runs.layout import CellDir, RunDir
from federico.runs.records import Record
from federico.runs.results import CellResult

TINY: dict[str, Any] = {
    "name": "tiny",
    "methods": ["federico"],
    "rounds": 2,
    "split": {"samples": 240},
    "partition": {"kind": "label-groups", "clients": 4, "groups": 2},
    "model": {"kind": "mlp", "hidden": [8]},
    "federico": {"neighbors": 2},
    "system": {"threads": 1, "checkpoint_every": 1},
}


class Told:
    """What an observer was told."""

    def __init__(self) -> None:
        self.order: list[tuple[str, int]] = []
        self.rounds_before: list[int] = []
        self.rounds: list[int] = []
        self.finished: list[str] = []
        self.said: list[str] = []
        self.data: list[DataSummary] = []
        self.results: list[CellResult] = []

    def data_loaded(self, summary: DataSummary) -> None:
        self.data.append(summary)

    def started(self, cells: Sequence[Cell], finished: Sequence[CellResult]) -> None:
        self.order = [(cell.method, cell.seed) for cell in cells]

    def cell_started(self, cell: CellDir, rounds_before: int) -> None:
        self.rounds_before.append(rounds_before)

    def round_done(self, cell: CellDir, record: Record) -> None:
        self.rounds.append(record.round)

    def cell_finished(self, cell: CellDir, results: Sequence[CellResult]) -> None:
        self.finished.append(cell.path.name)
        self.results += results

    def say(self, message: str) -> None:
        self.said.append(message)


def make_experiment(**changes: Any) -> Experiment:
    return validate(TINY | changes)


GRID: dict[str, Any] = {
    "name": "tiny",
    "methods": ["federico", "local", "fedavg"],
    "seeds": [0, 1],
    "rounds": 2,
    "split": {"samples": 240},
    "partition": {"kind": "label-groups", "clients": 4, "groups": 2},
    "model": {"kind": "linear"},
    "federico": {"neighbors": 2},
    "system": {"threads": 1},
    "grid": {
        "title": "Tiny digits",
        "rates": ["given", "best"],
        "columns": [{"name": "two"}, {"name": "four", "set": {"partition.groups": 4}}],
        "tuning": {"rates": [0.01, 0.1], "rounds": 1},
    },
    "paper": {
        "where": "Table 0",
        "rounds": 150,
        "values": {"federico": {"two": [56.61, 2.51]}, "local": {"two": [40.09, 2.84]}},
    },
}


def make_tiny_grid(grid: dict[str, Any] | None = None, **changes: Any) -> Grid:
    tables = copy.deepcopy(GRID) | changes
    tables["grid"] |= grid or {}
    return make_grid(tables, "tiny.toml")


@pytest.fixture(scope="session")
def tiny_grid() -> Callable[..., Grid]:
    """A small grid on the digits; keywords replace tables, `grid` keys of that table."""
    return make_tiny_grid


@pytest.fixture(scope="session")
def tiny() -> Callable[..., Experiment]:
    """A small experiment on the digits; keywords replace whole tables of it."""
    return make_experiment


@pytest.fixture
def play(tmp_path: Path) -> Callable[..., tuple[RunDir, Told]]:
    """Run a small experiment below `tmp_path`, or below `root`."""

    def run(
        root: Path = tmp_path, dataset: Any = None, factory: Any = None, **changes: Any
    ) -> tuple[RunDir, Told]:
        told = Told()
        return simulate(
            make_experiment(**changes), root, told, dataset=dataset, factory=factory
        ), told

    return run


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    """A finished run to look at; a test that writes makes its own."""
    return simulate(
        make_experiment(methods=["federico", "fedavg"]), tmp_path_factory.mktemp("finished"), Told()
    )


@pytest.fixture
def told() -> Told:
    return Told()
