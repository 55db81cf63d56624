"""Whether two models are the same calculation, as far as can be told without their numbers."""

import ast
import hashlib
import inspect
import re
import sys
import sysconfig
import textwrap
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from torch import nn

INSTALLED = ("site-packages", "dist-packages")
"""Folders of installed packages."""
SHIPPED = (Path(sysconfig.get_path("stdlib")), Path(__file__).parents[1])
"""Python's own modules, and those of this package."""


def structure_of(module: nn.Module) -> str:
    """A hash of what a model prints, its tensors' names and shapes, and the code behind it."""
    printed = re.sub(r"0x[0-9a-f]+", "", str(module))  # addresses differ by process
    tensors: list[tuple[str, tuple[int, ...]]] = []
    for name, tensor in module.state_dict().items():
        tensors.append((name, tuple(tensor.shape)))

    content = f"{printed} {tensors} {_own_code(module)}"
    digest = hashlib.sha256(content.encode()).hexdigest()
    return digest[:16]


def digest_of(function: Callable[..., object]) -> str:
    """A hash of what a function does: its code, and what that refers to if a user wrote it."""
    if isinstance(function, nn.Module):
        return structure_of(function)
    reader = CodeReader()
    reader.read("function", function)
    return hashlib.sha256(str(sorted(reader.found)).encode()).hexdigest()[:16]


def _own_code(module: nn.Module) -> list[str]:
    """The code that a user wrote for this model, and which functions and constants it uses."""
    reader = CodeReader()
    for part in module.modules():
        reader.read_class(type(part))
        kind = type(part)
        for name, value in vars(part).items():
            is_hidden = name.startswith("_") or name == "training"
            is_setting = reader.is_own(kind) and not is_hidden
            if callable(value) or is_setting:
                reader.read(f"{kind.__name__}().{name}", value)
    return sorted(reader.found)


class CodeReader:
    """Collects the code that a user wrote, from wherever it is referred to, each piece once.

    Code of installed packages is not read, only named: a run should survive an upgrade. A function
    whose source cannot be found, as in some shells, counts by its name alone.
    """

    def __init__(self) -> None:
        self.found: set[str] = set()
        self._seen: set[int] = set()
        self._kept: list[object] = []
        """What was seen stays alive: the number of an object that is gone may be given away."""

    def is_own(self, value: type | FunctionType | ModuleType) -> bool:
        """Whether a user wrote this class, function or module."""
        file: object = None
        if isinstance(value, FunctionType):
            file = value.__code__.co_filename
        elif isinstance(value, ModuleType):
            file = getattr(value, "__file__", None)
        elif value.__module__ == "__main__":
            return True  # even if it was typed into a notebook
        elif value.__module__ in sys.modules:
            return self.is_own(sys.modules[value.__module__])
        if not isinstance(file, str):
            return False
        path = Path(file)
        is_installed = any(folder in path.parts for folder in INSTALLED)
        return not is_installed and not any(path.is_relative_to(folder) for folder in SHIPPED)

    def read_class(self, kind: type) -> None:
        """The code of a class and of all that it inherits from."""
        for each in kind.__mro__:
            if not (self._is_new(each) and self.is_own(each)):
                continue
            for name, member in vars(each).items():
                is_of_python = name.startswith("__") and not callable(member)
                if not is_of_python:
                    self.read(f"{each.__name__}.{name}", member)

    def read(self, name: str, value: object) -> None:
        """What this name stands for: code of one's own, the name of other code, or a constant."""
        if isinstance(value, FunctionType):
            self._read_function(name, value)
        elif isinstance(value, BuiltinFunctionType):
            self.found.add(f"{name} is {value.__name__}")
        elif isinstance(value, staticmethod | classmethod | MethodType):
            self.read(name, value.__func__)
        elif isinstance(value, property):
            for accessor in (value.fget, value.fset, value.fdel):
                self.read(name, accessor)
        elif isinstance(value, partial):
            self.read(name, value.func)
            for place, given in (*enumerate(value.args), *value.keywords.items()):
                self.read(f"{name}({place})", given)
        elif isinstance(value, nn.Module):
            pass  # one of the model's parts
        elif isinstance(value, type):
            self.found.add(f"{name} is {value.__name__}")
            self.read_class(value)
        elif _is_constant(value):
            self.found.add(f"{name} is {value!r}")
        elif callable(value):
            self.read(name, type(value))

    def _read_function(self, name: str, function: FunctionType) -> None:
        """A function, and what it refers to if a user wrote it."""
        self.found.add(f"{name} is {function.__name__}")
        if not self.is_own(function) or not self._is_new(function):
            return
        self.found.add(f"{function.__qualname__}: {_source(function)}")
        for cell_name, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        ):
            try:
                self.read(cell_name, cell.cell_contents)
            except ValueError:  # not set yet
                continue
        self._read_names(set(_names_in(function.__code__)), [function.__globals__])

    def _read_names(self, names: set[str], within: list[dict[str, Any]]) -> None:
        """What these names stand for in the last of some modules, and in those that it refers to.

        The others are on the way there: two modules may refer to each other.
        """
        last = within[-1]
        for name in sorted(names & last.keys()):
            value = last[name]
            if not isinstance(value, ModuleType):
                self.read(name, value)
                continue

            inside = vars(value)
            is_on_the_way = any(inside is each for each in within)
            if self.is_own(value) and not is_on_the_way:
                self._read_names(names, [*within, inside])

    def _is_new(self, value: object) -> bool:
        if id(value) in self._seen:
            return False
        self._seen.add(id(value))
        self._kept.append(value)
        return True


def _is_constant(value: object) -> bool:
    """Whether it is a plain value that cannot change, or a tuple of such values."""
    if isinstance(value, tuple):
        return all(map(_is_constant, value))
    return value is None or isinstance(value, bool | int | float | complex | str | bytes)


def _names_in(code: CodeType) -> Iterator[str]:
    """All names that a function and those written inside it refer to, attributes included."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)


def _source(function: FunctionType) -> str:
    """What a function does, as Python reads it: without comments and layout."""
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except OSError:
        return ""
    try:
        return ast.dump(ast.parse(source))
    except SyntaxError:  # a piece of an expression, as the source of a lambda may be
        return source
