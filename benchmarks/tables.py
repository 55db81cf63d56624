"""What was measured, as tables for the terminal and for the page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import getitem
from statistics import median

from rich.table import Table as RichTable

from benchmarks.growth import SERIES, Series
from benchmarks.ratios import Measurement, Ratio, spread
from benchmarks.rows import ROWS
from benchmarks.workloads import WORKLOADS

PHASES = (
    "sample",
    "pull",
    "e_step",
    "m_step",
    "push",
    "update",
    "evaluate",
    "record",
    "checkpoint",
)
Measured = Mapping[str, Sequence[Measurement]]


@dataclass(frozen=True)
class Table:
    """Cells that are ready to be read."""

    title: str
    heads: list[str]
    rows: list[list[str]]

    def markdown(self) -> str:
        """For the page."""
        lines = [self.heads, ["---"] * len(self.heads), *self.rows]
        return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"

    def rich(self) -> RichTable:
        """For the terminal."""
        table = RichTable(*self.heads, title=self.title, title_justify="left")
        for cells in self.rows:
            table.add_row(*cells)
        return table


def of(measured: Measured) -> list[Table]:
    """All tables that have rows."""
    tables = [
        goals(measured),
        phases(measured),
        others(measured),
        ratios(measured),
        growth(measured),
    ]
    return [table for table in tables if table.rows]


def goals(measured: Measured) -> Table:
    """Every ratio that has a goal, and whether its median reached it."""
    rows = []
    for row, ratio in with_goal(measured):
        found = spread(ratio, measured[row])
        sign = ">=" if ratio.better == "higher" else "<="
        verdict = "yes" if ratio.reached(row, found.middle) else "**no**"
        rows.append(
            [ROWS[row].title, ratio.title, f"{sign} {ratio.goals[row]:g}", str(found), verdict]
        )
    return Table("Goals", ["workload", "figure", "goal", "measured", "reached"], rows)


def with_goal(measured: Measured) -> list[tuple[str, Ratio]]:
    """The rows and ratios that have a goal, in the order of the suite."""
    return [
        (row, ratio)
        for row in ROWS
        if row in measured
        for ratio in ROWS[row].ratios
        if row in ratio.goals
    ]


def phases(measured: Measured) -> Table:
    """Seconds of each phase of a round."""
    rows = []
    for row in _workloads(measured):
        cells = [over_turns(measured[row], "phases", phase) for phase in PHASES]
        rows.append(
            [WORKLOADS[row].title, *map(_seconds, [*cells, over_turns(measured[row], "whole")])]
        )
    return Table("Seconds per phase of a round", ["workload", *PHASES, "whole round"], rows)


def others(measured: Measured) -> Table:
    """Seconds of the others on the work of the same round, and the limit meanwhile."""
    rows = []
    for row in _workloads(measured):
        runs = measured[row]
        steps = [
            over_turns(runs, who, step)
            for who in ("phases", "bare", "plain")
            for step in ("e_step", "m_step")
        ]
        counts = [f"{over_turns(runs, what):.0f}" for what in ("visits", "trained", "mixed")]
        rate = median(rate for run in runs for rate in run["rates"])
        rows.append([WORKLOADS[row].title, f"{rate / 1e9:.0f}", *counts, *map(_seconds, steps)])
    heads = ["workload", "matmul Gflop/s", "visits", "trained", "mixed"]
    heads += [f"{who}: {step}" for who in ("federico", "bare", "plain") for step in ("E", "M")]
    return Table("The same round by the others (seconds)", heads, rows)


def ratios(measured: Measured) -> Table:
    """Every ratio of the workloads, with a goal or without."""
    names = _workloads(measured)
    rows = [
        [ratio.title, *(str(spread(ratio, measured[name])) for name in names)]
        for ratio in (ROWS[names[0]].ratios if names else ())
    ]
    return Table("Ratios", ["figure", *(WORKLOADS[name].title for name in names)], rows)


def growth(measured: Measured) -> Table:
    """Seconds and memory of every size of every series."""
    rows = []
    for series in _series(measured):
        for place, size in enumerate(series.sizes):
            seconds, memory = (
                point_values(measured[series.name], place, what) for what in ("seconds", "memory")
            )
            rows.append(
                [series.axis, str(size), _seconds(median(seconds)), f"{median(memory) / 1e6:.3g}"]
            )
    return Table(
        "Growth", ["size", "value", "seconds per round", "memory above the start (MB)"], rows
    )


def over_turns(runs: Sequence[Measurement], *path: str) -> float:
    """What lies at this path of a turn: the median over runs of the median over turns."""
    return median(
        median(float(reduce(getitem, path, turn)) for turn in run["turns"]) for run in runs
    )


def point_values(runs: Sequence[Measurement], place: int, what: str) -> list[float]:
    """Of one size of a series, over runs."""
    return [float(run["points"][place][what]) for run in runs]


def _workloads(measured: Measured) -> list[str]:
    return [name for name in WORKLOADS if name in measured]


def _series(measured: Measured) -> list[Series]:
    return [series for name, series in SERIES.items() if name in measured]


def _seconds(value: float) -> str:
    return f"{value:.3g}" if value >= 0.001 else f"{value:.1g}"
