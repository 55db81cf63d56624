"""What a run has left: summary, frames, pictures, the page, and the clients' personal models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from torch import nn

from federico.api.frames import frame_of_posterior, frame_of_rounds
from federico.api.summary import html_of_summary, summary_of_cells
from federico.errors import ConfigError, RunError
from federico.learning.structure import structure_of
from federico.own_code import NOTHING, Trust
from federico.runs.bundle import Bundle, find_own_folder
from federico.runs.client_models import open_client
from federico.runs.layout import CellDir, RunDir
from federico.runs.places import in_table_order, places
from federico.runs.records import Record

if TYPE_CHECKING:
    import pandas as pd

    from federico.api.plots import Plots
    from federico.api.temporary import TemporaryFolder

MOST_LISTED = 20
"""Clients and cells that an error message lists."""


class Run:
    """A run directory: its results, its records and its clients' personal models.

    `summary()` and `frame()` are its figures, `plot` its pictures, `report()` its page, and
    `client(name)` is one client's personal model. For example:

        run = federico.load("runs/digits")
        run.summary()
        run.plot.accuracy()
        run.client(3).collaborators()
    """

    def __init__(
        self,
        path: Path | str,
        model: Callable[[], nn.Module] | None = None,
        *,
        trained: bool = False,
        trust: Trust = NOTHING,
        folder: TemporaryFolder | None = None,
    ) -> None:
        """`trained`: whether `federico.run` has just played rounds of it.

        `trust`: which of the Python code that it names may run.

        `folder`: the temporary folder that it lies in, which lives as long as this run and its
        personal models.
        """
        self.path = Path(path)
        self.trained = trained
        self._model = model
        self._trust = trust
        self._folder = folder
        self._cells = in_table_order(self.path, RunDir(self.path).cells())
        if not self._cells and find_own_folder(self.path) is not None:
            raise RunError(
                f"{self.path.absolute()}: is one client's personal model, no run; open it with "
                "federico.load_client"
            )
        if not self._cells:
            raise RunError(
                f"{self.path.absolute()}: is not a run directory (it has no cell.json below it); "
                "`federico run` makes one"
            )

    def __repr__(self) -> str:
        state = "trained now" if self.trained else "loaded, not trained now"
        return (
            f"Run({str(self.path)!r}: {_counted(len(self.clients), 'client')}, "
            f"{_listed(self.methods)}, {_counted(len(self.seeds), 'seed')}; {state})"
        )

    def _repr_html_(self) -> str:
        head = f"<p><b>{escape(repr(self))}</b></p>"
        summary = self.summary()
        if summary.empty:
            return f"{head}<p>No round has been evaluated yet.</p>"
        return head + html_of_summary(summary)

    @property
    def clients(self) -> list[str]:
        """The clients' names."""
        return self._cells[0].description.clients

    @property
    def methods(self) -> list[str]:
        """The methods that have begun."""
        return list(dict.fromkeys(cell.description.method for cell in self._shown_cells))

    @property
    def seeds(self) -> list[int]:
        """The seeds that have begun."""
        return sorted({cell.description.seed for cell in self._shown_cells})

    @property
    def plot(self) -> Plots:
        """Pictures as matplotlib axes: accuracy, posterior, collaborators, clients."""
        from federico.api.plots import Plots

        return Plots(self.path, self._cell)

    def summary(self) -> pd.DataFrame:
        """What each method has reached: one line for each method and seed.

        Figures are those of the last evaluated round, over all clients as in the report: weighted
        by the size of their data. `alone_...` is what the clients reach with the models they
        trained alone, where the method trains them. `worst` and `best` are the lowest and the
        highest client's accuracy, or R2 where values are predicted. For example:

            run.summary().groupby("method")["accuracy"].mean()
        """
        return summary_of_cells(self._shown_cells)

    def frame(self, *, last: bool = False) -> pd.DataFrame:
        """Every figure of the records: one line for each method, seed, client and round.

        `alone_...` is what the client reaches with the model it trained alone, `together_...` with
        its collaborators' models only, where the method trains a model alone. `together_share` is
        how much these count in what it predicts with, `together_chance` how probable it is that
        they do better; NaN where that is not known. `last`: only the last evaluated round. For
        example:

            run.frame().pivot_table("accuracy", index="round", columns="method")
        """
        frame = frame_of_rounds(self._shown_cells)
        if last and not frame.empty:
            cell = [name for name in ("method", "row", "column", "seed") if name in frame]
            newest = frame.groupby(cell, dropna=False)["round"].transform("max")
            frame = frame[frame["round"] == newest].reset_index(drop=True)
        return frame

    def posterior(
        self,
        method: str = "federico",
        seed: int | None = None,
        round_index: int | None = None,
        *,
        row: str = "",
        column: str = "",
    ) -> pd.DataFrame:
        """Whose models each client trusts: a row for each client, a column for each model's owner.

        Without a seed, row or column that of the first; without a round, after the last. `row` and
        `column` are those of the experiment's `[grid]`. For example:

            run.posterior().loc["north"].sort_values(ascending=False)
        """
        cell = self._cell(method, seed, row, column)
        records = [record for record in cell.records if record.posterior]
        if not records:
            raise RunError(f"{cell.path}: clients of {method!r} have no posterior")
        record = records[-1]
        if round_index is not None:
            of_round = [each for each in records if each.round == round_index]
            if not of_round:
                raise ConfigError(
                    f"round_index = {round_index}: {cell.path} has rounds "
                    f"{records[0].round} to {records[-1].round}"
                )
            record = of_round[0]
        return frame_of_posterior(cell.description.clients, record)

    def report(self) -> Path:
        """Write the page of this run, with its pictures and tables; returns the page's path."""
        from federico.report import summarize
        from federico.ui.frozen import write_report

        return write_report(self.path, summarize(self.path))

    def client(
        self,
        name: str | int,
        *,
        method: str = "federico",
        seed: int | None = None,
        row: str = "",
        column: str = "",
    ) -> Bundle:
        """One client's personal model; without a seed, row or column that of the first.

        `.save(folder)` puts it into a folder of its own, which can be moved to another machine. For
        example:

            north = run.client("north")
            north.predict(x_new)
            north.comparison  # is it worth it?
        """
        cell = self._cell(method, seed, row, column)
        known = cell.description.clients
        if str(name) not in known:
            raise ConfigError(
                f"client {name!r}: there is none of that name in {self.path}; "
                f"it has {_listed(known)}"
            )
        self._refuse_another_model(cell)
        bundle = open_client(cell, str(name), self._model, trust=self._trust)
        bundle.files_owner = self._folder
        return bundle

    def records(
        self,
        method: str = "federico",
        seed: int | None = None,
        *,
        row: str = "",
        column: str = "",
    ) -> list[Record]:
        """Every round of one method and seed; without a row or column those of the first."""
        return self._cell(method, seed, row, column).records

    def _refuse_another_model(self, cell: CellDir) -> None:
        """Trained numbers in a model that calculates otherwise would give nonsense."""
        before = cell.description.model_structure
        if self._model is None or not before:
            return
        if structure_of(self._model()) != before:
            raise RunError(
                f"{cell.path}: was trained with a model of other layers, tensors or code than the "
                "one that is given; give that one, or train again (overwrite=True)"
            )

    @property
    def _shown_cells(self) -> list[CellDir]:
        """All cells but those of tuning, which train without a part of the data."""
        return [cell for cell in self._cells if cell.description.rate_kind != "tuning"]

    def _cell(
        self, method: str, seed: int | None = None, row: str = "", column: str = ""
    ) -> CellDir:
        """The first cell that is what is asked for; tuning runs have no models."""
        of_method = []
        for cell in self._shown_cells:
            about = cell.description
            if about.method == method and seed in (None, about.seed):
                of_method.append(cell)
        if not of_method:
            there = [
                f"{each.description.method} (seed {each.description.seed})" for each in self._cells
            ]
            raise ConfigError(
                f"{self.path}: holds no run of {method!r} with that seed; "
                f"it has {_listed(list(dict.fromkeys(there)))}"
            )
        if not row and not column:
            return of_method[0]

        found = places(self.path, of_method)
        for place in found:
            if row in ("", place.row) and column in ("", place.column):
                return place.cell
        rows = list(dict.fromkeys(place.row for place in found))
        columns = list(dict.fromkeys(place.column for place in found if place.column))
        problem = f"{self.path}: holds no run of {method!r}"
        if row:
            problem += f" in a row {row!r}"
        if column:
            problem += f" in a column {column!r}"
        raise ConfigError(
            f"{problem}; it has the rows {_listed(rows)} and "
            + (f"the columns {_listed(columns)}" if columns else "a single column without a name")
        )


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:MOST_LISTED])
    if len(names) > MOST_LISTED:
        shown += f" and {len(names) - MOST_LISTED} more"
    return shown


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
