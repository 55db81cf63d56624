"""The figures every study has: who is best, and what it costs to get there."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from federico.compare import words
from federico.compare.result import Entry, Result
from federico.report.old.drawing import (
    INK,
    METHOD_COLORS,
    METHOD_LINES,
    SOFT,
    clean,
    method_place,
    sheet,
    short,
    subtitle,
    whole_numbers,
)
from federico.report.old.summary import title_of

PAPER = "#CC79A7"


def overview(result: Result) -> Figure:
    """Every row in every column, a dot per run, the paper's figure beside it; what is still to come takes no room."""
    at, columns = words.shown_at(result), _begun(result)
    rows = [row for row in result.rows if any(result.entry(row, column, at) for column in columns)]
    figure = sheet(2.6 + 3.1 * len(columns), 1.7 + 0.36 * len(rows), result.title)
    grid = figure.subplots(1, len(columns), sharey=True, squeeze=False)
    for axes, column in zip(grid.flat, columns, strict=True):
        for entry in result.column(column, at):
            _dots(axes, result, entry, rows.index(entry.row))
        axes.set(xlabel=result.metric.axis, ylim=(len(rows) - 0.4, -0.6))
        axes.set_yticks(range(len(rows)), [title_of(row) for row in rows], parse_math=False)
        clean(axes, "x")
        axes.tick_params(axis="y", length=0, labelsize=9.5)
        subtitle(axes, column)
    _overview_legend(figure, result)
    return figure


def cost(result: Result) -> Figure:
    """Accuracy over the megabytes moved and over the processor seconds spent, a line per row."""
    at, columns = words.shown_at(result), _begun(result)
    figure = sheet(10, 0.9 + 3.0 * len(columns), f"{result.title}: what it costs")
    grid = figure.subplots(len(columns), 2, squeeze=False, sharey="row")
    for (left, right), column in zip(grid, columns, strict=True):
        entries = result.column(column, at)
        for entry in entries:
            _cost_line(left, result, entry, [moved / 1e6 for moved in entry.bytes_moved])
            _cost_line(right, result, entry, entry.processor_seconds)
        for axes, label in ((left, "megabytes moved"), (right, "processor seconds")):
            axes.set(xlabel=label, xlim=(0, None))
            clean(axes, "y")
        left.set_ylabel(result.metric.axis)
        if not result.metric.higher_is_better:
            left.set_ylim(0, _top(result, entries))
        subtitle(left, column)
    handles, labels = grid[0, 1].get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=min(len(labels), 6) or 1,
        frameon=False,
        fontsize=9.5,
    )
    return figure


def over_rounds(axes: Axes, result: Result, entries: Sequence[Entry]) -> None:
    """Curves of several rows, from light to dark where they are variants of one method."""
    shades = np.linspace(0.15, 0.9, len(entries))
    for entry, shade in zip(entries, shades, strict=True):
        mean = np.array([result.metric.drawn(value) for value in entry.curve.mean])
        spread = np.array([result.metric.scaled(value) for value in entry.curve.sd])
        color = colormaps["viridis_r"](shade)
        axes.plot(entry.curve.rounds, mean, color=color, linewidth=1.8, label=short(entry.title))
        axes.fill_between(
            entry.curve.rounds, mean - spread, mean + spread, color=color, alpha=0.12, linewidth=0
        )
    axes.set(xlabel="round", ylabel=result.metric.axis)
    whole_numbers(axes)
    clean(axes, "y")
    axes.legend(frameon=False, fontsize=9, labelcolor=INK)


def _begun(result: Result) -> list[str]:
    """The columns that have something to show."""
    return [column for column in result.columns if result.column(column, words.shown_at(result))]


def _top(result: Result, entries: Sequence[Entry]) -> float | None:
    """Of an axis of errors: those of untrained models would leave no room for the rest."""
    ends = [
        value
        for entry in entries
        if np.isfinite(value := result.metric.drawn(entry.curve.mean[-1]))
    ]
    return 1.5 * max(ends) if ends else None


def _dots(axes: Axes, result: Result, entry: Entry, place: int) -> None:
    metric, color = result.metric, METHOD_COLORS[method_place(entry.method)]
    values = [metric.drawn(value) for value in entry.by_seed.values()]
    mean, spread = metric.drawn(entry.mean), metric.scaled(entry.sd(result.spread) or 0.0)
    axes.plot([mean - spread, mean + spread], [place, place], color=color, linewidth=2, alpha=0.6)
    axes.scatter(values, [place] * len(values), s=14, color=color, alpha=0.6, linewidths=0)
    axes.scatter([mean], [place], s=60, color=color, zorder=3)
    if found := result.paper.values.get(entry.row, {}).get(entry.column):
        axes.plot(
            [found[0] - found[1], found[0] + found[1]], [place + 0.25] * 2, color=PAPER, linewidth=1
        )
        axes.scatter(
            [found[0]],
            [place + 0.25],
            s=30,
            marker="D",
            facecolor="white",
            edgecolor=PAPER,
            zorder=3,
        )


def _overview_legend(figure: Figure, result: Result) -> None:
    handles = [
        Line2D(
            [],
            [],
            color=SOFT,
            marker="o",
            markersize=8,
            linewidth=2,
            label="mean, standard deviation",
        ),
        Line2D([], [], color=SOFT, marker="o", markersize=4, linewidth=0, alpha=0.6, label="a run"),
    ]
    if result.paper.values:
        look: dict[str, Any] = {
            "marker": "D",
            "markerfacecolor": "white",
            "markersize": 5.5,
            "linewidth": 1,
        }
        handles.append(Line2D([], [], color=PAPER, label="the paper", **look))
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=3,
        frameon=False,
        fontsize=9,
        labelcolor=INK,
    )


def _cost_line(axes: Axes, result: Result, entry: Entry, spent: Sequence[float]) -> None:
    place = method_place(entry.method)
    values = [result.metric.drawn(value) for value in entry.curve.mean]
    look: dict[str, Any] = {
        "color": METHOD_COLORS[place],
        "linestyle": METHOD_LINES[place],
        "linewidth": 2,
        "label": short(entry.title),
    }
    if spent[-1] == 0:  # nothing is sent: the end result, whatever others spend
        axes.axhline(values[-1], **look)
        return
    axes.plot(spent, values, **look)
