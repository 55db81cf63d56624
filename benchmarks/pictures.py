"""The figures of the benchmark page."""

from collections.abc import Callable
from statistics import median

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, PercentFormatter

from benchmarks.growth import SERIES, Series
from benchmarks.ratios import slope, spread
from benchmarks.rows import ROWS
from benchmarks.tables import PHASES, Measured, over_turns, point_values, with_goal
from benchmarks.workloads import WORKLOADS
from federico.report.drawing import AXIS, INK, SOFT, clean, sheet, subtitle

GOOD, BAD = "#0072B2", "#D55E00"
COLORS = {
    "e_step": "#56B4E9",
    "m_step": "#0072B2",
    "evaluate": "#E69F00",
    "record": "#CC79A7",
    "checkpoint": "#D55E00",
}
OTHER, BETWEEN = "#7A7A7A", "#D9DCE2"
NARROW = 6.2
"""Inches of a picture that can still be read on a telephone."""
FAR = 100.0
"""A figure that is so many times better than its goal is drawn at the edge."""


def goals(measured: Measured) -> Figure:
    """How far each figure is from its goal: right of the line it is reached."""
    found = [pair for pair in with_goal(measured) if not pair[1].rounding]
    title = "Measured against the goals (dot: median, bar: range)"
    figure = sheet(NARROW, 1.3 + 0.42 * len(found), title)
    axes = figure.subplots()
    for place, (row, ratio) in enumerate(reversed(found)):
        values = spread(ratio, measured[row])
        times = sorted(
            _times_goal(value, ratio.goals[row], ratio.better) for value in values.values
        )
        color = GOOD if ratio.reached(row, values.middle) else BAD
        axes.plot(
            [times[0], times[-1]],
            [place, place],
            color=color,
            linewidth=3,
            alpha=0.35,
            solid_capstyle="round",
        )
        axes.plot(median(times), place, "o", color=color, markersize=6)
        axes.annotate(
            f"{values.middle:.3g}",
            (times[-1], place),
            (8, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
            color=color,
        )
        # Above its bar: beside it there would be no room on a telephone.
        axes.annotate(
            f"{ROWS[row].title}: {ratio.title} (goal {ratio.goals[row]:g})",
            (0, place),
            (0, 5),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            va="bottom",
            fontsize=8,
            color=INK,
        )
    axes.set_yticks([])
    axes.set_ylim(-0.6, len(found) - 0.2)
    axes.axvline(1, color=AXIS, linewidth=1.2, zorder=0)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}x"))
    axes.xaxis.set_minor_formatter(
        FuncFormatter(lambda value, _: f"{value:g}x" if value in {0.5, 2, 5} else "")
    )
    axes.margins(x=0.12)
    axes.set_xlabel("times better than the goal")
    clean(axes, "x")
    return figure


def _times_goal(value: float, goal: float, better: str) -> float:
    return min(FAR, value / goal if better == "higher" else goal / max(value, goal / FAR))


def phases(measured: Measured) -> Figure:
    """What a round's time goes to."""
    names = [name for name in WORKLOADS if name in measured]
    figure = sheet(NARROW, 1.9 + 0.5 * len(names), "Where the time of a round goes")
    axes = figure.subplots()
    left = [0.0] * len(names)
    places = range(len(names))[::-1]
    for label, color, seconds in _portions():
        shares = [seconds(measured, name) / over_turns(measured[name], "whole") for name in names]
        axes.barh(places, shares, left=left, color=color, label=label, height=0.62)
        left = [start + share for start, share in zip(left, shares, strict=True)]
    axes.set_yticks(places, [WORKLOADS[name].title for name in names])
    axes.xaxis.set_major_formatter(PercentFormatter(1))
    axes.set_xlim(0, 1)
    axes.set_xlabel("part of a whole round")
    axes.legend(
        loc="upper center",
        bbox_to_anchor=(0.45, -0.28),
        ncols=4,
        frameon=False,
        fontsize=8.5,
        labelcolor=INK,
        handlelength=1,
        columnspacing=1.2,
    )
    clean(axes)
    return figure


def _portions() -> list[tuple[str, str, Callable[[Measured, str], float]]]:
    """(label, colour, seconds) of what a round is made of; small phases together, then what no
    phase accounts for.
    """

    def seconds(*phases: str) -> Callable[[Measured, str], float]:
        return lambda measured, name: sum(
            over_turns(measured[name], "phases", phase) for phase in phases
        )

    def between(measured: Measured, name: str) -> float:
        return max(0.0, over_turns(measured[name], "whole") - seconds(*PHASES)(measured, name))

    named = [(phase.replace("_", "-"), color, seconds(phase)) for phase, color in COLORS.items()]
    small = seconds(*(phase for phase in PHASES if phase not in COLORS))
    return [
        *named,
        ("sample, pull, push, update", OTHER, small),
        ("between phases", BETWEEN, between),
    ]


def growth(measured: Measured) -> Figure:
    """Time and memory of every series against the work, with the fitted power."""
    series = [one for name, one in SERIES.items() if name in measured]
    figure = sheet(NARROW, 0.6 + 2.4 * len(series), "How time and memory grow")
    grid = figure.subplots(len(series), 2, squeeze=False)
    for (left, right), one in zip(grid, series, strict=True):
        subtitle(left, one.title)
        _curve(left, one, measured, "seconds", 1.0, "seconds per round")
        _curve(right, one, measured, "memory", 1e-6, "memory above start (MB)")
        for axes in (left, right):
            axes.set_xlabel(one.axis)
    return figure


def _curve(
    axes: Axes, series: Series, measured: Measured, what: str, unit: float, label: str
) -> None:
    work = [series.work(size) for size in series.sizes]
    values = [
        [unit * value for value in point_values(measured[series.name], place, what)]
        for place in range(len(work))
    ]
    middle = [median(points) for points in values]
    power = slope(work, middle)
    line = [middle[-1] * (size / work[-1]) for size in work]
    axes.plot(work, line, "--", color=OTHER, linewidth=1, label="as the work")
    axes.vlines(
        work, list(map(min, values)), list(map(max, values)), color=GOOD, alpha=0.35, linewidth=3
    )
    axes.plot(
        work,
        middle,
        "o-",
        color=GOOD,
        markersize=4,
        linewidth=1.4,
        label=f"measured: power {power:.2f}",
    )
    axes.set(xscale="log", yscale="log", ylabel=label)
    axes.set_xticks(work, [f"{size:g}" for size in work])
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_locator(
        LogLocator(subs=(1, 2, 5) if max(middle) < 100 * min(middle) else (1,))
    )
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.legend(frameon=False, fontsize=7.5, labelcolor=SOFT, loc="best")
    clean(axes, "y")
