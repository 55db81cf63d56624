"""`run.plot`: the pictures of a run as matplotlib axes, to be restyled at will."""

from __future__ import annotations

from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, overload

from federico.errors import ConfigError, RunError
from federico.report import summarize
from federico.report.drawing import legend_beside, short
from federico.report.entry import Entry
from federico.report.figures import curves, dots_by_client, trust
from federico.report.posteriors import LABEL, named_lines, read_posteriors
from federico.report.table_summary import Summary
from federico.runs.layout import CellDir
from federico.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from federico.report.posteriors import Posteriors


MOST_CLIENTS = 9
"""Clients in a picture of several."""
CLIENTS_ACROSS = 3


class FindCell(Protocol):
    """Finds the cell of a run that a picture shows."""

    def __call__(self, method: str, seed: int | None, row: str, column: str) -> CellDir:
        """The first cell that is what is asked for."""


class Plots:
    """The pictures of a run. Each returns matplotlib axes and draws on `ax` where it is given."""

    def __init__(self, path: Path, cell: FindCell) -> None:
        self._path = path
        self._cell = cell

    def accuracy(self, ax: Axes | None = None, *, column: str = "") -> Axes:
        """What each method reaches over the rounds: accuracy, or R2 where values are predicted.

        A line is the mean over seeds, its band one standard deviation. Of an experiment with
        several columns it shows one: the first, unless `column` names another.
        """
        summary = self._summary()
        entries = _entries(summary, column)
        ax = ax or _new_axes(7, 4)
        curves(ax, summary, entries)
        _name_column(ax, summary, column)
        legend_beside(ax)
        return ax

    def clients(self, ax: Axes | None = None) -> Axes:
        """What each client reaches in the end, a dot for each method."""
        summary = self._summary()
        clients = len(_entries(summary)[0].by_client)
        ax = ax or _new_axes(7, 1.6 + 0.3 * min(clients, 32))
        dots_by_client(ax, summary)
        return ax

    def posterior(
        self,
        method: str = "federico",
        seed: int | None = None,
        ax: Axes | None = None,
        *,
        row: str = "",
        column: str = "",
    ) -> Axes:
        """Whose models each client trusts after the last round, as a heat-map.

        Without a seed, row or column of the experiment, that of the first.
        """
        posteriors = self._posteriors(self._cell(method, seed, row, column))
        ax = ax or _new_axes(6.5, 5.2)
        trust(ax, posteriors)
        return ax

    @overload
    def collaborators(
        self,
        client: str | int,
        method: str = "federico",
        seed: int | None = None,
        ax: Axes | None = None,
        *,
        row: str = "",
        column: str = "",
    ) -> Axes: ...

    @overload
    def collaborators(
        self,
        client: None = None,
        method: str = "federico",
        seed: int | None = None,
        ax: None = None,
        *,
        row: str = "",
        column: str = "",
    ) -> Array: ...

    def collaborators(
        self,
        client: str | int | None = None,
        method: str = "federico",
        seed: int | None = None,
        ax: Axes | None = None,
        *,
        row: str = "",
        column: str = "",
    ) -> Axes | Array:
        """How clients find their collaborators: the weight of each model over the rounds.

        Lines of the heaviest models have names, heaviest first; those of the others are grey. Of
        one client on one pair of axes; without a client, an array of axes for the first nine.
        Without a seed, row or column of the experiment, that of the first.
        """
        cell = self._cell(method, seed, row, column)
        if client is None:
            if ax is not None:
                raise ConfigError("ax: is for one client; say which, as in collaborators('north')")
            return self._collaborators_of_several(cell)
        names = cell.description.clients
        if str(client) not in names:
            raise RunError(f"client {client!r}: there is none of that name; it has {names}")
        return self._collaborators_of_one(cell, str(client), ax or _new_axes(7, 4))

    def _collaborators_of_one(self, cell: CellDir, client: str, ax: Axes) -> Axes:
        posteriors = self._posteriors(cell, client)
        named_lines(ax, posteriors, cell.description.clients.index(client))
        ax.set(xlabel="round", ylabel=LABEL)
        legend_beside(ax)
        return ax

    def _collaborators_of_several(self, cell: CellDir) -> Array:
        """The same picture for each of the first clients, in a grid."""
        from matplotlib import pyplot

        names = cell.description.clients[:MOST_CLIENTS]
        across = min(len(names), CLIENTS_ACROSS)
        down = ceil(len(names) / across)
        _, grid = pyplot.subplots(
            down, across, figsize=(5 * across, 3 * down), layout="constrained", squeeze=False
        )
        axes: Array = grid.flatten()
        for unused in axes[len(names) :]:
            unused.remove()
        for name, ax in zip(names, axes, strict=False):
            self._collaborators_of_one(cell, name, ax)
        return axes[: len(names)]

    def __repr__(self) -> str:
        return f"Plots({', '.join(f'.{name}()' for name in dir(self))})"

    def __dir__(self) -> list[str]:
        return ["accuracy", "clients", "collaborators", "posterior"]

    def _summary(self) -> Summary:
        summary = summarize(self._path)
        if not summary.entries:
            raise RunError(f"{self._path}: no method is finished yet; there is nothing to draw")
        return summary

    def _posteriors(self, cell: CellDir, client: str = "") -> Posteriors:
        drawn = [cell.description.clients.index(client)] if client else None
        found = read_posteriors(cell, drawn)
        if found is None:
            method = short(cell.description.method)
            raise RunError(f"{method}: clients of this method have no posterior to draw")
        return found


def _entries(summary: Summary, column: str = "") -> list[Entry]:
    """The methods of a column of the table; of the first if none is named."""
    columns = summary.table.columns
    if column and column not in columns:
        raise ConfigError(f"column {column!r}: there is none of that name; it has {columns}")
    return summary.column(column or columns[0], summary.shown_rate)


def _name_column(ax: Axes, summary: Summary, column: str) -> None:
    """Say which column is shown, where there are several."""
    columns = summary.table.columns
    if len(columns) > 1:
        ax.set_title(short(column or columns[0]), loc="left")


def _new_axes(width: float, height: float) -> Axes:
    """Axes of a new figure, which a notebook shows by itself."""
    from matplotlib import pyplot

    _, axes = pyplot.subplots(figsize=(width, height), layout="constrained")
    return axes
