"""Options that several commands share."""

from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print only the result, as JSON.")]
Overrides = Annotated[
    list[str],
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting, e.g. federico.epsilon=0.1."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only warnings and errors.")]
Trust = Annotated[
    bool,
    typer.Option("--trust", help="Run the Python code that the files name; read it first."),
]
