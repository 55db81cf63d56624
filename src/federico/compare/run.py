"""Run a study from wherever it stands."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from federico.compare.drawable import check_figure
from federico.compare.queue import News, play
from federico.compare.study import At, Cell, Column, Row, Study
from federico.compare.studydir import StudyDir
from federico.errors import ConfigError
from federico.experiment.build import prepare
from federico.learning.layout import ModelLayout
from federico.methods import METHODS
from federico.runs.layout import RunDir


@dataclass(frozen=True)
class Part:
    """Which part of a study to run now; what is empty means all of it."""

    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    at: tuple[str, ...] = ()

    def check(self, study: Study) -> None:
        """Refuse names that the study does not have."""
        for option, asked, known in (
            ("--row", self.rows, [row.name for row in study.rows]),
            ("--column", self.columns, [column.name for column in study.compare.columns]),
            ("--at", self.at, study.compare.at),
        ):
            for name in asked:
                if name not in known:
                    names = ", ".join(filter(None, known)) or "no names to choose from"
                    raise ConfigError(
                        f"{option} {name}: {study.name} has none of that name; it has {names}"
                    )

    def pairs(self, study: Study) -> Iterator[tuple[Row, Column]]:
        """The rows and columns to run."""
        for row, column in study.pairs():
            if row.name in (self.rows or [row.name]) and column.name in (
                self.columns or [column.name]
            ):
                yield row, column

    def rates(self, study: Study) -> Sequence[At]:
        """The learning rates to run at."""
        return [at for at in study.compare.at if at in (self.at or study.compare.at)]


EVERYTHING = Part()


class Listener(Protocol):
    """Is told how the study goes, to show it to somebody."""

    def expect(self, cells: Sequence[Cell]) -> None:
        """These cells are to come; some may be finished."""

    def hear(self, news: News) -> None:
        """A cell has come further."""


def first_cells(study: Study, folder: StudyDir, part: Part = EVERYTHING) -> list[Cell]:
    """All that can be run before a learning rate is chosen: at the given one, then for tuning.

    Seed after seed, so that the table fills with single runs first.
    """
    pairs, rates = list(part.pairs(study)), part.rates(study)
    given = [
        cell
        for row, column in pairs
        for cell in study.cells(row, column, "given")
        if "given" in rates
    ]
    tuning = [
        cell
        for row, column in pairs
        for cell in folder.tuning_cells(study, row, column)
        if "best" in rates
    ]
    return sorted(given, key=lambda cell: study.file.seeds.index(cell.seed)) + tuning


def best_cells(study: Study, folder: StudyDir, part: Part = EVERYTHING) -> list[Cell]:
    """What is run at the chosen learning rates; nothing of a row and column whose rate is not chosen yet."""
    if "best" not in part.rates(study):
        return []
    rates = [
        (row, column, folder.best_rate(study, row, column)) for row, column in part.pairs(study)
    ]
    chosen = [
        cell
        for row, column, rate in rates
        if rate is not None
        for cell in study.cells(row, column, "best", rate)
    ]
    return sorted(chosen, key=lambda cell: study.file.seeds.index(cell.seed))


def run_study(
    study: Study,
    folder: StudyDir,
    listener: Listener,
    *,
    part: Part = EVERYTHING,
    jobs: int = 1,
    command: str = "",
) -> None:
    """Run all cells that are not finished yet."""
    part.check(study)
    check_figure(study)
    with RunDir(folder.path).locked():
        _play(first_cells(study, folder, part), folder, listener, jobs, command)
        _play(best_cells(study, folder, part), folder, listener, jobs, command)


def _play(
    cells: Sequence[Cell], folder: StudyDir, listener: Listener, jobs: int, command: str
) -> None:
    listener.expect(cells)
    done = {cell.name for cell in folder.finished(cells)}
    waiting = [cell for cell in cells if cell.name not in done]
    check_cells(waiting)
    play(waiting, folder.path, jobs, listener.hear, command)


def check_cells(cells: Sequence[Cell]) -> None:
    """Find what is wrong with data, models or options before the first round: each problem is set up once."""
    met: dict[str, tuple[int, ModelLayout]] = {}
    for cell in cells:
        problem = cell.experiment.model_dump_json(
            exclude={"name", "methods", "seeds", "training", *METHODS}
        )
        if problem not in met:
            setup = prepare(cell.experiment, cell.seed)
            met[problem] = len(setup.clients), setup.layout
        cell.experiment.method(cell.method).check(
            cell.experiment.method_options(cell.method), *met[problem]
        )
