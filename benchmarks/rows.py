"""The rows of the suite: how each is measured, and what is read off its measurements."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks import growth, models, ranks, ratios
from benchmarks.pace import Plan
from benchmarks.ratios import Ratio
from benchmarks.workloads import WORKLOADS

ENDURANCE = Plan(9, 10)


def _nothing() -> None:
    """For rows that need no preparation."""


@dataclass(frozen=True)
class Row:
    """One line of the benchmark."""

    name: str
    title: str
    measure: Callable[[], dict[str, Any]]
    ratios: tuple[Ratio, ...]
    prepare: Callable[[], None] = _nothing
    """Once, before the first measurement."""
    repeats: int | None = None
    """How many measurements are enough, where that is less than usual."""


def _of_models() -> list[Row]:
    return [
        Row(
            work.name,
            work.title,
            partial(models.measure, work),
            ratios.MODELS,
            partial(models.get_ready, work),
        )
        for work in WORKLOADS.values()
    ]


def _of_growth() -> list[Row]:
    rows = []
    for series in growth.SERIES.values():
        work = [series.work(size) for size in series.sizes]
        found = ratios.growth_in_clients(work) if series.key == "clients" else ratios.growth(work)
        rows.append(Row(series.name, series.title, partial(growth.measure, series), found))
    return rows


ROWS = {
    row.name: row
    for row in (
        *_of_models(),
        *_of_growth(),
        Row(
            "endurance",
            "K=4096, linear, 100 rounds in one process",
            partial(growth.play, {"clients": 4096}, ENDURANCE),
            ratios.ENDURANCE,
            repeats=1,
        ),
        Row(
            "ranks",
            "MPI on CNN2",
            ranks.measure,
            ratios.RANKS,
            partial(models.get_ready, ranks.WORK),
        ),
    )
}
