"""TOML files in, frozen and validated options out, or every error at once."""

import difflib
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
    """The tables of a file, not validated yet; `what` says which kind of file it should be."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such {what}") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: not a readable TOML file: {error}") from error


def validated(kind: type[T], raw: Mapping[str, Any], where: str) -> T:
    """The options these tables describe; all that is wrong with them is said in one error."""
    try:
        return kind.model_validate(raw)
    except ValidationError as error:
        lines = [_explain(kind, detail) for detail in error.errors()]
        raise ConfigError("\n".join(f"{where}: {line}" for line in lines)) from None


def _explain(root: type[BaseModel], detail: ErrorDetails) -> str:
    """One line: the key's path, its value, what is allowed, and the nearest valid key."""
    path, fields = _walk(root, detail["loc"])
    if detail["type"] == "extra_forbidden":
        return f"{path}: there is no such key{nearest(path.rpartition('.')[2], fields)}; allowed: {', '.join(fields)}"
    message = detail["msg"].removeprefix("Value error, ")
    if not path:
        return message
    if detail["type"] == "union_tag_not_found":
        return f"{path}.kind: missing; allowed: {', '.join(fields)}"
    if detail["type"] == "union_tag_invalid":
        tag = detail["ctx"]["tag"]
        return f"{path}.kind = {tag!r}: there is no such kind{nearest(tag, fields)}; allowed: {', '.join(fields)}"
    if detail["type"] == "missing":
        return f"{path}: {message}"
    return f"{path} = {detail['input']!r}: {message}"


def _walk(root: type[BaseModel], location: tuple[int | str, ...]) -> tuple[str, list[str]]:
    """The dotted path a user would write for this location, and the keys (or kinds) allowed there."""
    keys: list[str] = []
    table: type[BaseModel] | None = root
    fields = list(root.model_fields)
    tags: dict[str, type[BaseModel]] = {}
    for part in location:
        if isinstance(part, str) and part in tags:
            table, tags = tags[part], {}
            fields = list(table.model_fields)
            continue
        if isinstance(part, str) and table is None:
            continue  # pydantic's own name for one of several types a value may have
        keys.append(str(part))
        if isinstance(part, int):
            continue  # one of a list: the table is that of all of them
        field = table.model_fields.get(part) if table else None
        if table is not None:
            fields = list(table.model_fields)
        table, tags = _inside(field)
    return ".".join(keys), list(tags) or fields


def _inside(field: FieldInfo | None) -> tuple[type[BaseModel] | None, dict[str, type[BaseModel]]]:
    """What a field holds: one table, or one of several told apart by their kind."""
    if field is None:
        return None, {}
    if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
        return field.annotation, {}
    kinds = [
        kind
        for kind in _parts(field.annotation)
        if isinstance(kind, type) and issubclass(kind, BaseModel)
    ]
    if kinds and "kind" not in kinds[0].model_fields:
        return kinds[0], {}
    return None, {get_args(kind.model_fields["kind"].annotation)[0]: kind for kind in kinds}


def _parts(annotation: Any) -> Iterator[Any]:
    """What a type is made of, however deep: the tables of an optional union, the entries of a list."""
    yield annotation
    for part in get_args(annotation):
        yield from _parts(part)


def nearest(word: str, words: Iterable[str]) -> str:
    """The one of the words that was probably meant, as a question; nothing if none is near."""
    near = difflib.get_close_matches(word, list(words), n=1, cutoff=0.5)
    return f" (did you mean {near[0]!r}?)" if near else ""
