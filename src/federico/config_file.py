"""TOML files become frozen, validated options, or one error that lists all that is wrong."""

import difflib
import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from federico.errors import ConfigError
from federico.options import Options

T = TypeVar("T", bound=Options)


def read_tables(path: Path, what: str) -> dict[str, Any]:
    """The tables of a TOML file, not validated yet.

    `what` says which kind of file is expected; it appears in the error if there is none.
    """
    try:
        text = path.read_text(encoding="utf-8")
        return tomllib.loads(text)
    except FileNotFoundError:
        raise ConfigError(f"{path.absolute()}: there is no such {what}") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: not a readable TOML file: {error}") from error


def validated(kind: type[T], raw: Mapping[str, Any], where: str) -> T:
    """The options that these tables describe, or one `ConfigError` with a line for each fault.

    `where` is the file or argument that every line names first.
    """
    try:
        return kind.model_validate(raw)
    except ValidationError as error:
        lines = [f"{where}: {_explain(kind, detail)}" for detail in error.errors()]
        raise ConfigError("\n".join(lines)) from None


def nearest(word: str, words: Iterable[str]) -> str:
    """The word that was probably meant, as a question to append; empty if none is close."""
    near = difflib.get_close_matches(word, list(words), n=1, cutoff=0.5)
    if not near:
        return ""
    return f" (did you mean {near[0]!r}?)"


def _explain(root: type[BaseModel], detail: ErrorDetails) -> str:
    """One line for one fault: the path of the key, its value, and what is allowed instead."""
    path, allowed = _locate(root, detail["loc"])
    listed = ", ".join(allowed)
    message = detail["msg"].removeprefix("Value error, ")

    if detail["type"] == "extra_forbidden":
        unknown = path.rpartition(".")[2]
        return f"{path}: there is no such key{nearest(unknown, allowed)}; allowed: {listed}"

    # A fault of the options as a whole: its message names the keys itself.
    if not path:
        return message

    if detail["type"] == "union_tag_not_found":
        return f"{path}.kind: missing; allowed: {listed}"
    if detail["type"] == "union_tag_invalid":
        kind = detail["ctx"]["tag"]
        suggestion = nearest(kind, allowed)
        return f"{path}.kind = {kind!r}: there is no such kind{suggestion}; allowed: {listed}"
    if detail["type"] in ("tuple_type", "list_type"):
        message = f"must be a list{_as_list(path, detail['input'])}"
    if detail["type"] == "missing":
        return f"{path}: {message}"
    return f"{path} = {detail['input']!r}: {message}"


def _as_list(path: str, value: object) -> str:
    """How to write a list with this one entry; nothing where that is not what was meant."""
    if not isinstance(value, str | int | float):
        return ""
    key = path.rpartition(".")[2]
    return f"; write {key} = [{json.dumps(value)}]"  # JSON and TOML write these in the same way


def _locate(root: type[BaseModel], location: tuple[int | str, ...]) -> tuple[str, list[str]]:
    """The dotted path that a user would write, and the keys (or kinds) allowed at its end.

    pydantic's location also holds the `kind` of a table and the names of types that were tried.
    Those are no keys of the file, so they are left out of the path.
    """
    keys: list[str] = []
    table: type[BaseModel] | None = root
    allowed = list(root.model_fields)
    table_of_kind: dict[str, type[BaseModel]] = {}

    for part in location:
        if isinstance(part, int):
            # An entry of a list: all entries are tables of the same type.
            keys.append(str(part))
        elif part in table_of_kind:
            table = table_of_kind[part]
            table_of_kind = {}
            allowed = list(table.model_fields)
        elif table is not None:
            keys.append(part)
            allowed = list(table.model_fields)
            field = table.model_fields.get(part)
            table, table_of_kind = _tables_in(field)

    if table_of_kind:
        allowed = list(table_of_kind)
    return ".".join(keys), allowed


def _tables_in(
    field: FieldInfo | None,
) -> tuple[type[BaseModel] | None, dict[str, type[BaseModel]]]:
    """What a field holds: one type of table, or several told apart by their `kind`."""
    if field is None:
        return None, {}
    tables = [part for part in _parts(field.annotation) if _is_table(part)]
    if not tables:
        return None, {}
    if isinstance(field.annotation, type) or "kind" not in tables[0].model_fields:
        return tables[0], {}

    table_of_kind = {}
    for table in tables:
        kind = get_args(table.model_fields["kind"].annotation)[0]
        table_of_kind[kind] = table
    return None, table_of_kind


def _is_table(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _parts(annotation: Any) -> Iterator[Any]:
    """A type and all types it is made of: the members of a union, the entries of a list."""
    yield annotation
    for part in get_args(annotation):
        yield from _parts(part)
