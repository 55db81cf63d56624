"""Flags in the help of the command line."""

from typing import Any

import typer


def hide_types_of_flags(command: Any, parent: typer.Context | None = None) -> None:
    """Let the help of a command and its subcommands name no type for flags.

    A flag takes no value; typer would write `<bool>` beside it, as if it wanted one.
    """
    context = typer.Context(command, parent=parent, **command.context_settings)
    for parameter in command.get_params(context):
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    for subcommand in getattr(command, "commands", {}).values():
        hide_types_of_flags(subcommand, context)
