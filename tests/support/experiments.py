"""Experiments that are over in a tenth of a second, and an observer that remembers what it was told."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from federico.experiment.config import Experiment, validate
from federico.experiment.runner import simulate
from federico.runs.layout import CellDir, RunDir
from federico.runs.records import Record

TINY: dict[str, Any] = {
    "name": "tiny",
    "methods": ["federico"],
    "rounds": 2,
    "split": {"samples": 240},
    "partition": {"kind": "label-groups", "clients": 4, "groups": 2},
    "model": {"kind": "mlp", "hidden": [8]},
    "federico": {"neighbors": 2, "worse_than_guess": "tracked"},
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

    def started(self, cells: list[tuple[str, int]], rounds: int) -> None:
        self.order = list(cells)

    def cell_started(self, cell: CellDir, rounds_before: int) -> None:
        self.rounds_before.append(rounds_before)

    def round_done(self, cell: CellDir, record: Record) -> None:
        self.rounds.append(record.round)

    def cell_finished(self, cell: CellDir) -> None:
        self.finished.append(cell.path.name)

    def say(self, message: str) -> None:
        self.said.append(message)


def make_experiment(**changes: Any) -> Experiment:
    return validate(TINY | changes)


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
