"""The methods by name: the built-in ones, imported when they are asked for, and people's own."""

import hashlib
import importlib
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from federico.errors import ConfigError
from federico.options import Options
from federico.own_code import GIVEN, import_object, is_reference

if TYPE_CHECKING:
    from federico.methods.method import Method

BUILT_IN = {
    "federico": "Federico",
    "local": "Local",
    "fedavg": "FedAvg",
    "fedavg_plus": "FedAvgPlus",
    "clustered": "Clustered",
    "fedem": "FedEM",
    "fedfomo": "FedFomo",
    "ditto": "Ditto",
    "fedper": "FedPer",
    "ifca": "Ifca",
}
"""The class of each built-in method; its module is called like the method."""

NAME = re.compile(r"[a-z][a-z0-9_]*")
"""What a method may be called: the name is a table of an experiment file and part of a folder's."""


class BuiltInMethods(Mapping[str, "type[Method]"]):
    """The built-in methods. Their names cost nothing; a class is imported when it is looked up."""

    def __getitem__(self, name: str) -> "type[Method]":
        class_name = BUILT_IN[name]
        module = importlib.import_module(f"federico.methods.{name}")
        method: type[Method] = getattr(module, class_name)
        return method

    def __iter__(self) -> Iterator[str]:
        return iter(BUILT_IN)

    def __len__(self) -> int:
        return len(BUILT_IN)


METHODS = BuiltInMethods()


@dataclass(frozen=True)
class OwnMethod:
    """A method that somebody wrote in code of their own."""

    method: "type[Method]"
    reference: str
    """How an experiment file names it: `/path/mine.py:MyMethod` or `package.module:MyMethod`."""
    source: str
    """The name of its file and a hash of the content: another content may mean other numbers."""


def find_own_methods(entries: Sequence[object]) -> dict[str, OwnMethod]:
    """Those of the listed methods that are not built in, by name; entries are names or classes.

    A name that is neither built in nor the name of a class in a file is left to the caller.
    """
    found: dict[str, OwnMethod] = {}
    for entry in entries:
        own = _own_method(entry)
        if own is None:
            continue
        name = own.method.name
        if name in found and found[name] != own:
            raise ConfigError(
                f"methods: {found[name].reference!r} and {own.reference!r} are both called "
                f"{name!r}; give one of them another `name`"
            )
        found[name] = own
    return found


def load_own_method(reference: str) -> OwnMethod:
    """The method that this reference names, checked."""
    place, colon, class_name = reference.rpartition(":")
    if not colon:
        raise ConfigError(f"methods: {reference!r}: write it as file.py:Class")
    if place == GIVEN:
        raise ConfigError(
            f"methods: {class_name} was given as a Python class that is in no file; "
            f"pass it again: federico.run(..., methods=[{class_name}])"
        )
    from federico.methods.method import Method

    found = import_object(reference, "methods")
    if not (isinstance(found, type) and issubclass(found, Method)):
        raise ConfigError(
            f"methods: {reference!r} is not a class derived from federico.methods.method.Method"
        )
    _check(found, reference)
    return OwnMethod(found, reference, _source(found))


def _own_method(entry: object) -> OwnMethod | None:
    """The own method that an entry of `methods` means; None for whatever is not one's own."""
    from federico.methods.method import Method

    if isinstance(entry, str) and is_reference(entry):
        return load_own_method(entry)
    if not (isinstance(entry, type) and issubclass(entry, Method)):
        return None

    _check(entry, entry.__qualname__)
    return OwnMethod(entry, _reference(entry), _source(entry))


def _check(method: "type[Method]", reference: str) -> None:
    """Refuse a class that is not a whole method, or whose name is taken."""
    missing = [what for what in ("name", "title", "summary") if not hasattr(method, what)]
    missing += sorted(method.__abstractmethods__)
    if missing:
        raise ConfigError(f"methods: {reference!r} does not define {', '.join(missing)}")

    name = method.name
    if not NAME.fullmatch(name):
        raise ConfigError(
            f"methods: {reference!r} is called {name!r}; "
            "a name has small letters, digits and underscores only, and begins with a letter"
        )
    if name in METHODS:
        raise ConfigError(
            f"methods: {reference!r} is called {name!r} like a built-in method; "
            "give it another `name`"
        )
    _check_options(method, reference)


def _check_options(method: "type[Method]", reference: str) -> None:
    """Options must be a table in which every key may be left out."""
    if not issubclass(method.options, Options):
        raise ConfigError(
            f"methods: the options of {reference!r} are not derived from federico.options.Options"
        )
    fields = method.options.model_fields
    required = [key for key, field in fields.items() if field.is_required()]
    if required:
        raise ConfigError(
            f"methods: options of {reference!r} have no default: {', '.join(required)}"
        )


def _reference(method: "type[Method]") -> str:
    """How an experiment file would name this class."""
    module = inspect.getmodule(method)
    package = getattr(module, "__package__", None)
    local = "." in method.__qualname__
    file = _file(method)
    if local or file is None:
        return f"{GIVEN}:{method.__name__}"
    if package:
        return f"{method.__module__}:{method.__name__}"
    return f"{file.resolve()}:{method.__name__}"


def _source(method: "type[Method]") -> str:
    """The name of the class's file and a hash of its content; nothing where there is no file."""
    file = _file(method)
    if file is None:
        return ""
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    return f"{file.name} {digest[:16]}"


def _file(method: "type[Method]") -> Path | None:
    try:
        file = inspect.getsourcefile(method)
    except (OSError, TypeError):
        return None
    return Path(file) if file is not None and Path(file).is_file() else None
