"""`federico reproduce`."""

from pathlib import Path
from typing import Annotated

import typer

from federico import presets
from federico.cli.options import Json, Overrides, Quiet
from federico.cli.run import (
    Columns,
    Directory,
    DryRun,
    Jobs,
    Name,
    Rates,
    Rows,
    RunOptions,
    Save,
    leaving_together,
    perform,
)


def reproduce(
    preset: Annotated[str, typer.Argument(help=f"One of {', '.join(presets.names())}.")],
    scale: Annotated[
        float, typer.Option(help="Fraction of the rounds and seeds to run, to save time.")
    ] = 1.0,
    overrides: Overrides = [],  # noqa: B006 (typer copies it)
    name: Name = "",
    row: Rows = [],  # noqa: B006
    column: Columns = [],  # noqa: B006
    rate: Rates = [],  # noqa: B006
    jobs: Jobs = 1,
    dry_run: DryRun = False,
    save: Save = False,
    directory: Directory = Path("runs"),
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Run a study, or a table or figure of the paper beside the paper's numbers."""
    from federico.experiment.grid import load_grid, scaled

    options = RunOptions(
        overrides, name, row, column, rate, jobs, dry_run, save, directory, quiet, json
    )
    typed = ["reproduce", preset]
    if scale != 1:
        typed += ["--scale", f"{scale:g}"]
    with leaving_together() as team:
        grid = scaled(load_grid(presets.preset(preset), options.settings), scale)
        perform(grid, options, typed, team)
