"""Write the reference pages from the code, so that every option is documented where it is defined.

Usage: python docs/generate.py           write them
       python docs/generate.py --check   fail if a page is not what the code says
"""

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_origin

import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from sklearn.base import BaseEstimator

import federico
from federico.api.plots import Plots
from federico.cli.main import app
from federico.experiment.config import experiment_type
from federico.experiment.observer import Observer
from federico.report.methods_measured import with_measured_figures
from federico.report.section import section
from federico.runs.bundle import Bundle
from federico.runs.comparison import Comparison
from federico.runs.table import TABLE
from federico.site.federation_file import FederationOptions
from federico.site.site_file import SiteOptions

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "results"
ORDER = ("table", "figure", "ablation")
NOTE = "<!-- Written by docs/generate.py from the code; change it there. -->\n"


def options_page() -> str:
    """All tables of an experiment file."""
    parts = ["# Reference: options of an experiment file\n", NOTE]
    parts += [
        "Every key can also be set on the command line: "
        "`federico run FILE --set federico.epsilon=0.1`.\n"
    ]
    parts += [_table(title, cls) for title, cls in _tables("", experiment_type())]
    return "\n".join(parts)


def federation_page() -> str:
    """All tables of a federation file and of a site file."""
    parts = ["# Reference: federation files and site files\n", NOTE]
    parts += [
        "A federation file is the same at every site; a site file is the site's own. The tables `[model]`,"
    ]
    parts += [
        "`[training]` and `[federico]` of the one, and `[data]`, `[partition]` and `[split]` of the other, are"
    ]
    parts += ["those of an [experiment file](reference-options.md).\n"]
    for name, cls in (("federation.toml", FederationOptions), ("site.toml", SiteOptions)):
        parts += [f"# `{name}`\n"]
        parts += [
            _table(title, table) for title, table in _tables("", cls) if table not in _known()
        ]
    return "\n".join(parts)


def _known() -> set[type[BaseModel]]:
    """What the page of experiment files describes already."""
    return {table for _, table in _tables("", experiment_type())}


def results_page() -> str:
    """Everything in `results/`: the numbers, and what a person has to say about them."""
    parts = ["# Results\n", NOTE, RESULTS_INTRO]
    folders = [path.parent for path in RESULTS.glob(f"*/{TABLE}")]
    for folder in sorted(folders, key=_rank):
        parts.append(section(folder, f"../results/{folder.name}"))
    return "\n".join(parts)


RESULTS_INTRO = """\
Each section is a table or figure that we ran with the commands listed under it, with the paper's
figures beside ours where it gives any. Every difference in the setting is listed under the tables.
Two differences are common to all: the paper publishes no code, so we settled
[what it leaves open](explanation-open-points.md); and a run here is one seed with a split of its
own. Methods are compared at the paper's learning rate (0.01 for everybody) and, where a section
says so, at each method's own best rate, chosen without test data.

The numbers are in [`results/`](../results), which `federico report results/<name>` reads. A commit
is that of the code that ran or saved them. Commands are quoted as they were typed; in older ones
`--set compare.` now reads `--set grid.` and `--at` reads `--rate`.
"""


def _rank(folder: Path) -> tuple[int, str]:
    """Tables first, then figures, then our own choices, then the rest."""
    kind = folder.name.partition("-")[0].rstrip("0123456789")
    place = ORDER.index(kind) if kind in ORDER else len(ORDER)
    return place, folder.name


def command_page() -> str:
    """All commands, as `--help` tells them."""
    parts = ["# Reference: command line\n", NOTE, _exit_codes()]
    parts += [
        _command(name, command)
        for name, command in _commands("federico", typer.main.get_command(app))
    ]
    return "\n".join(parts)


def _tables(
    path: str, cls: type[BaseModel], *, several: bool = False
) -> Iterator[tuple[str, type[BaseModel]]]:
    """`several`: an array of tables, which TOML writes with two brackets."""
    yield (f"`[[{path}]]`" if several else f"`[{path}]`" if path else "Top level"), cls
    for name, field in cls.model_fields.items():
        inner = f"{path}.{name}".strip(".")
        for kind in _models(field):
            tag = _tag(kind)
            for title, table in _tables(inner, kind, several=get_origin(field.annotation) is tuple):
                yield (f'{title} with `kind = "{tag}"`' if tag else title), table


def _tag(cls: type[BaseModel]) -> str:
    """The only `kind` that a table may have; empty if it has none or its reader may choose."""
    if "kind" not in cls.model_fields:
        return ""
    kinds: tuple[str, ...] = get_args(cls.model_fields["kind"].annotation)
    return kinds[0] if len(kinds) == 1 else ""


def _models(field: FieldInfo) -> list[type[BaseModel]]:
    kinds = _parts(field.annotation)
    return [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]


def _parts(annotation: Any) -> Iterator[Any]:
    yield annotation
    for part in get_args(annotation):
        yield from _parts(part)


def _table(title: str, cls: type[BaseModel]) -> str:
    rows = []
    for name, field in cls.model_fields.items():
        if (name == "kind" and _tag(cls)) or _models(field):
            continue
        sentence = " ".join((field.description or "").split())
        rows.append(f"| `{name}` | {_default(field)} | {sentence}{_bounds(field)} |")
    head = f"## {title}\n\n{inspect.getdoc(cls)}\n"
    return head + (
        "\n| key | default | meaning |\n|---|---|---|\n" + "\n".join(rows) + "\n" if rows else ""
    )


def _default(field: FieldInfo) -> str:
    if field.default_factory is not None:
        return "empty"
    if field.default is PydanticUndefined:
        return "(required)"
    return "-" if field.default is None else f"`{_toml(field.default)}`"


def _toml(value: Any) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str | Path) else str(value)


def _bounds(field: FieldInfo) -> str:
    signs = {"gt": ">", "ge": ">=", "lt": "<", "le": "<="}
    found = [
        f"{sign} {getattr(item, name)}"
        for item in field.metadata
        for name, sign in signs.items()
        if hasattr(item, name)
    ]
    choices = [str(c) for c in get_args(field.annotation) if isinstance(c, str)]
    found += [f"one of {', '.join(f'`{c}`' for c in choices)}"] if choices else []
    return f" ({', '.join(found)})" if found else ""


def _commands(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    if hasattr(command, "commands"):
        for name, inner in command.commands.items():
            yield from _commands(f"{path} {name}", inner)
    else:
        yield path, command


def _command(name: str, command: Any) -> str:
    rows = []
    for param in command.params:
        spelled = ", ".join(param.opts) if param.param_type_name == "option" else param.name.upper()
        rows.append(f"| `{spelled}` | {param.help or ''} |")
    return (
        f"## `{name}`\n\n{command.help}\n\n| argument | meaning |\n|---|---|\n"
        + "\n".join(rows)
        + "\n"
    )


def python_page() -> str:
    """What `import federico` gives, as its docstrings tell it."""
    parts = ["# Reference: Python\n", NOTE, PYTHON_INTRO]
    parts += [_function("federico.run", federico.run), _function("federico.load", federico.load)]
    parts += [_function("federico.load_client", federico.load_client)]
    for title, cls in PYTHON_CLASSES.items():
        parts.append(f"## {title}\n\n{_docstring(cls)}\n")
        if issubclass(cls, BaseEstimator):
            call = f"{cls.__name__}{_signature(cls)}"
            parts.append(f"### `{call}`\n\n{_docstring(cls.__init__)}\n")
        parts += [_member(title, name, member) for name, member in _public_members(cls)]
    return "\n".join(parts)


PYTHON_INTRO = """\
[A notebook](../src/federico/examples/notebook/first-federation.ipynb) shows all of it at work;
[how to use your own data](how-to-own-data.md#in-python) says what `clients` may be. Errors are
`federico.errors.FedericoError`: each names what is wrong and what to do.
"""

PYTHON_CLASSES: dict[str, type] = {
    "run": federico.Run,
    "run.plot": Plots,
    "client": Bundle,
    "client.comparison": Comparison,
    "federico.Callback": federico.Callback,
    "federico.FedericoClassifier": federico.FedericoClassifier,
    "federico.FedericoRegressor": federico.FedericoRegressor,
}
"""Classes under the names that people have them by: `client = run.client("north")`."""


def _public_members(cls: type) -> Iterator[tuple[str, Any]]:
    """The methods and properties of this class, in the order of its file."""
    # What a callback may override is what every observer has.
    defining = Observer if cls is federico.Callback else cls
    for name, member in vars(defining).items():
        is_shown = inspect.isfunction(member) or isinstance(member, property)
        if is_shown and not name.startswith("_"):
            yield name, member


def _member(owner: str, name: str, member: Any) -> str:
    # An estimator is called by its variable, not by its class.
    owner = owner.rpartition(".")[2] if owner.startswith("federico.") else owner
    if isinstance(member, property):
        return f"### `{owner}.{name}`\n\n{_docstring(member)}\n"
    return f"### `{owner}.{name}{_signature(member)}`\n\n{_docstring(member)}\n"


def _function(name: str, function: Any) -> str:
    return f"## {name}\n\n`{name}{_signature(function)}`\n\n{_docstring(function)}\n"


def _signature(function: Any) -> str:
    """The names of the arguments and their defaults, without types."""
    signature = inspect.signature(function)
    plain = []
    for name, parameter in signature.parameters.items():
        if name != "self":
            plain.append(parameter.replace(annotation=inspect.Parameter.empty))
    return str(inspect.Signature(plain))


def _docstring(documented: Any) -> str:
    """A docstring as Markdown: its indented lines are code."""
    text = inspect.getdoc(documented)
    if not text:
        raise ValueError(f"{documented} has no docstring")
    lines: list[str] = []
    in_code = False
    for line in text.splitlines():
        is_code = line.startswith("    ")
        if is_code and not in_code:
            lines.append("```python")
        elif in_code and line and not is_code:
            lines.insert(len(lines) - 1, "```")
        in_code = is_code or (in_code and not line)
        lines.append(line.removeprefix("    "))
    if in_code:
        lines.append("```")
    return "\n".join(lines)


def _exit_codes() -> str:
    return f"{app.info.epilog}\n"


PAGES = {
    "reference-options.md": options_page,
    "reference-federation.md": federation_page,
    "reference-command-line.md": command_page,
    "reference-python.md": python_page,
    "results.md": results_page,
}


def main() -> int:
    """Write the pages, or check them."""
    stale = []
    written = {DOCS / name: page() for name, page in PAGES.items()}
    for path in sorted(DOCS.glob("explanation-method-*.md")):
        written[path] = with_measured_figures(path, RESULTS)

    for path, text in written.items():
        if "--check" not in sys.argv:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(path.name)
    for name in stale:
        sys.stderr.write(f"docs/{name} is not what the code says: run `make docs`\n")
    return bool(stale)


if __name__ == "__main__":
    sys.exit(main())
