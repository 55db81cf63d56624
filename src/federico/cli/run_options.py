"""The options that `run` and `reproduce` share, each declared once."""

from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, field, fields
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from federico.cli.options import Json, Overrides, Quiet, Trust

if TYPE_CHECKING:
    from federico.experiment.selection import Selection


@dataclass(frozen=True)
class RunOptions:
    """What was asked for on the command line, beside the experiment."""

    overrides: Overrides = field(default_factory=list)
    name: Annotated[
        str, typer.Option(help="Name of the run directory (default: that of the file).")
    ] = ""
    row: Annotated[
        list[str], typer.Option(metavar="NAME", help="Run only this row; can be repeated.")
    ] = field(default_factory=list)
    column: Annotated[
        list[str], typer.Option(metavar="NAME", help="Run only this column; can be repeated.")
    ] = field(default_factory=list)
    rate: Annotated[
        list[str],
        typer.Option(metavar="RATE", help="Run only at this learning rate: given or best."),
    ] = field(default_factory=list)
    jobs: Annotated[int, typer.Option(help="How many runs at a time, each in its own process.")] = 1
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Estimate the time from a few rounds; run nothing else."),
    ] = False
    save: Annotated[
        bool, typer.Option("--save", help="Also add the results to results/<name>.")
    ] = False
    directory: Annotated[Path, typer.Option(help="Folder for run directories.")] = Path("runs")
    trust: Trust = False
    quiet: Quiet = False
    json: Json = False

    @property
    def settings(self) -> list[str]:
        """What changes the file: the settings, and the name of the run directory."""
        if not self.name:
            return self.overrides
        return [*self.overrides, f'name="{self.name}"']

    @property
    def selection(self) -> "Selection":
        """The part of the grid to run."""
        from federico.experiment.selection import Selection

        return Selection(tuple(self.row), tuple(self.column), tuple(self.rate))

    @property
    def silent(self) -> bool:
        """Whether nothing is shown while it runs."""
        return self.quiet or self.json


def with_run_options(command: Callable[..., None]) -> Callable[..., None]:
    """Declare every field of `RunOptions` as an option of the command, which takes `**given`.

    Typer reads signatures: it sees the options one by one, as if they were written out there.
    """
    parameters = []
    for parameter in signature(command).parameters.values():
        if parameter.kind is not Parameter.VAR_KEYWORD:
            parameters.append(parameter.replace(kind=Parameter.KEYWORD_ONLY))
    for each in fields(RunOptions):
        parameters.append(_as_parameter(each))

    command.__annotations__ = {each.name: each.annotation for each in parameters}
    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return command


def _as_parameter(option: "Field[Any]") -> Parameter:
    default = option.default
    if option.default_factory is not MISSING:
        default = option.default_factory()
    return Parameter(option.name, Parameter.KEYWORD_ONLY, default=default, annotation=option.type)
