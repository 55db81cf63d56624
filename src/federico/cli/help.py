"""How the help of commands is shown, where typer would show it otherwise."""

from typing import Any

import typer


def tidy_help(command: Any, parent: typer.Context | None = None) -> None:
    """Improve the help of a command and of its subcommands.

    A flag takes no value, but typer would write `<bool>` beside it, as if it wanted one. And typer
    keeps the line breaks of docstrings, which are made for another width than the terminal's.
    """
    context = typer.Context(command, parent=parent, **command.context_settings)
    if command.help:
        command.help = _in_whole_paragraphs(command.help)
    for parameter in command.get_params(context):
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    for subcommand in getattr(command, "commands", {}).values():
        tidy_help(subcommand, context)


def _in_whole_paragraphs(text: str) -> str:
    """The text with a line for each paragraph."""
    paragraphs = [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]
    return "\n\n".join(paragraphs)
