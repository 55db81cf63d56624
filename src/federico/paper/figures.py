"""Figures in the manner of the paper, drawn from the cells of a finished run."""

import math
from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from federico.report.details import summarize
from federico.report.drawing import INK, NARROW, legend_below, sheet, subtitle
from federico.report.figures import curves
from federico.report.posteriors import (
    ACROSS,
    LABEL,
    Posteriors,
    legend_lines,
    panel,
    panels,
    read_posteriors,
)
from federico.report.table_summary import Summary
from federico.report.writing import OWN_FIGURE, publish_picture
from federico.runs.layout import CellDir, RunDir
from federico.runs.results import read_results
from federico.runs.table import TableDescription, TableRow, read_table


def write_figure(folder: Path) -> Path | None:
    """Draw the figure that a run's file asks for and put it beside the results.

    None where the file asks for none, or the runs that it shows are not finished.
    """
    figure = draw_figure(folder)
    if figure is None:
        return None
    publish_picture(folder, OWN_FIGURE, figure)
    return folder / f"{OWN_FIGURE}.png"


def draw_figure(folder: Path) -> Figure | None:
    """The figure that a run's file asks for, if the runs that it shows are finished."""
    table = read_table(folder)
    if table.figure is None:
        return None
    if table.figure.draw == "curves":
        return curves_by_panel(summarize(folder))

    cells = shown_cells(folder, table)
    if len(cells) < len(table.rows):
        return None
    match table.figure.draw:
        case "posteriors":
            return all_clients(table, cells)
        case "variants":
            return variants(table, cells, table.figure.clients)
        case "lines":
            # Predicting needs torch, which takes seconds to import.
            from federico.paper.fitted_lines import fitted_lines

            return fitted_lines(folder, table, cells)


def shown_cells(folder: Path, table: TableDescription) -> dict[str, CellDir]:
    """The cell of each row that figures show: first column, given learning rate, first seed.

    Rows whose cell is not finished are missing. Rows with the same settings share a cell.
    """
    lines, _ = read_results(folder)
    by_settings = {}
    for cell in RunDir(folder).cells():
        if cell.rounds_done >= table.rounds:
            about = cell.description
            settings = (about.method, about.settings, about.rate, about.seed)
            by_settings[settings] = cell

    shown = (table.columns[0], "given", table.seeds[0])
    found = {}
    for line in lines:
        if (line.column, line.rate_kind, line.seed) != shown:
            continue
        settings = (line.method, line.settings, line.rate, line.seed)
        if settings in by_settings:
            found[line.row] = by_settings[settings]
    return found


def all_clients(table: TableDescription, cells: dict[str, CellDir]) -> Figure | None:
    """Weights over rounds of the first row, a panel for each client (figures 3 and 4)."""
    first = table.rows[0]
    shown = read_posteriors(cells[first.name])
    if shown is None:
        return None
    return panels(shown, table.title)


def variants(
    table: TableDescription, cells: dict[str, CellDir], clients: Sequence[int]
) -> Figure | None:
    """Weights over rounds of a few clients, row beside row (figures 5 and 7)."""
    places: list[tuple[TableRow, Posteriors, int]] = []
    for row in table.rows:
        shown = read_posteriors(cells[row.name], clients)
        if shown is None:
            return None
        for client in clients:
            places.append((row, shown, client))

    lines = math.ceil(len(places) / ACROSS)
    figure = sheet(NARROW, 1.4 + 2.3 * lines, table.title)
    grid = figure.subplots(lines, ACROSS, sharey=True, squeeze=False)
    for axes in grid.flat[len(places) :]:
        axes.remove()
    for axes, (row, shown, client) in zip(grid.flat, places, strict=False):
        panel(axes, shown, client)
        axes.set_xlabel("round")
        title = f"{row.title}: client {client}"
        axes.set_title(title, loc="left", fontsize=9.5, color=INK, parse_math=False)
    for axes in grid[:, 0]:
        axes.set_ylabel(LABEL)
    first, *others = [shown for _, shown, _ in places]
    legend_below(figure, legend_lines(first, *others), 3)
    return figure


def curves_by_panel(summary: Summary) -> Figure | None:
    """The figure over rounds, a panel for each group of rows (figure 6)."""
    table = summary.table
    names: list[str] = []
    for row in table.rows:
        if row.panel and row.panel not in names:
            names.append(row.panel)
    entries = summary.column(table.columns[0], table.rates[0])
    if not names or not entries:
        return None

    figure = sheet(NARROW, 0.6 + 3.0 * len(names), table.title)
    grid = figure.subplots(len(names), 1, sharey=True, squeeze=False)
    for axes, name in zip(grid.flat, names, strict=True):
        of_panel = [entry for entry in entries if entry.row.panel == name]
        curves(axes, summary, of_panel)
        axes.legend(frameon=False, fontsize=9, labelcolor=INK)
        subtitle(axes, name)
    return figure
