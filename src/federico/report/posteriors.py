"""Whose models the clients of one cell trust, over the rounds."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import cycle

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from pydantic import TypeAdapter

from federico.report import text
from federico.report.about_client import ClientEvidence, evidence_of_all
from federico.report.clusters import FoundClusters, found_clusters
from federico.report.drawing import (
    GROUP_COLORS,
    INK,
    NARROW,
    NO_GROUP,
    SOFT,
    clean,
    legend_below,
    sheet,
    short,
    some_of,
    subtitle,
    whole_numbers,
)
from federico.report.groups import ClientGroups, by_cluster, by_distribution, order_of
from federico.runs.layout import CellDir
from federico.runs.records import iterate_some_parts, read_last_record

MOST_PANELS = 12
ACROSS = 2
"""Panels side by side."""
MOST_POSTERIORS = 200_000
"""Posteriors that are read at most."""
VISIBLE = 0.01
"""A model whose weight never gets this high is not drawn."""
LABEL = "weight (%)"


@dataclass(frozen=True)
class RoundPosteriors:
    """The posteriors of one round, see `Record`."""

    round: int
    posterior: list[dict[str, float]]


ROUND_POSTERIORS = TypeAdapter(RoundPosteriors)


@dataclass(frozen=True)
class Posteriors:
    """The posteriors of one cell."""

    title: str
    """The name of the cell's row for people."""
    seed: int
    clients: list[str]
    distributions: ClientGroups | None
    """The clients' true distributions; None where unknown, or where they group nobody."""
    rounds: list[int]
    by_client: dict[int, list[dict[str, float]]]
    """The posterior after each round, for the clients (by number) that are drawn."""
    latest: list[dict[str, float]]
    """Every client's posterior after the last round."""
    evidence: list[ClientEvidence]
    """The same with what else is known of every client, for sentences about it."""

    @cached_property
    def clusters(self) -> FoundClusters:
        """Who trusts whom, as the latest posteriors show it."""
        return found_clusters(self.clients, self.latest)

    @cached_property
    def groups(self) -> ClientGroups | None:
        """True distributions where they are known, else the clusters found.

        None where the models belong to nobody.
        """
        if self.distributions is not None:
            return self.distributions
        if not self.of_clients:
            return None
        return by_cluster(self.clusters)

    @cached_property
    def of_clients(self) -> bool:
        """Whether the models are the clients' own; FedEM's components belong to nobody."""
        return not set(self.clients).isdisjoint(self.owners)

    @cached_property
    def owners(self) -> list[str]:
        """Whose models have a weight after the last round."""
        found: set[str] = set()
        for row in self.latest:
            found.update(row)
        return sorted(found)

    @cached_property
    def colors(self) -> dict[str, str]:
        """Clients by their group; models that belong to nobody one by one."""
        colors = dict.fromkeys(self.clients, NO_GROUP)
        if self.groups is not None:
            colors = dict(zip(self.clients, self.groups.colors, strict=True))

        # Over again from the first where there are more models than colours.
        next_color = cycle(GROUP_COLORS)
        for owner in self.owners:
            if owner not in colors:
                colors[owner] = next(next_color)
        return colors


def read_posteriors(cell: CellDir, drawn: Sequence[int] | None = None) -> Posteriors | None:
    """Read the posteriors of a cell; None for a method that has none.

    Over the rounds only those of a few clients are kept: all of them would not fit in memory. With
    thousands of clients only some of the rounds are read, too.
    """
    about = cell.description
    last = read_last_record(cell.path)
    if last is None or not last.posterior:
        return None
    distributions = by_distribution(about.distribution)
    if drawn is None:
        drawn = order_of(distributions, len(about.clients), MOST_PANELS)

    rounds: list[int] = []
    by_client: dict[int, list[dict[str, float]]] = {}
    for client in drawn:
        by_client[client] = []
    most = max(MOST_POSTERIORS // len(about.clients), MOST_PANELS)
    for played in iterate_some_parts(cell.path, ROUND_POSTERIORS, most):
        if not played.posterior:
            continue
        rounds.append(played.round)
        for client, rows in by_client.items():
            rows.append(played.posterior[client])
    return Posteriors(
        title=about.title or about.method,
        seed=about.seed,
        clients=about.clients,
        distributions=distributions,
        rounds=rounds,
        by_client=by_client,
        latest=last.posterior,
        evidence=evidence_of_all(about, last),
    )


def panels(shown: Posteriors, title: str) -> Figure:
    """A panel for each client, a line for each model."""
    everyone = order_of(shown.groups, len(shown.clients), len(shown.clients))
    drawn = [client for client in everyone if client in shown.by_client]
    columns = min(ACROSS, len(drawn))
    lines = math.ceil(len(drawn) / columns)
    title += some_of(len(drawn), len(shown.clients))

    figure = sheet(NARROW, 1.4 + 2.0 * lines, title)
    grid = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False)
    used = grid.flat[: len(drawn)]
    for axes in grid.flat[len(drawn) :]:
        axes.remove()
    for axes, client in zip(used, drawn, strict=True):
        panel(axes, shown, client)

    # The lowest panel of each column says what is along the axis, wherever it is.
    for axes in used[-columns:]:
        axes.set_xlabel("round")
        axes.tick_params(labelbottom=True)
    figure.supylabel(LABEL, fontsize=9.5, color=SOFT)
    legend_below(figure, legend_lines(shown), 3)
    return figure


def panel(axes: Axes, shown: Posteriors, client: int) -> None:
    """One client's weights; its own model is drawn last, dashed and thicker."""
    name = shown.clients[client]
    rows = shown.by_client[client]
    visible = _visible_owners(rows)

    for owner in sorted(visible - {name}):
        weights = weights_in_percent(rows, owner)
        # A cluster that was split has no weight at the end, and no colour.
        color = shown.colors.get(owner, NO_GROUP)
        axes.plot(shown.rounds, weights, color=color, linewidth=1.3, alpha=0.9)
    if name in visible:
        weights = weights_in_percent(rows, name)
        axes.plot(shown.rounds, weights, color=shown.colors[name], linestyle="--", linewidth=2.2)

    title = short(text.called(name), 26)
    if shown.distributions and not shown.of_clients:
        title += f", distribution {shown.distributions.of_clients[client]}"
    axes.set_title(title, loc="left", fontsize=9.5, color=INK, parse_math=False)
    _frame_of_weights(axes)


def named_lines(axes: Axes, shown: Posteriors, client: int) -> None:
    """One client's weights in a picture of its own: the heaviest models are named, heaviest first.

    Its own model is dashed and thicker; models without a name of their own are grey.
    """
    name = shown.clients[client]
    rows = shown.by_client[client]
    visible = _visible_owners(rows)
    others = visible - {name}
    by_weight = sorted(others, key=lambda owner: (-rows[-1].get(owner, 0.0), owner))
    named = by_weight[: len(GROUP_COLORS)]

    for owner in by_weight[len(named) :]:
        axes.plot(shown.rounds, weights_in_percent(rows, owner), color=NO_GROUP, linewidth=1.0)
    if name in visible:
        weights = weights_in_percent(rows, name)
        label = f"{short(text.called(name))} (own model)"
        axes.plot(
            shown.rounds, weights, color=INK, linestyle="--", linewidth=2.4, label=label, zorder=3
        )
    for owner, color in zip(named, GROUP_COLORS, strict=False):
        label = short(text.called(owner.lstrip("*")))
        weights = weights_in_percent(rows, owner)
        axes.plot(shown.rounds, weights, color=color, linewidth=1.8, label=label)
    unnamed = len(by_weight) - len(named)
    if unnamed:
        axes.plot([], [], color=NO_GROUP, linewidth=1.0, label=f"{unnamed} others")

    title = f"Whose models {short(text.called(name), 26)} trusts"
    subtitle(axes, title)
    _frame_of_weights(axes)


def _visible_owners(rows: Sequence[Mapping[str, float]]) -> set[str]:
    """Whose models get a weight worth drawing in some of these posteriors."""
    visible: set[str] = set()
    for row in rows:
        for owner, weight in row.items():
            if weight >= VISIBLE:
                visible.add(owner)
    return visible


def _frame_of_weights(axes: Axes) -> None:
    axes.set_ylim(-3, 105)
    whole_numbers(axes)
    clean(axes, "y")


def weights_in_percent(rows: Sequence[Mapping[str, float]], owner: str) -> list[float]:
    """The weight of one model in each of these posteriors."""
    return [100 * row.get(owner, 0.0) for row in rows]


def legend_lines(shown: Posteriors, *beside: Posteriors) -> list[Line2D]:
    """What the colours of the panels stand for, of those that are drawn.

    `beside` are posteriors of the same clients that are drawn in the same figure.
    """
    drawn: set[str] = set()
    for each in (shown, *beside):
        for rows in each.by_client.values():
            drawn |= _visible_owners(rows)

    lines = []
    if not shown.of_clients:
        for owner in sorted(drawn & set(shown.owners)):
            name = short(owner.lstrip("*"))
            lines.append(Line2D([], [], color=shown.colors[owner], label=name))
        return lines

    own = Line2D([], [], color=INK, linestyle="--", linewidth=2.2, label="own model")
    lines.append(own)
    groups = shown.groups
    if groups is None:
        lines.append(Line2D([], [], color=NO_GROUP, label="a peer"))
        return lines

    color_of: dict[int, str] = {}
    for client, group, color in zip(shown.clients, groups.of_clients, groups.colors, strict=True):
        if client in drawn:
            color_of[group] = color
    named = [group for group in groups.names if group in color_of]
    for group in named[:MOST_PANELS]:
        lines.append(Line2D([], [], color=color_of[group], label=groups.names[group]))
    return lines
