"""Classes from people's own code, named as `mine.py:MyClass` or `package.module:MyClass`.

Importing code runs it, and the file that names it may come from a stranger. So nothing is imported
unless somebody has said yes to it: to all code for one command or call, see `trusting`, or once and
for all to a file with this content, see `trusted_code.py`. A file that has changed needs a new yes.
"""

import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from importlib.abc import SourceLoader
from pathlib import Path
from types import ModuleType
from typing import TypeAlias

from federico.errors import ConfigError, UntrustedCodeError
from federico.trusted_code import code_hash, is_remembered, remember

LARGEST_FILE = 1 << 24
"""Bytes of a file of code that are read at most."""


@dataclass(frozen=True)
class Trust:
    """Which code may run beside what its user has said yes to before."""

    everything: bool = False
    contents: frozenset[str] = frozenset()
    """Hashes of the files that may."""


Question: TypeAlias = Callable[[Path, str], bool]
"""Asks whether the code in this file, of this hash, may run."""

GIVEN = "python"
"""The place in a reference to what this process was given in Python, see `refer_to`."""
_given: dict[str, object] = {}

NOTHING = Trust()
EVERYTHING = Trust(everything=True)
_trusted: ContextVar[Trust] = ContextVar("trusted", default=NOTHING)
_question: ContextVar[Question | None] = ContextVar("question", default=None)


@contextmanager
def trusting(trust: Trust) -> Iterator[None]:
    """Let this code run in the block, beside what may run already."""
    before = _trusted.get()
    everything = before.everything or trust.everything
    both = Trust(everything, before.contents | trust.contents)
    token = _trusted.set(both)
    try:
        yield
    finally:
        _trusted.reset(token)


@contextmanager
def asking(question: Question) -> Iterator[None]:
    """In the block, ask before code runs that nobody has said yes to; a yes is remembered."""
    token = _question.set(question)
    try:
        yield
    finally:
        _question.reset(token)


def trust_if(yes: bool) -> Trust:
    """Trust in all code where a user has said yes, and in none where not."""
    return EVERYTHING if yes else NOTHING


def trust_now() -> Trust:
    """Which code may run at present, to be told to a process that works for this one."""
    return _trusted.get()


def settle(reference: str, option: str) -> None:
    """Ask about this code now if it will have to be asked about; nothing of it runs yet."""
    place, _, _ = reference.rpartition(":")
    if _question.get() is None or not place.endswith(".py"):
        return
    if not _may_run(_read(Path(place), reference, option)):
        raise _untrusted(reference, option)


def import_object(reference: str, option: str) -> object:
    """What has that name in that file or module; `option` is the one that refers to it.

    Code that nobody has said yes to is refused before it runs. The caller must check that it is the
    class it wants before calling it.
    """
    place, _, name = reference.rpartition(":")
    if place == GIVEN:
        if reference not in _given:
            raise ConfigError(
                f"{option}: {name} was given in Python and is in no file; give it again, with the "
                "function in the place of its name"
            )
        return _given[reference]

    code = None
    if place.endswith(".py"):
        code = _read(Path(place), reference, option)
    if not _may_run(code):
        raise _untrusted(reference, option)
    try:
        module = importlib.import_module(place) if code is None else _module_of(code)
        found: object = getattr(module, name)
    except Exception as error:  # whatever the user's file does when it is run
        raise ConfigError(f"{option}: {reference!r} cannot be imported: {error}") from error
    return found


def remember_own(file: Path) -> None:
    """Say yes to the code in this file, which was just written for the user."""
    remember(file, code_hash(file.read_bytes()))


def refer_to(value: object, name: str, digest: str) -> str:
    """A reference under which this process finds what it was given in Python.

    Another process knows it only if it was given the same. The digest stands for its content.
    """
    letters = re.sub(r"\W+", "", name)
    reference = f"{GIVEN}:{letters}_{digest}"
    _given[reference] = value
    return reference


def is_reference(text: str) -> bool:
    """Whether this names a class in somebody's own code rather than something built in."""
    return ":" in text


def absolute_reference(reference: str, folder: Path) -> str:
    """The same reference with the path of its file counted from `folder`.

    Modules stay as they are.
    """
    place, _, name = reference.rpartition(":")
    if not place.endswith(".py"):
        return reference
    return f"{(folder / place).resolve()}:{name}"


@dataclass(frozen=True)
class _Code:
    """A file of code, as it was when it was read."""

    path: Path
    content: bytes

    @property
    def digest(self) -> str:
        return code_hash(self.content)


class _FromContent(SourceLoader):
    """Runs the content that somebody has said yes to.

    What is in the file by now does not run, nor does bytecode that lies beside it.
    """

    def __init__(self, code: _Code) -> None:
        self._code = code

    def get_filename(self, fullname: str) -> str:
        """Where the code was read."""
        return str(self._code.path)

    def get_data(self, path: str | bytes) -> bytes:
        """The code, and nothing else that may lie there."""
        if path != str(self._code.path):
            raise OSError(f"{path!r} is not read")
        return self._code.content


def _read(path: Path, reference: str, option: str) -> _Code:
    """The code in this file, none of which has run."""
    refused = f"{option}: {reference!r} cannot be imported"
    try:
        if not path.is_file():
            raise ConfigError(
                f"{refused}: No such file: {path.absolute()}; "
                "paths start from the folder of the file that names them"
            )
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{refused}: {error}") from None
    if len(content) > LARGEST_FILE:
        raise ConfigError(f"{refused}: it is larger than {LARGEST_FILE} bytes")
    return _Code(path.resolve(), content)


def _untrusted(reference: str, option: str) -> UntrustedCodeError:
    return UntrustedCodeError(
        f"{option}: {reference!r} is Python code, and whoever wrote this file chose it; "
        "nothing of it was run. Read it, and if you trust it say so: --trust "
        "(in Python: trust=True). `federico run` asks at a terminal, and remembers the answer"
    )


def _may_run(code: _Code | None) -> bool:
    """Whether somebody has said yes to this code, or does so now; None is an installed module."""
    trust = _trusted.get()
    if trust.everything:
        return True
    if code is None:
        return False
    if code.digest in trust.contents or is_remembered(code.digest):
        return True

    question = _question.get()
    if question is None or not question(code.path, code.digest):
        return False
    remember(code.path, code.digest)
    # Where it could not be noted down, processes that work for this one are told.
    _trusted.set(replace(trust, contents=trust.contents | {code.digest}))
    return True


def _module_of(code: _Code) -> ModuleType:
    """Run the file as a module, once for as long as its content stays the same."""
    # A name of its own: a file named random.py must not take the place of random.
    digest = code_hash(bytes(code.path) + b"\0" + code.content)
    name = f"federico_own_{code.path.stem}_{digest[:16]}"
    if name in sys.modules:
        return sys.modules[name]

    loader = _FromContent(code)
    spec = importlib.util.spec_from_file_location(name, code.path, loader=loader)
    if spec is None:
        raise ImportError(f"{code.path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
