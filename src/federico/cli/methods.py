"""`federico methods`."""

from rich.table import Table

from federico.cli.console import out, print_json
from federico.methods import METHODS


def show_methods(*, as_json: bool) -> None:
    """Each method with its options, defaults and their meaning."""
    if as_json:
        print_json(
            {
                name: {"title": m.title, "summary": m.summary, "options": _options(name)}
                for name, m in METHODS.items()
            }
        )
        return
    for name, method in METHODS.items():
        table = Table(
            "option",
            "default",
            "meaning",
            title=f"{method.title}  ({name}): {method.summary}",
            title_justify="left",
        )
        for key, option in _options(name).items():
            table.add_row(f"{name}.{key}", str(option["default"]), str(option["meaning"]))
        out.print(
            table if table.rows else f"{method.title}  ({name}): {method.summary}", highlight=False
        )
        out.print()


def _options(name: str) -> dict[str, dict[str, object]]:
    fields = METHODS[name].options.model_fields
    return {
        key: {"default": field.default, "meaning": field.description}
        for key, field in fields.items()
    }
