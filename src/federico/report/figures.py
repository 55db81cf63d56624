"""The pictures of a report. Each function returns one matplotlib figure."""

import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, StepPatch
from matplotlib.ticker import MaxNLocator

from federico.report import text
from federico.report.details import RunDetails
from federico.report.drawing import (
    FAINT,
    INK,
    METHOD_COLORS,
    NARROW,
    PAPER,
    SOFT,
    Look,
    chosen,
    clean,
    heat,
    legend_below,
    legend_beside,
    looks,
    mark_groups,
    shades,
    sheet,
    short,
    some_of,
    subtitle,
    ticks,
    whole_numbers,
)
from federico.report.entry import Entry
from federico.report.groups import ClientGroups, by_distribution, order_of
from federico.report.posteriors import Posteriors, panels
from federico.report.table_summary import Summary
from federico.report.worth_it import WorthToClient, by_gain, worth_to_all
from federico.runs.comparison import share_in_words
from federico.runs.layout import Description
from federico.runs.metric import Metric
from federico.runs.table import TableRow
from federico.types import FloatArray

TELEPHONE = 4.4
"""Inches of a picture that is made for a telephone: letters there are as large as those around."""
TELEPHONE_CHARACTERS = 36
"""Characters of a subtitle that fit in it."""
MOST_TICKS_OF_COST = 4
LONGEST_NAME = 30
"""Characters of a row's name; what is longer is cut."""
LONG_NAME = 22
"""Characters of names of which four fit beside each other."""
MOST_ROWS = 32
"""Clients of a dot plot or bar chart."""
MOST_HEAT = 256
"""Clients of a heat-map."""
MOST_CURVES = 10
"""Rows of a picture of curves."""
LEAST_RANGE_IN_PERCENT = 5.0
"""Points that an axis shows at least: a tenth of a point must not look like a difference."""
LEAST_RANGE = 0.05
"""The same for an R2."""
ROOM_ABOVE_R2 = 0.2
"""How far an axis of R2 goes on above the best row."""
ORDERED_BY = {"distribution": "by true distribution", "cluster": "by the clusters found"}
"""Says in what order clients stand."""
BETTER_OFF = METHOD_COLORS["federico"]
WORSE_OFF = "#D55E00"


WORTH = "worth"
"""The picture of what clients gain over training alone."""
CAPTIONS = {
    "figure": "A figure in the manner of the paper, drawn from these runs.",
    "overview": "A large dot is a mean, a line one standard deviation, a small dot a run.",
    "trust": "Cells show how much of its trust a client (row) gives to each model (column); "
    "squares along the diagonal are clients that found each other. Where true distributions are "
    "not known, clients stand in the order of the clusters found: clients that trust the same "
    "models, as the cells themselves show it.",
    "rounds": "A line is the mean over runs, its band one standard deviation.",
    "cost": "How far each method gets with the megabytes it moves and the processor seconds it "
    "takes. A method that moves nothing is a level line at its end result.",
    "clients": "One row for each client, mean over runs, or of one seed where every seed draws "
    "other clients: where a dot is better than Local's "
    "grey one, the client gains by collaborating.",
    WORTH: "What each client gains over the model that it trained alone, which is the zero line: "
    "blue clients are better off, orange ones worse.",
    "collaboration": "One panel for each client, one line for each peer in the colour of that "
    "peer's distribution, or of the cluster found where that is not known; the client's own model "
    "is dashed. Lines that rise are collaborators being found.",
    "partition": "How many training samples each client has; darker is more.",
}
OF_ONE_RUN = {
    "overview": "A dot is a single run, which does not tell how far runs differ.",
    "rounds": "A line is a single run.",
}
"""What is said instead where there is no more than one run of anything."""


def caption(name: str, summary: Summary) -> str:
    """What the picture of this name shows."""
    if summary.of_single_runs and name in OF_ONE_RUN:
        return OF_ONE_RUN[name]
    return CAPTIONS[name]


def draw_all(summary: Summary, details: RunDetails) -> Iterator[tuple[str, Figure]]:
    """All pictures that these results allow, with their names, in the order of the page."""
    table = summary.table
    few_rows = len(table.rows) <= MOST_CURVES
    methods = {row.method for row in table.rows}
    posteriors = details.posteriors

    if summary.entries:
        beside = None
        if trust_beside(summary, posteriors):
            beside = posteriors
        yield "overview", overview(summary, beside)
    over_rounds = any(len(entry.evaluated) > 1 for entry in summary.entries)
    if few_rows and over_rounds:
        yield "rounds", rounds(summary)

    # Methods are compared by what they cost, variants of one method are not.
    if summary.entries and few_rows and len(methods) > 1:
        yield "cost", cost(summary)

    by_client = any(entry.by_client for entry in summary.entries)
    if few_rows and by_client and len(table.columns) == 1:
        yield "clients", clients(summary)
    if summary.worth_known:
        yield WORTH, worth(summary)
    if posteriors is not None and len(posteriors.clients) > 1:
        yield "collaboration", collaboration(posteriors)
    if details.descriptions:
        yield "partition", partition(details.descriptions[0], posteriors)


def trust_beside(summary: Summary, posteriors: Posteriors | None) -> bool:
    """Whether the overview shows whom clients trust.

    Of thousands of clients only some could be drawn, and these rarely trust each other.
    """
    if posteriors is None or len(summary.table.columns) > 1:
        return False
    return len(posteriors.clients) <= MOST_HEAT


def overview(
    summary: Summary, trusted: Posteriors | None = None, *, narrow: bool = False
) -> Figure:
    """Every row in every column, a dot for each run, the paper's figure below ours.

    With posteriors, those of the clients stand beside it, or below it in a narrow picture for
    telephones. What is still to come takes no room.
    """
    columns = _begun(summary)
    rows = []
    for row in summary.table.rows:
        if summary.row(row.name, summary.shown_rate):
            rows.append(row)

    height = 0.4 * len(rows)
    if trusted is not None:
        title = text.headline(summary, short=True).rstrip(".")
        if narrow:
            figure = sheet(TELEPHONE, 6.2 + height, title)
            dots, matrix = figure.subplots(2, 1, height_ratios=[0.7 + height, 3.6])
        else:
            figure = sheet(11, max(1.9 + height, 4.8), title)
            dots, matrix = figure.subplots(1, 2, width_ratios=[1, 1.05])
        trust(matrix, trusted)
        if narrow:
            subtitle(matrix, textwrap.fill(matrix.get_title("left"), TELEPHONE_CHARACTERS))
        panels_of_columns = [dots]
    else:
        # Below each other: side by side they would be too small to read on a telephone.
        of_panel = height + (1.0 if len(columns) > 1 else 0.7)
        figure = sheet(NARROW, 1.2 + of_panel * len(columns), summary.table.title)
        grid = figure.subplots(len(columns), 1, squeeze=False, sharex=True)
        panels_of_columns = list(grid.flat)
        for axes in panels_of_columns:
            axes.tick_params(labelbottom=True)

    for axes, column in zip(panels_of_columns, columns, strict=True):
        _column_of_dots(axes, summary, column, rows)
    # Columns share their axis, so it is known only now what it has to hold.
    last = panels_of_columns[-1]
    _keep_in_proportion(last.get_xlim, last.set_xlim, summary.metric)
    legend_below(figure, _overview_legend(summary), 3)
    return figure


def _column_of_dots(axes: Axes, summary: Summary, column: str, rows: Sequence[TableRow]) -> None:
    """One column of the overview: these rows from top to bottom."""
    for entry in summary.column(column, summary.shown_rate):
        _dots(axes, summary, entry, rows.index(entry.row))

    names = [short(row.title, LONGEST_NAME) for row in rows]
    axes.set(xlabel=summary.metric.axis, ylim=(len(rows) - 0.4, -0.6))
    axes.set_yticks(range(len(rows)), names, parse_math=False)
    axes.margins(x=0.12)
    clean(axes, "x")
    axes.tick_params(axis="y", length=0, labelsize=9.5)
    subtitle(axes, column or _direction(summary))


def rounds(summary: Summary) -> Figure:
    """Each row's figure over the rounds, with a band of one standard deviation over seeds."""
    columns = _begun(summary)
    title = f"{summary.metric.name.capitalize()} over rounds"
    figure = sheet(NARROW, 1.4 + 3.0 * len(columns), title)
    grid = figure.subplots(len(columns), 1, sharey=True, squeeze=False)
    for axes, column in zip(grid.flat, columns, strict=True):
        curves(axes, summary, summary.column(column, summary.shown_rate))
        subtitle(axes, column)
    _legend_of_all(figure, grid.flat)
    return figure


def curves(axes: Axes, summary: Summary, entries: Sequence[Entry]) -> None:
    """The figures of several rows over the rounds."""
    metric = summary.metric
    styles = _styles(summary, entries)
    for entry in entries:
        curve = entry.curve
        look = styles[entry.row.name]
        mean = np.array(_drawn(metric, curve.mean))  # [rounds]
        _line(axes, curve.rounds, mean, entry, look)

        spread = np.array([metric.scaled(sd) for sd in curve.sd])  # [rounds]
        low = mean - spread
        if not metric.explains_variance:
            low = np.maximum(low, 0)  # only R2 can be negative
        high = mean + spread
        axes.fill_between(curve.rounds, low, high, color=look.color, alpha=0.13, linewidth=0)
    axes.set(xlabel="round", ylabel=summary.metric.axis)
    whole_numbers(axes)
    clean(axes, "y")
    _limit(axes, summary, entries)


def _drawn(metric: Metric, values: Iterable[float]) -> list[float]:
    """Values as an axis shows them."""
    return [metric.drawn(value) for value in values]


def _line(
    axes: Axes, x: Sequence[float], y: Sequence[float] | FloatArray, entry: Entry, look: Look
) -> None:
    """One row's line, with its name for the legend; a dot where there is a single round."""
    axes.plot(
        x,
        y,
        color=look.color,
        linestyle=look.line,
        linewidth=2,
        marker="o" if len(x) == 1 else "",
        label=short(entry.title, LONGEST_NAME),
    )


def cost(summary: Summary) -> Figure:
    """The figure over the megabytes moved and the processor seconds spent, a line for each row."""
    columns = _begun(summary)
    height = 0.9 + 3.0 * len(columns)
    figure = sheet(NARROW, height, f"{summary.table.title}: what it costs")
    grid = figure.subplots(len(columns), 2, squeeze=False, sharey="row")
    for (left, right), column in zip(grid, columns, strict=True):
        _cost_of_column(left, right, summary, column)

    _legend_of_all(figure, grid[:, 1])
    return figure


def _legend_of_all(figure: Figure, panels_of_columns: Iterable[Axes]) -> None:
    """One legend for the lines of all panels."""
    # A row that nothing was finished of in the first column has its line further below.
    by_label: dict[str, Any] = {}
    for axes in panels_of_columns:
        handles, labels = axes.get_legend_handles_labels()
        by_label.update(zip(labels, handles, strict=True))
    most = 4 if all(len(label) <= LONG_NAME for label in by_label) else 3
    across = int(np.clip(len(by_label), 1, most))
    legend_below(figure, list(by_label.values()), across)


def _cost_of_column(left: Axes, right: Axes, summary: Summary, column: str) -> None:
    """One column of the table: left over megabytes, right over processor seconds."""
    entries = summary.column(column, summary.shown_rate)
    styles = _styles(summary, entries)
    for entry in entries:
        look = styles[entry.row.name]
        megabytes = [moved / 1e6 for moved in entry.bytes_moved]
        _cost_line(left, summary, entry, megabytes, look)
        _cost_line(right, summary, entry, entry.processor_seconds, look)

    left.set_xlabel("megabytes moved")
    right.set_xlabel("processor seconds")
    for axes in (left, right):
        axes.set_xlim(0, None)
        axes.xaxis.set_major_locator(MaxNLocator(MOST_TICKS_OF_COST))
        clean(axes, "y")
    left.set_ylabel(summary.metric.axis)
    _limit(left, summary, entries)
    subtitle(left, column)


def clients(summary: Summary) -> Figure:
    """Each client's own figure, a dot for each row of the table."""
    entries = _of_same_clients(summary)
    names, everyone = _drawn_clients(summary, entries)
    title = f"{summary.metric.name.capitalize()} of each client"
    title += text.of_seed(entries[0]) + some_of(len(names), len(everyone))
    figure = sheet(NARROW, 1.9 + 0.26 * len(names), title)
    dots_by_client(figure.subplots(), summary)
    return figure


def dots_by_client(axes: Axes, summary: Summary) -> None:
    """A line of dots for each client, a dot for each row of the table."""
    entries = _of_same_clients(summary)
    names, _ = _drawn_clients(summary, entries)
    by_row = []
    for entry in entries:
        own = [entry.by_client.get(client, np.nan) for client in names]
        by_row.append(_drawn(summary.metric, own))
    values = np.array(by_row)  # [rows, clients]

    # A faint line from each client's lowest dot to its highest.
    for place, of_client in enumerate(values.T):
        finite = of_client[np.isfinite(of_client)]
        if len(finite) > 1:
            ends = [finite.min(), finite.max()]
            axes.plot(ends, [place, place], color=FAINT, linewidth=3)

    styles = _styles(summary, entries)
    for entry, of_row in zip(entries, values, strict=True):
        axes.scatter(
            of_row,
            range(len(names)),
            s=46,
            color=styles[entry.row.name].color,
            label=short(entry.title, LONGEST_NAME),
            zorder=3,
            alpha=0.9,
        )
    axes.set(ylim=(len(names) - 0.4, -0.6), xlabel=summary.metric.axis, ylabel="client")
    _keep_in_proportion(axes.get_xlim, axes.set_xlim, summary.metric)
    clean(axes, "x")
    ticks(axes, "y", names)
    legend_beside(axes)


def _drawn_clients(summary: Summary, entries: Sequence[Entry]) -> tuple[list[str], list[str]]:
    """The clients that are drawn, in their order, and all clients."""
    everyone = list(entries[0].by_client)
    groups = None
    population = summary.population
    if population is not None and entries[0].clients_of_seed in (None, population.seed):
        everyone = population.clients
        groups = by_distribution(population.distribution)
    order = order_of(groups, len(everyone), MOST_ROWS)
    return chosen(everyone, order), everyone


def _of_same_clients(summary: Summary) -> list[Entry]:
    """The rows of the first column whose figures are of the same clients as those of the first."""
    entries = summary.column(summary.table.columns[0], summary.shown_rate)
    first = entries[0].with_same_clients[0].clients
    return [entry for entry in entries if entry.with_same_clients[0].clients == first]


def worth(summary: Summary) -> Figure:
    """What each client gains over training alone, the most first; alone is the zero line."""
    entry = summary.worth_known[0]
    in_order = by_gain(entry.worth)
    title = f"What each client gains over training alone ({entry.title}{text.of_seed(entry)})"
    if len(in_order) <= MOST_ROWS:
        return _worth_by_name(summary, in_order, title)
    return _worth_of_many(summary, in_order, title)


def _worth_by_name(summary: Summary, clients: Sequence[WorthToClient], title: str) -> Figure:
    """A named bar for each client, and a ring where its collaborators without it would be."""
    metric = summary.metric
    figure = sheet(NARROW, 2.3 + 0.3 * len(clients), title)
    axes = figure.subplots()
    gains = _drawn(metric, [client.gain for client in clients])
    together = _drawn(metric, [client.gain_together for client in clients])
    places = range(len(clients))
    axes.barh(places, gains, height=0.62, color=_worth_colors(gains))
    axes.scatter(
        together,
        places,
        s=30,
        facecolor="white",
        edgecolor=INK,
        linewidths=1.1,
        zorder=3,
    )
    axes.axvline(0, color=INK, linewidth=1)

    # To the right of the bar and the ring: on the left are the names.
    for place, client in enumerate(clients):
        end = np.nanmax([gains[place], together[place], 0.0])
        axes.annotate(
            f"{metric.signed(client.gain)}, {share_in_words(client.together_share)}",
            (end, place),
            xytext=(8, 0),
            textcoords="offset points",
            ha="left",
            va="center",
            fontsize=8,
            color=SOFT,
        )
    axes.set(ylim=(len(clients) - 0.4, -0.6), xlabel=_gain_label(metric))
    _room_for_labels(axes, [*gains, *together])
    clean(axes, "x")
    ticks(axes, "y", [text.called(client.client) for client in clients])
    axes.tick_params(axis="y", length=0)
    legend_below(figure, [*_worth_legend(gains), _together_ring()], 3)
    return figure


def _worth_of_many(summary: Summary, clients: Sequence[WorthToClient], title: str) -> Figure:
    """Thin bars side by side from the client that gains most to the one that gains least."""
    metric = summary.metric
    figure = sheet(NARROW, 4.6, f"{title}, {len(clients):,} clients")
    axes = figure.subplots()
    gains = _drawn(metric, [client.gain for client in clients])

    # An area for each colour: thousands of bars, each drawn by itself, would take seconds.
    edges = np.arange(len(clients) + 1) - 0.5
    colors = np.array(_worth_colors(gains))
    for color in np.unique(colors):
        of_color = np.where(colors == color, gains, np.nan)
        # Not `stairs`, which would look at every bar to find the limits of the axes.
        axes.add_artist(StepPatch(of_color, edges, fill=True, color=color, linewidth=0))
    axes.axhline(0, color=INK, linewidth=1)

    median = metric.scaled(worth_to_all(clients).median)
    label = None
    if np.isfinite(median):
        label = axes.axhline(median, color=SOFT, linewidth=1.2, linestyle="--", label="median")
    axes.set(xlabel="clients, sorted by what they gain", ylabel=_gain_label(metric))
    axes.set_xlim(-1, len(clients))
    _cut_off_outliers(axes, gains)
    whole_numbers(axes)
    clean(axes, "y")
    legend_below(figure, [*_worth_legend(gains), *([label] if label else [])], 3)
    return figure


def _room_for_labels(axes: Axes, values: Sequence[float]) -> None:
    """Room for what is written to the right of the bars."""
    low = np.nanmin([*values, 0.0])
    high = np.nanmax([*values, 0.0])
    width = high - low or 1.0
    left = low
    if low < 0:
        left -= 0.04 * width
    axes.set_xlim(left, high + 0.6 * width)


def _cut_off_outliers(axes: Axes, gains: Sequence[float]) -> None:
    """Show most clients well: a few bars that are far longer than all others end at the edge."""
    of_clients = np.array(gains)
    low, high = np.nanpercentile(of_clients, [2.5, 97.5])
    room = high - low
    bottom = max(np.nanmin(of_clients), low - room)
    top = min(np.nanmax(of_clients), high + room)

    # Nothing gained is always in sight.
    bottom = min(bottom, 0.0)
    top = max(top, 0.0)
    height = top - bottom
    if height == 0:
        height = 1.0
    edge = 0.04 * height
    axes.set_ylim(bottom - edge, top + edge)

    is_cut = (of_clients < bottom) | (of_clients > top)
    cut = int(is_cut.sum())
    if cut:
        longer = f"{text.count(cut, 'bar')} longer than shown"
        axes.set_xlabel(f"{axes.get_xlabel()} ({longer})")


def _worth_colors(gains: Sequence[float]) -> list[str]:
    """Blue for who is better off than alone, orange for who is worse."""
    return [WORSE_OFF if gain < 0 else BETTER_OFF for gain in gains]


def _worth_legend(gains: Sequence[float]) -> list[Patch]:
    handles = [Patch(color=BETTER_OFF, label="better off than alone")]
    if any(gain < 0 for gain in gains):
        handles.append(Patch(color=WORSE_OFF, label="worse off than alone"))
    return handles


def _together_ring() -> Line2D:
    return Line2D(
        [],
        [],
        color=INK,
        marker="o",
        markerfacecolor="white",
        markersize=5.5,
        linewidth=0,
        label="with collaborators only",
    )


def _gain_label(metric: Metric) -> str:
    unit = f"{metric.name}"
    if metric.in_percent:
        unit = f"points of {metric.name}"
    return f"gain over training alone ({unit})"


def collaboration(shown: Posteriors) -> Figure:
    """Every client's posterior over the rounds, a line for each peer."""
    return panels(shown, f"How each client finds its collaborators ({shown.title})")


def partition(about: Description, trusted: Posteriors | None = None) -> Figure:
    """Who has how much of what: training samples by client and label, or in all for regression.

    Clients stand in the order of their true distributions, or of the clusters found by `trusted`.
    """
    groups = by_distribution(about.distribution)
    if groups is None and trusted is not None and trusted.clients == about.clients:
        groups = trusted.groups
    if about.label_counts:
        return _label_heat(about, groups)
    return _sample_bars(about, groups)


def _begun(summary: Summary) -> list[str]:
    """The columns that have something to show."""
    found = []
    for column in summary.table.columns:
        if summary.column(column, summary.shown_rate):
            found.append(column)
    return found


def _direction(summary: Summary) -> str:
    better = "lower"
    if summary.metric.higher_is_better:
        better = "higher"
    return f"On the clients' own test data ({better} is better)"


def _styles(summary: Summary, entries: Sequence[Entry]) -> dict[str, Look]:
    """Colours of methods; from light to dark where all rows are variants of one method."""
    methods = {entry.row.method for entry in entries}
    if len(methods) > 1 or len(entries) < 2:
        return looks(summary.table.rows)

    found = {}
    for entry, color in zip(entries, shades(len(entries)), strict=True):
        found[entry.row.name] = Look(color, "-")
    return found


def _dots(axes: Axes, summary: Summary, entry: Entry, place: int) -> None:
    """One row: its mean, its deviation, its runs, and the paper's figure below them."""
    metric = summary.metric
    color = looks(summary.table.rows)[entry.row.name].color
    mean = metric.drawn(entry.mean)
    sd = entry.sd(summary.table.spread)
    if sd is not None:
        spread = metric.scaled(sd)
        axes.hlines(place, mean - spread, mean + spread, color=color, linewidth=2, alpha=0.6)

    runs = _drawn(metric, entry.by_seed.values())
    level = [place] * len(runs)
    axes.scatter(runs, level, s=14, color=color, alpha=0.6, linewidths=0)
    axes.scatter(mean, place, s=60, color=color, zorder=3)
    if np.isfinite(mean):
        value = metric.bare(entry.mean)
        axes.text(mean, place - 0.2, value, ha="center", va="bottom", fontsize=8, color=INK)

    by_column = summary.table.paper.values.get(entry.row.name, {})
    if entry.column in by_column:
        paper, paper_sd = by_column[entry.column]
        below = place + 0.25
        axes.hlines(below, paper - paper_sd, paper + paper_sd, color=PAPER, linewidth=1)
        axes.scatter(
            paper,
            below,
            s=30,
            marker="D",
            facecolor="white",
            edgecolor=PAPER,
            zorder=3,
        )


def _overview_legend(summary: Summary) -> list[Line2D]:
    """What dots and lines stand for, of those that are drawn."""
    has_deviation = any(entry.sd(summary.table.spread) for entry in summary.entries)
    large = Line2D(
        [],
        [],
        color=SOFT,
        marker="o",
        markersize=8,
        linewidth=2 if has_deviation else 0,
        label="mean, standard deviation" if has_deviation else "mean",
    )
    small = Line2D(
        [],
        [],
        color=SOFT,
        marker="o",
        markersize=4,
        linewidth=0,
        alpha=0.6,
        label="a run",
    )
    handles = [large, small]
    if summary.of_single_runs:
        over = " (line: standard deviation over clients)" if has_deviation else ""
        large.set_label(f"a single run{over}")
        handles = [large]
    if not summary.table.paper.values:
        return handles
    paper = Line2D(
        [],
        [],
        color=PAPER,
        marker="D",
        markerfacecolor="white",
        markersize=5.5,
        linewidth=1,
        label="the paper",
    )
    return [*handles, paper]


def _cost_line(
    axes: Axes, summary: Summary, entry: Entry, spent: Sequence[float], look: Look
) -> None:
    values = _drawn(summary.metric, entry.curve.mean)
    if spent[-1] > 0:
        _line(axes, spent, values, entry, look)
        return

    # Nothing is sent: the end result, whatever others spend.
    axes.axhline(
        values[-1],
        color=look.color,
        linestyle=look.line,
        linewidth=2,
        label=short(entry.title, LONGEST_NAME),
    )


def _limit(axes: Axes, summary: Summary, entries: Sequence[Entry]) -> None:
    """Cut off what untrained models reach in regression: it would leave no room for the rest."""
    metric = summary.metric
    if metric.in_percent:
        _keep_in_proportion(axes.get_ylim, axes.set_ylim, metric)
        return
    finite = []
    for entry in entries:
        end = summary.metric.drawn(entry.curve.mean[-1])
        if np.isfinite(end):
            finite.append(end)
    if not finite:
        return
    if metric.higher_is_better:
        # R2: 1 is perfect, 0 no better than the mean.
        bottom = min(0.0, 1.5 * min(finite))
        top = min(1.0, max(0.0, *finite) + ROOM_ABOVE_R2)
        axes.set_ylim(bottom, top)
    else:
        axes.set_ylim(0, 1.5 * max(finite))


def _keep_in_proportion(
    limits: Callable[[], tuple[float, float]], limit: Callable[[float, float], Any], metric: Metric
) -> None:
    """Widen an axis that would show a difference of next to nothing as a large one."""
    least = LEAST_RANGE
    if metric.in_percent:
        least = LEAST_RANGE_IN_PERCENT
    elif not metric.explains_variance:
        return
    low, high = limits()
    if high - low < least:
        middle = (low + high) / 2
        limit(middle - least / 2, middle + least / 2)


def trust(axes: Axes, shown: Posteriors) -> None:
    """Whose model each client uses, and how much."""
    groups = shown.groups
    order = order_of(groups, len(shown.clients), MOST_HEAT)
    names = chosen(shown.clients, order)
    weights = _matrix(shown, order, names)  # [clients, models]

    # Even trust in everybody stays light.
    top = max(float(weights.max()), 2 / len(names))
    heat(axes, 100 * weights, 100 * top, _in_percent, "trust (%)")
    ticks(axes, "x", names)
    ticks(axes, "y", names)
    axes.set(xlabel="whose model", ylabel="client")
    if groups is not None:
        _mark(axes, groups, order, "xy")
        axes.set_xlabel(f"whose model, {ORDERED_BY[groups.kind]}")
    subtitle(axes, f"Whose models clients trust (%), {short(shown.title)}, seed {shown.seed}")


def _mark(axes: Axes, groups: ClientGroups, order: Sequence[int], sides: str) -> None:
    """Mark the groups of these rows, unless nobody is in one with anybody else."""
    if len(groups.names) > 1:
        of_rows = chosen(groups.of_clients, order)
        mark_groups(axes, of_rows, chosen(groups.colors, order), groups.names, sides)


def _matrix(shown: Posteriors, order: Sequence[int], names: Sequence[str]) -> FloatArray:
    """The weights that these clients give to each other's models."""
    rows = []
    for place in order:
        posterior = shown.latest[place]
        rows.append([posterior.get(peer, 0.0) for peer in names])
    return np.array(rows)


def _in_percent(weight: float) -> str:
    """A weight that rounds to nothing leaves its cell empty."""
    if weight < 0.5:
        return ""
    return f"{weight:.0f}"


def _label_heat(about: Description, groups: ClientGroups | None) -> Figure:
    """Training samples of each client and label."""
    order = order_of(groups, len(about.clients), MOST_HEAT)
    names = chosen(about.clients, order)
    counts = np.array(about.label_counts)[order]  # [clients, labels]

    height = float(np.clip(1.8 + 0.3 * len(order), 3, 9))
    title = "Training samples of each client" + some_of(len(order), len(about.clients))
    figure = sheet(NARROW, height, title)
    axes = figure.subplots()
    heat(axes, counts, float(counts.max()), _or_empty, "samples")
    ticks(axes, "x", about.label_names)
    ticks(axes, "y", names)
    axes.set(xlabel="label", ylabel="client")
    if groups is not None:
        _mark(axes, groups, order, "y")
        axes.set_ylabel(f"client, {ORDERED_BY[groups.kind]}")
    return figure


def _or_empty(samples: int) -> str:
    """A cell of zero samples stays empty, so that the others stand out."""
    if samples == 0:
        return ""
    return str(samples)


def _sample_bars(about: Description, groups: ClientGroups | None) -> Figure:
    """Samples of each client for training and for testing."""
    order = order_of(groups, len(about.clients), MOST_ROWS)
    names = chosen(about.clients, order)
    train = np.array(about.train_samples)[order]
    test = np.array(about.test_samples)[order]

    title = "Samples of each client" + some_of(len(order), len(about.clients))
    figure = sheet(NARROW, 1.9 + 0.26 * len(order), title)
    axes = figure.subplots()
    places = np.arange(len(order))
    color = METHOD_COLORS["federico"]
    axes.barh(places, train, height=0.66, color=color, label="for training")
    axes.barh(
        places,
        test,
        left=train,
        height=0.66,
        color="#9CC7E3",
        label="for testing",
    )
    axes.set(ylim=(len(order) - 0.4, -0.6), xlabel="samples", ylabel="client")
    if groups is not None:
        axes.set_ylabel(f"client, {ORDERED_BY[groups.kind]}")
    clean(axes, "x")
    ticks(axes, "y", names)
    legend_beside(axes)
    return figure
