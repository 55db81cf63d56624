"""The pictures of a run. Each function takes a summary and returns one matplotlib figure."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from federico.report.old import words
from federico.report.old.drawing import (
    FAINT,
    INK,
    METHOD_COLORS,
    METHOD_LINES,
    by_group,
    clean,
    heat,
    mark_groups,
    method_place,
    sheet,
    subtitle,
    ticks,
    whole_numbers,
)
from federico.report.old.posteriors import panels
from federico.report.old.summary import Collaboration, MethodSummary, Summary, true_groups
from federico.report.old.table import megabytes
from federico.runs.layout import Description
from federico.types import FloatArray, IntArray

MOST_ROWS = 32
"""Clients of a dot plot or bar chart."""
MOST_HEAT = 256
"""Clients of a heat-map."""


def overview(summary: Summary) -> Figure:
    """How good each method is, and whom each client learns from: the whole run at a glance."""
    shown = summary.collaboration
    figure = sheet(11 if shown else 9.5, 4.8, words.headline(summary, short=True))
    if shown is None:
        _bars(figure.subplots(), summary)
        return figure
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.05])
    _bars(left, summary)
    _trust(right, shown)
    return figure


def rounds(summary: Summary) -> Figure:
    """Each method's figure over the rounds, with a band of one standard deviation over seeds."""
    figure = sheet(8, 4.4, f"{summary.metric.name.capitalize()} over rounds")
    axes = figure.subplots()
    for method in summary.methods:
        curve, place = method.curve, method_place(method.name)
        mean = np.array([summary.metric.drawn(value) for value in curve.mean])
        spread = np.array([summary.metric.scaled(value) for value in curve.sd])
        color = METHOD_COLORS[place]
        axes.plot(
            curve.rounds,
            mean,
            color=color,
            linestyle=METHOD_LINES[place],
            linewidth=2,
            label=method.title,
        )
        axes.fill_between(
            curve.rounds,
            np.maximum(mean - spread, 0),
            mean + spread,
            color=color,
            alpha=0.15,
            linewidth=0,
        )
    _over_rounds(axes, summary.metric.axis)
    return figure


def clients(summary: Summary) -> Figure:
    """Each client's own figure, a dot per method."""
    first = summary.first
    order = by_group(
        true_groups(first) if summary.same_partition else None, len(first.clients), MOST_ROWS
    )
    names = [first.clients[place] for place in order]
    figure = sheet(
        8,
        1.9 + 0.26 * len(names),
        f"{summary.metric.name.capitalize()} of each client" + _some(order, first.clients),
    )
    axes = figure.subplots()
    places = np.arange(len(names))
    known = [
        [summary.metric.drawn(m.by_client.get(name, np.nan)) for m in summary.methods]
        for name in names
    ]
    for place, values in zip(places, known, strict=True):
        finite = [value for value in values if np.isfinite(value)]
        axes.plot(
            [min(finite, default=np.nan), max(finite, default=np.nan)],
            [place, place],
            color=FAINT,
            linewidth=3,
        )
    for column, method in enumerate(summary.methods):
        color = METHOD_COLORS[method_place(method.name)]
        axes.scatter(
            [row[column] for row in known],
            places,
            s=46,
            color=color,
            label=method.title,
            zorder=3,
            alpha=0.9,
        )
    axes.set(ylim=(len(names) - 0.4, -0.6), xlabel=summary.metric.axis, ylabel="client")
    clean(axes, "x")
    ticks(axes, "y", names)
    _legend(axes)
    return figure


def collaboration(summary: Summary) -> Figure:
    """Every client's posterior over the rounds, a line per peer (figure 3 of the paper)."""
    shown = summary.collaboration
    assert shown is not None, "asked for only where there is one"
    return panels(shown, "How each client finds its collaborators")


def partition(summary: Summary) -> Figure:
    """Who has how much of what: training samples per client and label, or in all for regression."""
    return _label_heat(summary) if summary.first.label_counts else _sample_bars(summary)


def traffic(summary: Summary) -> Figure:
    """Megabytes moved so far, over the rounds."""
    figure = sheet(8, 4, "Data moved between participants")
    axes = figure.subplots()
    for method in summary.methods:
        place, moved = method_place(method.name), np.cumsum(method.bytes_by_round) / 1e6
        axes.plot(
            np.arange(1, len(moved) + 1),
            moved,
            color=METHOD_COLORS[place],
            linestyle=METHOD_LINES[place],
            linewidth=2,
            label=f"{method.title}: {megabytes(method.bytes_moved)} MB",
        )
    _over_rounds(axes, "megabytes since the start")
    axes.set_ylim(bottom=0)
    return figure


@dataclass(frozen=True)
class Picture:
    """A figure of the page: where it is kept, and how to read it."""

    name: str
    caption: str
    draw: Callable[[Summary], Figure]
    applies: Callable[[Summary], bool] = lambda summary: True


GALLERY = (
    Picture(
        "overview",
        "Bars: each method's figure, with a dot per run and a line of one standard deviation. Cells: how much of its "
        "trust a client (row) gives to each model (column); squares along the diagonal are clients that found each "
        "other.",
        overview,
    ),
    Picture(
        "rounds",
        "One line per method, the mean over runs; the band is one standard deviation.",
        rounds,
    ),
    Picture(
        "clients",
        "One row per client, mean over runs: where the blue dot is better than the grey one, the client gains by "
        "collaborating.",
        clients,
    ),
    Picture(
        "collaboration",
        "One panel per client, one line per peer in the colour of that peer's distribution (grey if not known), the "
        "client's own model dashed: lines that rise are collaborators being found.",
        collaboration,
        lambda summary: summary.collaboration is not None and len(summary.first.clients) > 1,
    ),
    Picture("partition", "How many training samples each client has; darker is more.", partition),
    Picture(
        "traffic",
        "Everything the clients send and receive, added up: steeper lines cost more.",
        traffic,
    ),
)


def _bars(axes: Axes, summary: Summary) -> None:
    metric = summary.metric
    judged = [method for method in summary.methods if method.mean is not None]
    top = max(
        (metric.scaled(v) for m in judged for v in m.by_seed.values() if np.isfinite(v)),
        default=1.0,
    )
    for place, method in enumerate(judged):
        _bar(axes, summary, method, place, top)
    axes.set_yticks(range(len(judged)), [method.title for method in judged])
    axes.set(xlim=(0, 1.3 * top or 1), ylim=(len(judged) - 0.4, -0.6), xlabel=metric.axis)
    clean(axes, "x")
    axes.tick_params(axis="y", length=0, labelsize=10.5)
    axes.spines["left"].set_visible(False)
    direction = "higher" if metric.higher_is_better else "lower"
    subtitle(
        axes, f"{metric.name.capitalize()} on the clients' own test data ({direction} is better)"
    )


def _bar(axes: Axes, summary: Summary, method: MethodSummary, place: int, top: float) -> None:
    metric, color = summary.metric, METHOD_COLORS[method_place(method.name)]
    assert method.mean is not None, "only judged methods have a bar"
    mean, spread = metric.drawn(method.mean), metric.scaled(method.sd or 0.0)
    values = [metric.drawn(value) for value in method.by_seed.values()]
    axes.barh(place, mean, height=0.56, color=color, alpha=0.3)
    axes.plot([max(mean - spread, 0), mean + spread], [place, place], color=color, linewidth=2)
    axes.scatter(values, [place] * len(values), s=22, color=color, zorder=3)
    text = metric.text(method.mean) + metric.spread(method.sd)
    end = np.nanmax([*values, mean + spread, 0.0]) if np.isfinite(mean) else 0.0
    axes.text(end + 0.02 * top, place, text, va="center", fontsize=9.5, color=INK)


def _trust(axes: Axes, shown: Collaboration) -> None:
    about = shown.description
    order = by_group(true_groups(about), len(about.clients), MOST_HEAT)
    names = [about.clients[place] for place in order]
    groups = _groups_in(about, order)
    weights = _matrix(shown, order.tolist(), names)
    heat(
        axes,
        weights,
        max(float(weights.max()), 2 / len(names)),
        [[_in_percent(w) for w in row] for row in weights],
    )
    ticks(axes, "x", names)
    ticks(axes, "y", names)
    mark_groups(axes, groups, "xy")
    axes.set(xlabel="whose model" + (", by true distribution" if groups else ""), ylabel="client")
    subtitle(
        axes, f"Whose models each client trusts (%), seed {about.seed}{_some(order, about.clients)}"
    )


def _matrix(shown: Collaboration, order: list[int], names: list[str]) -> FloatArray:
    return np.array([[shown.latest[client].get(peer, 0.0) for peer in names] for client in order])


def _in_percent(weight: float) -> str:
    return f"{100 * weight:.0f}" if weight >= 0.005 else ""


def _label_heat(summary: Summary) -> Figure:
    about = summary.first
    order = by_group(true_groups(about), len(about.clients), MOST_HEAT)
    counts = np.array([about.label_counts[place] for place in order])
    height = float(np.clip(1.8 + 0.3 * len(order), 3, 9))
    figure = sheet(8.5, height, "Training samples of each client" + _some(order, about.clients))
    axes = figure.subplots()
    heat(axes, counts, float(counts.max()), [[str(n) if n else "" for n in row] for row in counts])
    ticks(axes, "x", about.label_names)
    ticks(axes, "y", [about.clients[place] for place in order])
    mark_groups(axes, _groups_in(about, order), "y")
    axes.set(xlabel="label", ylabel="client")
    return figure


def _sample_bars(summary: Summary) -> Figure:
    about = summary.first
    order = by_group(true_groups(about), len(about.clients), MOST_ROWS)
    train, test = np.array(about.train_samples)[order], np.array(about.test_samples)[order]
    figure = sheet(
        8, 1.9 + 0.26 * len(order), "Samples of each client" + _some(order, about.clients)
    )
    axes = figure.subplots()
    places = np.arange(len(order))
    axes.barh(places, train, height=0.66, color=METHOD_COLORS[0], label="for training")
    axes.barh(places, test, left=train, height=0.66, color="#9CC7E3", label="for testing")
    axes.set(ylim=(len(order) - 0.4, -0.6), xlabel="samples", ylabel="client")
    clean(axes, "x")
    ticks(axes, "y", [about.clients[place] for place in order])
    _legend(axes)
    return figure


def _over_rounds(axes: Axes, label: str) -> None:
    axes.set(xlabel="round", ylabel=label)
    whole_numbers(axes)
    clean(axes, "y")
    _legend(axes)


def _legend(axes: Axes) -> None:
    axes.legend(
        loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=9.5, labelcolor=INK
    )


def _groups_in(about: Description, order: IntArray) -> list[int] | None:
    groups = true_groups(about)
    return None if groups is None else [groups[place] for place in order]


def _some(order: IntArray, everyone: list[str]) -> str:
    """Says that not all clients are drawn, where that is so."""
    return f", {len(order)} of {len(everyone)} clients" if len(order) < len(everyone) else ""
