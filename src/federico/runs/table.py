"""The table that results are for: which rows, columns and learning rates, and what to show beside.

`table.json` lies beside `results.jsonl`, in a run directory and where results are kept. It says
what the lines of results cannot: the order of rows and columns, what was asked for and may not be
finished yet, and the paper's figures. Nothing here needs torch.
"""

from pathlib import Path
from typing import Literal, TypeAlias

from pydantic import (
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationError,
)

from federico.bounded_files import read_bounded
from federico.errors import RunError
from federico.options import Options
from federico.runs.atomic import publish_text
from federico.types import Task

TABLE = "table.json"
OURS = "federico"
"""The method that this package is for: reports show it before others."""
LOCAL = "local"
"""The method that trains alone."""
ShownRate: TypeAlias = Literal["given", "best"]
"""The learning rate that the file gives, or the best one that tuning found."""
EntryKey: TypeAlias = tuple[str, str, str]
"""Row, column and kind of learning rate: what the results of several seeds have in common."""


class ReportedValues(Options):
    """What a paper reports for the same experiment, shown beside the result."""

    where: str = ""
    """The paper's table or figure."""
    rounds: PositiveInt | None = None
    """Rounds that the paper's runs have."""
    runs: PositiveInt | None = None
    """Runs that the paper's figures are means of."""
    rate: PositiveFloat | None = None
    """The learning rate of the paper's runs."""
    finding: str = ""
    """What the paper concludes, in a sentence."""
    differs: tuple[str, ...] = ()
    """How this experiment differs from the paper's, apart from the number of rounds and runs."""
    values: dict[str, dict[str, tuple[NonNegativeFloat, NonNegativeFloat]]] = Field(default={})
    """Mean and standard deviation by row and column; accuracies in percent."""


class FigureOptions(Options):
    """A figure in the style of the paper, in addition to the usual ones."""

    draw: Literal["lines", "posteriors", "variants", "curves"]
    """`lines`: the fitted curves of a one-dimensional regression, and posteriors as bars.
    `posteriors`: weights over rounds, a panel for each client of the first row. `variants`: the
    same for a few clients, a panel for each row and client. `curves`: the figure over rounds, a
    panel for each group of rows."""
    clients: tuple[NonNegativeInt, ...] = (0,)
    """The clients (by number) that `variants` draws."""


class TableRow(Options):
    """One row of the table: a method with its options."""

    name: str
    title: str
    """The row's name for people."""
    method: str
    panel: str = ""
    """The panel of a figure of curves that the row is drawn in."""


class CommandSeconds(Options):
    """What all runs of one command took, from before each cell had seconds of its own."""

    command: str
    commit: str
    seconds: NonNegativeFloat
    """Seconds by the clock on the wall, of all runs together, tuning included."""


class StoredStudy(Options):
    """What results that were stored as means do not say themselves."""

    task: Task
    clients: PositiveInt
    model_parameters: PositiveInt
    commands: tuple[CommandSeconds, ...]
    """The commands that the means come from."""


class TableDescription(Options):
    """The table that results are for."""

    name: str
    title: str
    rows: tuple[TableRow, ...]
    columns: tuple[str, ...] = ("",)
    """The problems that every row is run on; a single one needs no name."""
    rates: tuple[ShownRate, ...] = ("given",)
    """The learning rates that every row is run at."""
    reference: str | None = None
    """The row that others are compared with, seed by seed."""
    spread: Literal["seeds", "clients"] = "seeds"
    """What a standard deviation is taken over."""
    rounds: PositiveInt
    seeds: tuple[NonNegativeInt, ...]
    paper: ReportedValues = ReportedValues()
    """What a paper reports of the same experiment."""
    figure: FigureOptions | None = None
    """The figure to draw in the manner of the paper."""
    stored: StoredStudy | None = None
    """What is known of results that were stored as means, if there are any."""


def write_table(folder: Path, table: TableDescription) -> None:
    """Say which table the results in this folder are for."""
    text = table.model_dump_json(indent=1, exclude_defaults=True)
    publish_text(folder / TABLE, text + "\n")


def read_table(folder: Path) -> TableDescription:
    """Read which table the results in this folder are for."""
    path = folder / TABLE
    try:
        return TableDescription.model_validate_json(read_bounded(path))
    except FileNotFoundError:
        raise RunError(
            f"{folder.absolute()}: not a run directory, there is no {TABLE}; "
            "give the folder that `federico run` wrote, or one of results/"
        ) from None
    except OSError as error:
        raise RunError(f"{path}: cannot be read: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        fault = f"{place}: {first['msg']}" if place else first["msg"]
        raise RunError(f"{path}: not a table of results: {fault}") from None


def merge_tables(kept: TableDescription, new: TableDescription) -> TableDescription:
    """The table of kept results after new ones were added to them.

    Rows and columns are those of the new one. A shorter run does not change what is said of the
    longer ones that are kept.
    """
    longer = kept if kept.rounds > new.rounds else new
    changes = {
        "rounds": longer.rounds,
        "paper": longer.paper,
        "seeds": tuple(sorted({*kept.seeds, *new.seeds})),
        "stored": kept.stored,
    }
    return new.model_copy(update=changes)
