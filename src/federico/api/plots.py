"""`run.plot`: the pictures of a run as matplotlib axes, to be restyled at will."""

from __future__ import annotations

from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, overload

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
    from collections.abc import Callable

    from matplotlib.axes import Axes

    from federico.report.posteriors import Posteriors


MOST_CLIENTS = 9
"""Clients in a picture of several."""
CLIENTS_ACROSS = 3


class Plots:
    """The pictures of a run. Each returns matplotlib axes and draws on `ax` where it is given."""

    def __init__(self, path: Path, cell: Callable[[str, int | None], CellDir]) -> None:
        self._path = path
        self._cell = cell

    def accuracy(self, ax: Axes | None = None) -> Axes:
        """What each method reaches over the rounds: accuracy, or R2 where values are predicted.

        A line is the mean over seeds, its band one standard deviation.
        """
        summary = self._summary()
        ax = ax or _new_axes(7, 4)
        curves(ax, summary, _entries(summary))
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
        self, method: str = "federico", seed: int | None = None, ax: Axes | None = None
    ) -> Axes:
        """Whose models each client trusts after the last round, as a heat-map."""
        posteriors = self._posteriors(method, seed)
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
    ) -> Axes: ...

    @overload
    def collaborators(
        self,
        client: None = None,
        method: str = "federico",
        seed: int | None = None,
        ax: None = None,
    ) -> Array: ...

    def collaborators(
        self,
        client: str | int | None = None,
        method: str = "federico",
        seed: int | None = None,
        ax: Axes | None = None,
    ) -> Axes | Array:
        """How clients find their collaborators: the weight of each model over the rounds.

        Lines of the heaviest models have names, heaviest first; those of the others are grey. Of
        one client on one pair of axes; without a client, an array of axes for the first nine.
        """
        if client is None:
            if ax is not None:
                raise ConfigError("ax: is for one client; say which, as in collaborators('north')")
            return self._collaborators_of_several(method, seed)
        cell = self._cell(method, seed)
        names = cell.description.clients
        if str(client) not in names:
            raise RunError(f"client {client!r}: there is none of that name; it has {names}")
        posteriors = self._posteriors(method, seed, str(client))
        ax = ax or _new_axes(7, 4)
        named_lines(ax, posteriors, names.index(str(client)))
        ax.set(xlabel="round", ylabel=LABEL)
        legend_beside(ax)
        return ax

    def _collaborators_of_several(self, method: str, seed: int | None) -> Array:
        """The same picture for each of the first clients, in a grid."""
        from matplotlib import pyplot

        names = self._cell(method, seed).description.clients[:MOST_CLIENTS]
        across = min(len(names), CLIENTS_ACROSS)
        down = ceil(len(names) / across)
        _, grid = pyplot.subplots(
            down, across, figsize=(5 * across, 3 * down), layout="constrained", squeeze=False
        )
        axes: Array = grid.flatten()
        for unused in axes[len(names) :]:
            unused.remove()
        for name, ax in zip(names, axes, strict=False):
            self.collaborators(name, method, seed, ax)
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

    def _posteriors(self, method: str, seed: int | None, client: str = "") -> Posteriors:
        cell = self._cell(method, seed)
        drawn = [cell.description.clients.index(client)] if client else None
        found = read_posteriors(cell, drawn)
        if found is None:
            raise RunError(f"{short(method)}: clients of this method have no posterior to draw")
        return found


def _entries(summary: Summary) -> list[Entry]:
    """The methods of the first column of the table."""
    return summary.column(summary.table.columns[0], summary.shown_rate)


def _new_axes(width: float, height: float) -> Axes:
    """Axes of a new figure, which a notebook shows by itself."""
    from matplotlib import pyplot

    _, axes = pyplot.subplots(figsize=(width, height), layout="constrained")
    return axes
