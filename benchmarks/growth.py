"""How time and memory grow: the same small problem, one of its sizes at a time made larger.

Every size has a process of its own, forked from one that has imported everything and done nothing
yet.
"""

import multiprocessing
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.machine import peak_memory
from benchmarks.pace import Pace, Plan, scratch
from federico.experiment.config import validate
from federico.experiment.runner import simulate
from federico.runs.layout import CellDir
from federico.runs.records import Record

SMALL: dict[str, Any] = {"clients": 64, "neighbors": 3, "samples": 40, "hidden": 0, "w_min": 1e-4}


@dataclass(frozen=True)
class Series:
    """One size of the problem, grown."""

    name: str
    title: str
    axis: str
    key: str
    """Which size."""
    sizes: tuple[int, ...]
    plan: Plan
    base: dict[str, Any]
    """What differs from the small problem."""
    work: Callable[[int], float] = float
    """What the time should be proportional to."""


MODERATE = {"samples": 160, "hidden": 256, "w_min": 0.0}
"""Enough for the work to outweigh what a round costs anyway; every visit trains."""
SERIES = {
    series.name: series
    for series in (
        Series(
            "growth-clients",
            "more clients, linear model",
            "clients K",
            "clients",
            (8, 64, 256, 1024, 4096),
            Plan(1, 3),
            {},
        ),
        Series(
            "growth-neighbors",
            "more neighbors, MLP",
            "neighbors M, and oneself",
            "neighbors",
            (1, 3, 7, 15),
            Plan(1, 3),
            MODERATE,
            lambda neighbors: neighbors + 1.0,
        ),
        Series(
            "growth-samples",
            "more samples, MLP",
            "samples per client",
            "samples",
            (160, 320, 640, 1280),
            Plan(1, 3),
            MODERATE | {"clients": 32},
        ),
        Series(
            "growth-model",
            "a larger MLP",
            "hidden units, so parameters",
            "hidden",
            (256, 1024, 4096),
            Plan(1, 3),
            MODERATE | {"clients": 32},
        ),
    )
}


def raw_experiment(sizes: dict[str, Any], rounds: int) -> dict[str, Any]:
    """The tables of the small problem with these sizes."""
    sizes = SMALL | sizes
    return {
        "name": "small",
        "methods": ["federico"],
        "rounds": rounds,
        "system": {"checkpoint_every": 1},
        "data": {
            "kind": "sine",
            "clients": sizes["clients"],
            "samples_per_client": sizes["samples"],
            "noise": 0.3,
        },
        "partition": {"kind": "natural"},
        "model": {"kind": "mlp", "hidden": (sizes["hidden"],)}
        if sizes["hidden"]
        else {"kind": "linear"},
        # The twin compares values in their own units.
        "training": {"batch_size": 16, "standardize_targets": False},
        # The default would have everybody try everybody once before anything else.
        "federico": {
            "neighbors": sizes["neighbors"],
            "w_min": sizes["w_min"],
            "preset": "paper",
            "strangers": "cautious",
            "temperature": 0.02,
        },
    }


class Enough(BaseException):
    """All is measured; to save thousands of clients would take longer than that."""


def play(sizes: dict[str, Any], plan: Plan) -> dict[str, float]:
    """Seconds per round, and the memory that these sizes added to the process."""
    before, peaks = peak_memory(), []

    def pause(_: CellDir, record: Record) -> None:
        peaks.append(peak_memory())
        if record.round == plan.rounds:
            raise Enough

    pace = Pace(plan, pause)
    with scratch() as root, suppress(Enough):
        simulate(validate(raw_experiment(sizes, plan.rounds)), root, pace)
    whole = [measured.whole for measured in pace.rounds]
    return {
        "seconds": median(whole),
        "last": whole[-1],
        "memory": peaks[-1] - before,
        "peak": peaks[-1],
    }


def measure(series: Series) -> dict[str, Any]:
    """Every size once."""
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload([__name__])
    with processes.Pool(1, maxtasksperchild=1) as pool:
        points = [
            pool.apply(play, ({**series.base, series.key: size}, series.plan))
            for size in series.sizes
        ]
    return {"points": points}
