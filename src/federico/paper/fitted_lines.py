"""The paper's figure 1: what each client predicts on its part of a curve, and whom it trusts."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from federico.data.dataset import Client
from federico.experiment.build import prepare
from federico.experiment.config import load
from federico.report.drawing import INK, NARROW, SOFT, clean, sheet, subtitle, ticks
from federico.report.posteriors import LABEL, Posteriors, read_posteriors, weights_in_percent
from federico.runs.client_models import open_client
from federico.runs.layout import CellDir
from federico.runs.table import TableDescription
from federico.types import FloatArray

Color: TypeAlias = tuple[float, ...]
MAGENTA = "#D81BB4"
DASHED: dict[str, Any] = {"linestyle": (0, (2.2, 0.7)), "linewidth": 2.8}
"""Short dashes: a client's interval is short."""
POINTS = 40
"""Points of a curve through one client's interval."""


def fitted_lines(
    folder: Path, table: TableDescription, cells: Mapping[str, CellDir]
) -> Figure | None:
    """Above the data and the fitted curves, below whose models each client uses."""
    by_method = {}
    for row in table.rows:
        by_method[row.method] = cells[row.name]
    ours = by_method["federico"]
    posteriors = read_posteriors(ours)
    if posteriors is None:
        return None
    # The points that clients were trained on are not stored: the data is prepared once more.
    config = load(folder / "config.toml")
    clients = prepare(config, table.seeds[0]).clients

    figure = sheet(NARROW, 8.4, table.title)
    above, below = figure.subplots(2, 1)
    places = np.linspace(0.05, 0.95, len(clients))
    colors = [colormaps["turbo"](place) for place in places]
    _predictions(above, clients, colors, ours, by_method.get("fedavg"))
    _weight_bars(below, posteriors, colors)
    return figure


def _predictions(
    axes: Axes,
    clients: Sequence[Client],
    colors: Sequence[Color],
    ours: CellDir,
    fedavg: CellDir | None,
) -> None:
    """Every client's points and its own curve through them, and FedAvg's one curve for all."""
    ends = np.array([_interval(client) for client in clients])  # [clients, 2]
    whole = np.linspace(ends.min(), ends.max(), POINTS * len(clients))  # [points]
    axes.plot(whole, np.sin(whole), color=MAGENTA, linewidth=1.6, alpha=0.8)
    for client, color, (start, end) in zip(clients, colors, ends, strict=True):
        x = client.train.x[:, 0]
        y = client.train.y[:, 0]
        axes.scatter(x, y, s=16, color=color, alpha=0.75, linewidths=0)
        interval = np.linspace(start, end, POINTS)  # [points]
        predicted = _predict(ours, client, interval)
        axes.plot(interval, predicted, color=color, **DASHED)

    handles = [
        Line2D([], [], color=MAGENTA, label="sine"),
        Line2D([], [], color=SOFT, label="FedeRiCo", **DASHED),
    ]
    if fedavg is not None:
        shared = _predict(fedavg, clients[0], whole)
        dotted: dict[str, Any] = {"color": INK, "linestyle": ":", "linewidth": 2}
        axes.plot(whole, shared, **dotted)
        handles.append(Line2D([], [], label="FedAvg", **dotted))

    # Below the axes: points may lie anywhere inside.
    axes.legend(
        handles=handles,
        frameon=False,
        fontsize=9.5,
        labelcolor=INK,
        loc="upper center",
        bbox_to_anchor=(0.5, -0.13),
        ncols=3,
    )
    axes.set(xlabel="x", ylabel="y")
    clean(axes)
    subtitle(axes, "Each client's points and what it predicts")


def _interval(client: Client) -> tuple[float, float]:
    """The part of the axis that a client's points lie on."""
    x = np.concatenate([client.train.x, client.test.x])
    return float(x.min()), float(x.max())


def _predict(cell: CellDir, client: Client, x: FloatArray) -> FloatArray:
    """The curve of a client's model at these points."""
    bundle = open_client(cell, client.id)
    features = x[:, None]  # [points, 1]
    predicted: FloatArray = bundle.predict(features)[:, 0]
    return predicted


def _weight_bars(axes: Axes, shown: Posteriors, colors: Sequence[Color]) -> None:
    """A bar for each client, made of the weights it gives to everybody's models."""
    places = range(len(shown.clients))
    bottom = np.zeros(len(shown.clients))
    for owner, color in zip(shown.clients, colors, strict=True):
        weights = np.array(weights_in_percent(shown.latest, owner))  # [clients]
        axes.bar(
            places,
            weights,
            bottom=bottom,
            color=color,
            width=0.8,
            edgecolor="white",
            linewidth=0.4,
        )
        bottom += weights
    axes.set(xlabel="client, coloured as above", ylabel=LABEL, ylim=(0, 100))
    clean(axes)
    ticks(axes, "x", shown.clients)
    subtitle(axes, "Whose models each client uses")
