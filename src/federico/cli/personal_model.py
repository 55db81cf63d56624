"""The personal model that a command line names: in a run, in its own folder, or at a site."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from federico.errors import ConfigError

if TYPE_CHECKING:
    from federico.runs.bundle import Bundle

RunOrFolder = Annotated[
    Path,
    typer.Argument(help="Run directory, state folder of a site, or folder of one personal model."),
]


def clients_of(context: typer.Context, typed: str) -> list[str]:
    """What the shell offers when somebody has typed this much of a client's name."""
    from federico.runs.layout import RunDir

    # An option without its value ends the reading of a line: what stands before it is left over.
    named = [context.params.get("run"), *context.args]
    runs = [Path(each) for each in named if each]
    if not runs:
        return []
    cells = RunDir(runs[0]).cells()
    names = cells[0].description.clients if cells else []
    return [name for name in names if name.startswith(typed)]


Client = Annotated[
    str,
    typer.Option(
        help="Whose personal model; not needed with its own folder.", autocompletion=clients_of
    ),
]
MethodName = Annotated[str, typer.Option(help="The method that trained the model.")]
Seed = Annotated[int | None, typer.Option(help="The seed of the run (default: the first).")]
Row = Annotated[str, typer.Option(help="The row, if the run has a grid (default: the first).")]
Column = Annotated[
    str, typer.Option(help="The column, if the run has a grid (default: the first).")
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace the output file if there is one.")
]


def open_personal_model(
    run: Path, client: str, method: str, seed: int | None, row: str, column: str, *, trust: bool
) -> "Bundle":
    """The client's personal model, from its own folder, a site's state folder or a run."""
    from federico.api import load
    from federico.own_code import trust_if
    from federico.runs.bundle import find_own_folder, open_folder

    folder = find_own_folder(run)
    if folder is not None:
        bundle = open_folder(folder, trust=trust_if(trust))
        if client not in ("", bundle.header.client):
            raise ConfigError(
                f"--client {client}: {folder} is the personal model of {bundle.header.client}"
            )
        return bundle

    opened = load(run, trust=trust)
    if not client:
        raise ConfigError(f"--client: say whose model; {run} has {_listed(opened.clients)}")
    return opened.client(client, method=method, seed=seed, row=row, column=column)


def _listed(clients: list[str], most: int = 20) -> str:
    shown = ", ".join(clients[:most])
    if len(clients) > most:
        shown += f" and {len(clients) - most} more"
    return shown
