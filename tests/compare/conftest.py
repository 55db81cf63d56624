"""A study of the real thing, small enough to be over in a few seconds, and what a listener was told."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from federico.compare.queue import News
from federico.compare.result import Result, gather
from federico.compare.run import run_study
from federico.compare.study import Cell, Study, parse_study
from federico.compare.studydir import StudyDir

TINY: dict[str, Any] = {
    "name": "tiny",
    "methods": ["federico", "local", "fedavg"],
    "seeds": [0, 1],
    "rounds": 2,
    "split": {"samples": 240},
    "partition": {"kind": "label-groups", "clients": 4, "groups": 2},
    "model": {"kind": "linear"},
    "federico": {"neighbors": 2},
    "system": {"threads": 1},
    "compare": {
        "title": "Tiny digits",
        "at": ["given", "best"],
        "columns": [{"name": "two"}, {"name": "four", "set": {"partition.groups": 4}}],
        "tuning": {"rates": [0.01, 0.1], "rounds": 1},
        "paper": {
            "where": "Table 0", "rounds": 150, "runs": 3, "finding": "Together is better.",
            "values": {"federico": {"two": [56.61, 2.51]}, "local": {"two": [40.09, 2.84]}},
        },
    },
}  # fmt: skip


class Told:
    """What a listener was told."""

    def __init__(self) -> None:
        self.expected: list[Cell] = []
        self.finished: list[Cell] = []
        self.rounds: list[int] = []

    def expect(self, cells: Sequence[Cell]) -> None:
        self.expected += cells

    def hear(self, news: News) -> None:
        if news.finished:
            self.finished.append(news.cell)
        else:
            self.rounds.append(news.round)


@dataclass(frozen=True)
class Played:
    study: Study
    folder: StudyDir
    told: Told

    @property
    def result(self) -> Result:
        result = gather(self.study, self.folder)
        assert result is not None
        return result


def make_study(compare: dict[str, Any] | None = None, **changes: Any) -> Study:
    raw = copy.deepcopy(TINY) | changes
    raw["compare"] |= compare or {}
    return parse_study(raw, "tiny.toml")


@pytest.fixture(scope="session")
def tiny() -> Callable[..., Study]:
    """A small study on the digits; keywords replace tables of the experiment, `compare` keys of that table."""
    return make_study


@pytest.fixture
def play(tmp_path: Path) -> Callable[..., Played]:
    """Run a study below `tmp_path`."""

    def run(study: Study, **how: Any) -> Played:
        folder, told = StudyDir(tmp_path / study.name), Told()
        run_study(study, folder, told, **how)
        return Played(study, folder, told)

    return run


@pytest.fixture(scope="session")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    """A finished study to look at; a test that writes makes its own."""
    study = make_study()
    folder, told = StudyDir(tmp_path_factory.mktemp("studies") / study.name), Told()
    run_study(study, folder, told)
    return Played(study, folder, told)


@pytest.fixture(scope="session")
def result(played: Played) -> Result:
    return played.result
