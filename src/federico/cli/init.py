"""`federico init`."""

from pathlib import Path
from typing import Annotated

import typer

from federico.cli.console import PLAIN, out
from federico.starters import STARTERS, write_starter


def _kinds(typed: str) -> list[str]:
    """What the shell offers when somebody has typed this much."""
    return [kind for kind in STARTERS if kind.startswith(typed)]


def init(
    kind: Annotated[
        str,
        typer.Argument(help=f"What to start from: {', '.join(STARTERS)}.", autocompletion=_kinds),
    ] = "digits",
    directory: Annotated[Path, typer.Option(help="Folder to write into.")] = Path(),
) -> None:
    """Write a commented experiment to start from, with its data; nothing is overwritten."""
    for path in write_starter(kind, directory):
        out.print(f"wrote {path}", **PLAIN)
    if directory != Path():
        out.print(f"Next: cd {directory}, then {STARTERS[kind].next_step}", **PLAIN)
    else:
        out.print(f"Next: {STARTERS[kind].next_step}", **PLAIN)
