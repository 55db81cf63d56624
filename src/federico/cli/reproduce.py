"""`federico reproduce`."""

from typing import Annotated, Any

import typer

from federico import presets
from federico.cli.run import leaving_together, perform
from federico.cli.run_options import RunOptions, with_run_options


def _presets(typed: str) -> list[str]:
    """What the shell offers when somebody has typed this much."""
    return [name for name in presets.names() if name.startswith(typed)]


@with_run_options
def reproduce(
    preset: Annotated[
        str,
        typer.Argument(help=f"One of {', '.join(presets.names())}.", autocompletion=_presets),
    ],
    scale: Annotated[
        float, typer.Option(help="Fraction of the rounds and seeds to run, to save time.")
    ] = 1.0,
    **given: Any,
) -> None:
    """Run a study, or a table or figure of the paper beside the paper's numbers."""
    from federico.experiment.grid import load_grid, scaled

    options = RunOptions(**given)
    typed = ["reproduce", preset]
    if scale != 1:
        typed += ["--scale", f"{scale:g}"]
    with leaving_together() as team:
        grid = scaled(load_grid(presets.preset(preset), options.settings), scale)
        perform(grid, options, typed, team)
