"""The paper's own figures, drawn from the runs of a study."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from federico.compare.figures import over_rounds
from federico.compare.result import Result
from federico.compare.study import Cell, Drawing, Row, Study
from federico.compare.studydir import PlayedCell, StudyDir
from federico.data.dataset import Client
from federico.experiment.build import prepare
from federico.report.old.drawing import INK, SOFT, clean, sheet, subtitle, ticks
from federico.report.old.posteriors import LABEL, legend, panel, panels
from federico.report.old.summary import FEDERICO, Collaboration, title_of
from federico.runs.bundle import Bundle, folder_name

MAGENTA = "#D81BB4"
DASHED: dict[str, Any] = {"linestyle": (0, (2.2, 0.7)), "linewidth": 2.8}
"""Short dashes: a client's interval is short."""
POINTS = 40
"""Of a curve through one client's interval."""


def picture(study: Study, folder: StudyDir, result: Result) -> Figure | None:
    """The figure that the study's file asks for; None where it asks for none, or its runs are not finished.

    None too where the result was saved from longer runs than those that could be drawn.
    """
    shown = result.column(study.compare.columns[0].name, "given")
    longer = any(entry.rounds > study.file.rounds for entry in shown)
    match study.compare.figure:
        case None:
            return None
        case Drawing(draw="curves"):
            return curves(study, result)
        case _ if longer:
            return None
        case Drawing(draw="lines"):
            return lines(study, folder)
        case Drawing(draw="posteriors"):
            return posteriors(study, folder)
        case Drawing(clients=clients):
            return variants(study, folder, clients)


def posteriors(study: Study, folder: StudyDir) -> Figure | None:
    """Weights over rounds, a panel per client (figures 3 and 4)."""
    shown = _collaboration(study, folder, study.rows[0])
    return None if shown is None else panels(shown, study.title)


def variants(study: Study, folder: StudyDir, clients: Sequence[int]) -> Figure | None:
    """Weights over rounds of a few clients, row beside row (figures 5 and 7)."""
    found = [(row, shown) for row in study.rows if (shown := _collaboration(study, folder, row))]
    if len(found) < len(study.rows):
        return None
    places = [(row, shown, client) for row, shown in found for client in clients]
    figure = sheet(2.9 * len(places), 3.4, study.title)
    grid = figure.subplots(1, len(places), sharey=True, squeeze=False)
    for axes, (row, shown, client) in zip(grid.flat, places, strict=True):
        panel(axes, shown, client)
        axes.set(xlabel="round")
        axes.set_title(
            f"{title_of(row.name)}: client {client}",
            loc="left",
            fontsize=9.5,
            color=INK,
            parse_math=False,
        )
    grid[0, 0].set_ylabel(LABEL)
    legend(figure, found[0][1])
    return figure


def curves(study: Study, result: Result) -> Figure:
    """Accuracy over rounds, a panel for each group of rows (figure 6)."""
    names = list(dict.fromkeys(row.panel for row in study.rows if row.panel))
    figure = sheet(3.6 * len(names), 3.7, study.title)
    grid = figure.subplots(1, len(names), sharey=True, squeeze=False)
    for axes, name in zip(grid.flat, names, strict=True):
        rows = [row.name for row in study.rows if row.panel == name]
        entries = [
            entry for entry in result.column(result.columns[0], result.at[0]) if entry.row in rows
        ]
        over_rounds(axes, result, entries)
        subtitle(axes, name)
    for axes in grid.flat[1:]:
        axes.set_ylabel("")
    return figure


def lines(study: Study, folder: StudyDir) -> Figure | None:
    """Left the data and the fitted curves, right whose models each client uses (figure 1)."""
    played = {row.method: _first(study, folder, row) for row in study.rows}
    ours = played.get(FEDERICO)
    if ours is None or not all(cell is not None for cell in played.values()):
        return None
    clients = prepare(_first_cell(study, study.rows[0]).experiment, study.file.seeds[0]).clients
    figure = sheet(11, 4.6, study.title)
    left, right = figure.subplots(1, 2, width_ratios=[1.25, 1])
    colors = [colormaps["turbo"](place) for place in np.linspace(0.05, 0.95, len(clients))]
    _curves(left, clients, colors, ours, played.get("fedavg"))
    _weight_bars(right, ours, colors)
    return figure


def _first_cell(study: Study, row: Row) -> Cell:
    return study.cells(row, study.compare.columns[0], "given")[0]


def _first(study: Study, folder: StudyDir, row: Row) -> PlayedCell | None:
    """The first seed in the first column, if it is finished."""
    cell = folder.cell(_first_cell(study, row))
    return cell if cell.finished else None


def _collaboration(study: Study, folder: StudyDir, row: Row) -> Collaboration | None:
    cell = _first(study, folder, row)
    records = [record for record in cell.records if record.posterior] if cell else []
    return Collaboration(cell.description, records) if cell and records else None


def _curves(
    axes: Axes,
    clients: list[Client],
    colors: list[tuple[float, ...]],
    ours: PlayedCell,
    fedavg: PlayedCell | None,
) -> None:
    inputs = [np.concatenate([client.train.x, client.test.x]) for client in clients]
    ends = np.array([[x.min(), x.max()] for x in inputs])
    whole = np.linspace(ends.min(), ends.max(), POINTS * len(clients))[:, None]
    axes.plot(whole[:, 0], np.sin(whole[:, 0]), color=MAGENTA, linewidth=1.6, alpha=0.8)
    for client, color, (start, end) in zip(clients, colors, ends, strict=True):
        axes.scatter(
            client.train.x[:, 0], client.train.y[:, 0], s=16, color=color, alpha=0.75, linewidths=0
        )
        x = np.linspace(start, end, POINTS)[:, None]
        axes.plot(x[:, 0], _predict(ours, client, x), color=color, **DASHED)
    handles = [
        Line2D([], [], color=MAGENTA, label="sine"),
        Line2D([], [], color=SOFT, label="FedeRiCo", **DASHED),
    ]
    if fedavg is not None:
        axes.plot(
            whole[:, 0], _predict(fedavg, clients[0], whole), color=INK, linestyle=":", linewidth=2
        )
        handles.append(Line2D([], [], color=INK, ls=":", lw=2, label="FedAvg"))
    below: dict[str, Any] = {
        "loc": "upper center",
        "bbox_to_anchor": (0.5, -0.13),
        "ncols": 3,
    }  # points may lie anywhere inside
    axes.legend(handles=handles, frameon=False, fontsize=9.5, labelcolor=INK, **below)
    axes.set(xlabel="x", ylabel="y")
    clean(axes)
    subtitle(axes, "Each client's points and what it predicts")


def _predict(cell: PlayedCell, client: Client, x: np.ndarray) -> np.ndarray:
    return Bundle(cell.path / "clients" / folder_name(client.id)).predict(x)[:, 0]


def _weight_bars(axes: Axes, ours: PlayedCell, colors: list[tuple[float, ...]]) -> None:
    names, latest = ours.description.clients, ours.records[-1].posterior
    bottom = np.zeros(len(names))
    for owner, color in zip(names, colors, strict=True):
        weights = np.array([100 * row.get(owner, 0.0) for row in latest])
        axes.bar(
            range(len(names)),
            weights,
            bottom=bottom,
            color=color,
            width=0.8,
            edgecolor="white",
            linewidth=0.4,
        )
        bottom += weights
    axes.set(xlabel="client, coloured as on the left", ylabel=LABEL, ylim=(0, 100))
    clean(axes)
    ticks(axes, "x", names)
    subtitle(axes, "Whose models each client uses")
