"""TOML files become frozen, validated options, or one error that lists all that is wrong."""

import difflib
import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from federico.bounded_files import read_bounded
from federico.errors import ConfigError
from federico.options import Options

T = TypeVar("T", bound=Options)

LARGEST_TABLES = 1 << 24
"""Bytes of a TOML file that are read at most."""

NO_LIST = ("tuple_type", "list_type")
"""What pydantic calls a value that is no list where one belongs."""


def read_tables(path: Path, what: str) -> dict[str, Any]:
    """The tables of a TOML file, not validated yet.

    `what` says which kind of file is expected; it appears in the error if there is none.
    """
    try:
        text = read_bounded(path, LARGEST_TABLES).decode()
        return tomllib.loads(text)
    except FileNotFoundError:
        raise ConfigError(f"{path.absolute()}: there is no such {what}") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except RecursionError:
        raise ConfigError(f"{path}: not a readable TOML file: nested too deeply") from None
    except ValueError as error:  # also of a number with thousands of digits
        raise ConfigError(f"{path}: not a readable TOML file: {error}") from error


def validated(kind: type[T], raw: Mapping[str, Any], where: str) -> T:
    """The options that these tables describe, or one `ConfigError` with a line for each fault.

    `where` is the file or argument that every line names first.
    """
    try:
        return kind.model_validate(raw)
    except ValidationError as error:
        faults = _each_once(error.errors())
        lines = [f"{where}: {_explain(kind, detail)}" for detail in faults]
        raise ConfigError("\n".join(lines)) from None


def nearest(word: str, words: Iterable[str]) -> str:
    """The word that was probably meant, as a question to append; empty if none is close."""
    near = difflib.get_close_matches(word, list(words), n=1, cutoff=0.5)
    if not near:
        return ""
    return f" (did you mean {near[0]!r}?)"


def _elsewhere(root: type[BaseModel], key: str, path: str) -> str:
    """The place of a key that belongs into another table, as a question to append."""
    places = list(dict.fromkeys(_places_of(root, key, "")))
    # With this very path the key belongs to another kind of the same table.
    if len(places) != 1 or places[0] == path:
        return ""
    return f" (did you mean {places[0]!r}?)"


def _places_of(table: type[BaseModel], key: str, prefix: str) -> Iterator[str]:
    """The dotted path of every key of this name in this table and those below it."""
    for name, field in table.model_fields.items():
        if name == key:
            yield prefix + name
        for part in _parts(field.annotation):
            if _is_table(part):
                yield from _places_of(part, key, f"{prefix}{name}.")


def _each_once(details: Sequence[ErrorDetails]) -> list[ErrorDetails]:
    """The same faults; where a word or a list may stand, what is neither is one fault, not two."""
    faults: list[ErrorDetails] = []
    for detail in details:
        before = faults[-1] if faults else None
        is_told = (
            detail["type"] in NO_LIST
            and before is not None
            and before["type"] == "literal_error"
            and before["loc"][:-1] == detail["loc"][:-1]
            and str(before["loc"][-1]).startswith("literal[")
        )
        if is_told and before is not None:
            faults[-1] = {**before, "msg": f"{before['msg']}, or a list"}
        else:
            faults.append(detail)
    return faults


def _explain(root: type[BaseModel], detail: ErrorDetails) -> str:
    """One line for one fault: the path of the key, its value, and what is allowed instead."""
    path, allowed = _locate(root, detail["loc"])
    listed = ", ".join(allowed)
    message = detail["msg"].removeprefix("Value error, ")

    if detail["type"] == "extra_forbidden":
        unknown = path.rpartition(".")[2]
        suggestion = nearest(unknown, allowed) or _elsewhere(root, unknown, path)
        return f"{path}: there is no such key{suggestion}; allowed: {listed}"

    # A fault of the options as a whole: its message names the keys itself.
    if not path:
        return message

    if detail["type"] == "union_tag_not_found":
        return f"{path}.kind: missing; allowed: {listed}"
    if detail["type"] == "union_tag_invalid":
        kind = detail["ctx"]["tag"]
        suggestion = nearest(kind, allowed)
        return f"{path}.kind = {kind!r}: there is no such kind{suggestion}; allowed: {listed}"
    if detail["type"] == "model_attributes_type":
        message = _as_table(path, detail["input"], allowed)
    if detail["type"] in ("model_type", "dict_type"):
        message = "must be a table"
    if detail["type"] == "literal_error":
        known = re.findall("'([^']+)'", detail["ctx"]["expected"])
        message += nearest(str(detail["input"]), known)
    if detail["type"] in NO_LIST:
        message = f"must be a list{_as_list(path, detail['input'])}"
    if detail["type"] == "missing":
        return f"{path}: {message}"
    return f"{path} = {detail['input']!r}: {message}"


def _as_table(path: str, value: object, kinds: Sequence[str]) -> str:
    """How to write the table of this kind, where somebody wrote its kind alone."""
    near = difflib.get_close_matches(str(value), kinds, n=1, cutoff=0.7)
    if not near:
        return f"must be a table with a kind; allowed: {', '.join(kinds)}"
    key = path.rpartition(".")[2]
    return f'must be a table; write {key} = {{ kind = "{near[0]}" }}'


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
