"""One measurement of a workload: federico, the bare loop and the plain twin take turns, with the
limit in between.
"""

from contextlib import ExitStack
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.bare import Bare
from benchmarks.machine import Limit, peak_memory
from benchmarks.pace import Pace, scratch
from benchmarks.plain import Played, twin
from benchmarks.store import CACHE
from benchmarks.work import read_models, read_problem, work_of
from benchmarks.workloads import Workload
from federico.api.progress import Quiet
from federico.experiment.build import prepare
from federico.experiment.runner import simulate
from federico.runs.layout import CellDir
from federico.runs.records import Record


def get_ready(work: Workload) -> None:
    """Find out now if the data is missing, and play the run that all measurements of this workload
    go on from.
    """
    prepare(work.load(1), seed=0)
    if work.warm and not (_warm(work) / "federico-0" / "done.json").exists():
        simulate(work.load(work.warm), _warm(work).parent, Quiet())


def _warm(work: Workload) -> Path:
    return CACHE / "warm" / work.name


def measure(work: Workload) -> dict[str, Any]:
    """Go on from the warm run, in a copy of it."""
    with scratch(_warm(work) if work.warm else None) as root, ExitStack() as stack:
        turns = Turns(root / work.name, stack)
        pace = Pace(work.plan, turns.play)
        turns.limit.measure()
        simulate(work.load(work.warm + work.plan.rounds), root, pace)
        ours = [{"whole": measured.whole, "phases": measured.phases} for measured in pace.rounds]
    turns_taken = [{**mine, **others} for mine, others in zip(ours, turns.taken, strict=True)]
    return {"rates": turns.limit.rates, "peak": turns.peak, "turns": turns_taken}


class Turns:
    """What happens after each measured round: the others do its work again."""

    def __init__(self, run: Path, stack: ExitStack) -> None:
        self.limit = Limit()
        self.taken: list[dict[str, Any]] = []
        self.peak = 0
        self._run, self._stack = run, stack

    def play(self, cell: CellDir, record: Record) -> None:
        """One turn of each, on the work of this round."""
        self.limit.measure()
        if not self.taken:
            self._begin()
        work = work_of(record, self._problem.names, self._problem.w_min)
        bare = self._bare.play(work)
        self.limit.measure()
        plain = self._twin.play(record.round)
        self.limit.measure()
        after = read_models(cell, record.round, self._problem.layout)
        self.taken.append(
            {
                "flop": self._problem.flop(work),
                "visits": len(work.visits),
                "trained": len(work.trained),
                "mixed": sum(map(len, work.mixtures)),
                "bare": bare,
                "plain": plain.seconds,
                "difference": difference(
                    plain, [after.losses[pair] for pair in work.visits], record
                ),
            }
        )

    def _begin(self) -> None:
        """The others come only now: until here the process held federico alone."""
        self.peak = peak_memory()
        self._problem = read_problem(self._run)
        self._bare = Bare(self._problem)
        self._twin = self._stack.enter_context(twin(self._run))


def difference(plain: Played, losses: list[float], record: Record) -> dict[str, float]:
    """How far the twin's losses are from federico's, as a part of them.

    Before the round's training: of any visit. After it: of the mean over clients, because Adam
    makes full steps of gradients that are nothing but rounding, and a single client's loss can turn
    on them.
    """
    assert record.figures is not None, "every round is evaluated"
    tested = [float("nan") if loss is None else loss for loss in record.figures["loss"]]
    before = max(_apart(a, b) for a, b in zip(plain.losses, losses, strict=True))
    return {"before": before, "after": _apart(mean(plain.test_losses), mean(tested))}


def _apart(a: float, b: float) -> float:
    return abs(a - b) / max(abs(a), abs(b), 1e-12)
