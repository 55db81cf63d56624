"""`federico methods`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from federico.cli.console import out, print_json
from federico.cli.options import Json

if TYPE_CHECKING:
    from federico.methods.method import Method


def methods(
    own: Annotated[
        list[str] | None,
        typer.Argument(help="Your own methods, as file.py:Class, instead of the built-in ones."),
    ] = None,
    json: Json = False,
) -> None:
    """List the methods and their options."""
    from federico.methods.registry import METHODS

    chosen: Mapping[str, type[Method]] = METHODS
    if own:
        chosen = _own_methods(own)
    if json:
        print_json({name: _described(method) for name, method in chosen.items()})
        return

    for name, method in chosen.items():
        heading = f"{method.title}  ({name}): {method.summary}"
        table = Table("option", "default", "meaning", title=heading, title_justify="left")
        for key, option in _options(method).items():
            table.add_row(f"{name}.{key}", str(option["default"]), str(option["meaning"]))
        out.print(table if table.rows else heading, highlight=False)
        out.print()


def _own_methods(references: Sequence[str]) -> "dict[str, type[Method]]":
    """The methods in these files; paths count from the current folder."""
    from federico.methods.registry import load_own_method
    from federico.own_code import EVERYTHING, absolute_reference, trusting

    found: dict[str, type[Method]] = {}
    with trusting(EVERYTHING):  # whoever names code on the command line wants it to run
        for reference in references:
            own = load_own_method(absolute_reference(reference, Path()))
            found[own.method.name] = own.method
    return found


def _described(method: "type[Method]") -> dict[str, object]:
    return {"title": method.title, "summary": method.summary, "options": _options(method)}


def _options(method: "type[Method]") -> dict[str, dict[str, object]]:
    fields = method.options.model_fields
    return {
        key: {"default": field.default, "meaning": field.description or ""}
        for key, field in fields.items()
    }
