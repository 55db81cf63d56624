"""Whose models a client trusts, over the rounds: figures 3 to 5 and 7 of the paper."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from federico.report.old import words
from federico.report.old.drawing import (
    GROUP_COLORS,
    INK,
    SOFT,
    by_group,
    clean,
    group_colors,
    sheet,
    short,
    whole_numbers,
)
from federico.report.old.summary import Collaboration, true_groups

MOST_PANELS = 12
VISIBLE = 0.01
"""A model whose weight never gets this high is not drawn."""
LABEL = "weight (%)"


def panels(shown: Collaboration, title: str) -> Figure:
    """A panel per client, a line per model."""
    about = shown.description
    order = by_group(true_groups(about), len(about.clients), MOST_PANELS)
    columns = min(4, len(order))
    lines = -(-len(order) // columns)
    some = (
        f", {len(order)} of {len(about.clients)} clients" if len(order) < len(about.clients) else ""
    )
    figure = sheet(max(2.7 * columns, 6), 1.2 + 2.0 * lines, title + some)
    grid = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False)
    for axes in grid.flat[len(order) :]:
        axes.remove()
    for axes, client in zip(grid.flat, order, strict=False):
        panel(axes, shown, int(client))
    for axes in grid.flat[max(len(order) - columns, 0) : len(order)]:
        axes.set_xlabel("round")
        axes.tick_params(labelbottom=True)
    figure.supylabel(LABEL, fontsize=9.5, color=SOFT)
    legend(figure, shown)
    return figure


def panel(axes: Axes, shown: Collaboration, client: int) -> None:
    """One client's weights; its own model is drawn last, dashed and thicker."""
    about = shown.description
    name, grouped, colors = about.clients[client], true_groups(about), _colors(shown)
    rows = {record.round: record.posterior[client] for record in shown.records}
    seen = {owner for row in rows.values() for owner, weight in row.items() if weight >= VISIBLE}
    for owner in [*sorted(seen - {name}), *({name} & seen)]:
        weights = [100 * row.get(owner, 0.0) for row in rows.values()]
        look = (
            {"linestyle": "--", "linewidth": 2.2}
            if owner == name
            else {"linewidth": 1.3, "alpha": 0.9}
        )
        axes.plot(
            list(rows), weights, color=colors[owner] if grouped or owner != name else INK, **look
        )
    title = short(words.called(name), 26)
    if grouped and not _of_clients(shown):
        title += f", distribution {grouped[client]}"
    axes.set_title(title, loc="left", fontsize=9.5, color=INK, parse_math=False)
    axes.set_ylim(-3, 105)
    whole_numbers(axes)
    clean(axes, "y")


def legend(figure: Figure, shown: Collaboration) -> None:
    """Below all panels: what a colour stands for."""
    handles = _client_lines(shown) if _of_clients(shown) else _component_lines(shown)
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=6,
        frameon=False,
        fontsize=9,
        labelcolor=INK,
    )


def _of_clients(shown: Collaboration) -> bool:
    """Whether the models are the clients' own; FedEM's components belong to nobody."""
    return bool(set(_owners(shown)) & set(shown.description.clients))


def _owners(shown: Collaboration) -> list[str]:
    return sorted({owner for row in shown.latest for owner in row})


def _colors(shown: Collaboration) -> dict[str, str]:
    """Clients by their distribution; models that belong to nobody one by one."""
    about = shown.description
    colors = dict(
        zip(about.clients, group_colors(true_groups(about), len(about.clients)), strict=True)
    )
    others = [owner for owner in _owners(shown) if owner not in colors]
    return colors | {
        owner: GROUP_COLORS[place % len(GROUP_COLORS)] for place, owner in enumerate(others)
    }


def _component_lines(shown: Collaboration) -> list[Line2D]:
    colors = _colors(shown)
    return [
        Line2D([], [], color=colors[owner], label=short(owner.lstrip("*")))
        for owner in _owners(shown)
    ]


def _client_lines(shown: Collaboration) -> list[Line2D]:
    own = Line2D([], [], color=INK, linestyle="--", linewidth=2.2, label="own model")
    groups = true_groups(shown.description)
    if groups is None:
        return [own, Line2D([], [], color=group_colors(None, 1)[0], label="a peer")]
    colors = dict(zip(groups, group_colors(groups, len(groups)), strict=True))
    shown_groups = sorted(colors)[:MOST_PANELS]
    return [
        own,
        *(
            Line2D([], [], color=colors[group], label=f"distribution {group}")
            for group in shown_groups
        ),
    ]
