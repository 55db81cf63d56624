"""The watcher of rounds, on a real but tiny run; and the twin, whose numbers must be federico's."""

import time
from pathlib import Path
from typing import Any

import pytest

from benchmarks.bare import Bare
from benchmarks.growth import raw_experiment
from benchmarks.models import difference
from benchmarks.pace import Pace, Plan, checkpoint_path
from benchmarks.plain import Plain, Played, twin
from benchmarks.tables import PHASES
from benchmarks.work import Problem, Work, read_models, read_problem, work_of
from federico.experiment.config import validate
from federico.experiment.runner import simulate
from federico.runs import checkpoint
from federico.runs.layout import CellDir
from federico.runs.records import Record

PLAN = Plan(1, 3)


@pytest.fixture(scope="module")
def pauses() -> list[int]:
    return []


@pytest.fixture(scope="module")
def pace(pauses: list[int]) -> Pace:
    return Pace(PLAN, lambda cell, record: pauses.append(record.round))


@pytest.fixture(scope="module")
def run(pace: Pace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    raw = raw_experiment({"clients": 5, "hidden": 8, "w_min": 0.1}, PLAN.rounds)
    return simulate(validate(raw), tmp_path_factory.mktemp("runs"), pace).path


@pytest.fixture(scope="module")
def cell(run: Path) -> CellDir:
    return CellDir(run / "federico-0")


@pytest.fixture(scope="module")
def problem(run: Path) -> Problem:
    return read_problem(run)


@pytest.fixture(scope="module")
def last(cell: CellDir) -> Record:
    return cell.records[-1]


@pytest.fixture(scope="module")
def work(last: Record, problem: Problem) -> Work:
    return work_of(last, problem.names, problem.w_min)


def test_every_second_round_is_measured(run: Path, pace: Pace, pauses: list[int]) -> None:
    assert pauses == [2, 4, 6]
    assert len(pace.rounds) == 3
    assert all(set(measured.phases) == set(PHASES) for measured in pace.rounds)
    assert all(measured.whole >= sum(measured.phases.values()) for measured in pace.rounds)


def test_pause_begins_once_the_checkpoint_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there: list[bool] = []
    save = checkpoint.save

    def save_slowly(*arguments: Any) -> None:
        time.sleep(0.2)
        save(*arguments)

    monkeypatch.setattr(checkpoint, "save", save_slowly)
    pace = Pace(
        Plan(1, 2),
        lambda cell, record: there.append(checkpoint_path(cell, record.round) is not None),
    )
    simulate(validate(raw_experiment({"clients": 4}, 4)), tmp_path, pace)
    assert there == [True, True]


def test_work_is_what_was_recorded(work: Work, last: Record, problem: Problem) -> None:
    assert len(work.visits) == 5 * 4
    assert {(i, i) for i in range(5)} <= set(work.visits)
    assert 0 < len(work.trained) < len(work.visits), "some weigh too little"
    assert all(
        last.posterior[i][problem.names[b]] == weight for (i, b), weight in work.trained.items()
    )
    assert [sum(row.values()) for row in work.mixtures] == pytest.approx([1.0] * 5)


def test_useful_arithmetic_is_counted(problem: Problem, work: Work) -> None:
    forward = 2 * (1 * 8 + 8 * 1)
    backward = 2 * (1 * 8 + 8 * 1 + 8 * 1)  # both weights' gradients, and that of the hidden layer
    assert problem.flop(work) == 32 * (
        len(work.visits) * forward + len(work.trained) * (forward + backward)
    )


@pytest.fixture(scope="module")
def played(problem: Problem, cell: CellDir, work: Work, last: Record) -> Played:
    return Plain(problem).play(work, read_models(cell, last.round - 1, problem.layout))


def apart(
    played: Played, problem: Problem, cell: CellDir, work: Work, last: Record
) -> dict[str, float]:
    after = read_models(cell, last.round, problem.layout)
    return difference(played, [after.losses[pair] for pair in work.visits], last)


def test_twin_gets_the_same_numbers(
    played: Played, problem: Problem, cell: CellDir, work: Work, last: Record
) -> None:
    assert set(played.seconds) == {"e_step", "m_step", "update", "evaluate"}
    assert max(apart(played, problem, cell, work, last).values()) < 1e-4


@pytest.mark.parametrize("fault", ["moments", "order"])
def test_difference_shows_a_twin_that_does_other_work(
    problem: Problem, cell: CellDir, work: Work, last: Record, fault: str
) -> None:
    before = read_models(cell, last.round - 1, problem.layout)
    if fault == "moments":
        before.moments.clear()
    else:
        work = Work(work.round_index + 1, work.visits, work.trained, work.mixtures)
    other = Plain(problem).play(work, before)
    assert apart(other, problem, cell, work, last)["after"] > 1e-3


def test_twin_answers_from_a_process_of_its_own(run: Path, played: Played, last: Record) -> None:
    with twin(run) as process:
        answer = process.play(last.round)
    assert answer.losses == pytest.approx(played.losses)
    assert answer.test_losses == pytest.approx(played.test_losses, rel=1e-4)


def test_bare_loop_has_both_steps(problem: Problem, work: Work) -> None:
    seconds = Bare(problem).play(work)
    assert set(seconds) == {"e_step", "m_step"}
    assert all(value > 0 for value in seconds.values())
