"""Classes from people's own code, named as `mine.py:MyClass` or `package.module:MyClass`.

Importing code runs it, and the file that names it may come from a stranger. So nothing is imported
unless somebody has said yes to it: to all code, or to the code in a folder, see `trusting`.
"""

import hashlib
import importlib
import importlib.util
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from federico.errors import ConfigError, UntrustedCodeError


@dataclass(frozen=True)
class Trust:
    """Which code may run: all of it, or what lies in these folders."""

    everything: bool = False
    folders: tuple[Path, ...] = ()

    def covers(self, place: str) -> bool:
        """Whether the code of this file or module may run; modules lie in no folder."""
        if self.everything:
            return True
        if not place.endswith(".py"):
            return False
        file = Path(place).resolve()
        return any(file.is_relative_to(folder.resolve()) for folder in self.folders)


GIVEN = "python"
"""The place in a reference to what this process was given in Python, see `refer_to`."""
_given: dict[str, object] = {}

NOTHING = Trust()
EVERYTHING = Trust(everything=True)
_trusted: ContextVar[Trust] = ContextVar("trusted", default=NOTHING)


@contextmanager
def trusting(trust: Trust) -> Iterator[None]:
    """Let this code run in the block, beside what may run already."""
    before = _trusted.get()
    both = Trust(before.everything or trust.everything, before.folders + trust.folders)
    token = _trusted.set(both)
    try:
        yield
    finally:
        _trusted.reset(token)


def trust_if(yes: bool) -> Trust:
    """Trust in all code where a user has said yes, and in none where not."""
    return EVERYTHING if yes else NOTHING


def trust_now() -> Trust:
    """Which code may run at present, to be told to a process that works for this one."""
    return _trusted.get()


def trust_for_file(file: Path, *, everything: bool = False) -> Trust:
    """What may run when somebody runs this experiment file of theirs: the code in its folder.

    A run directory holds such a file too, but is made to be passed on: naming it says nothing about
    the code in it.
    """
    folder = file.resolve().parent
    is_run_directory = (folder / "table.json").exists() or any(folder.glob("*/cell.json"))
    if everything or is_run_directory:
        return trust_if(everything)
    return Trust(folders=(folder,))


def import_object(reference: str, option: str) -> object:
    """What has that name in that file or module; `option` is the one that refers to it.

    Code that nobody has said yes to is refused before it is read. The caller must check that it is
    the class it wants before calling it.
    """
    place, _, name = reference.rpartition(":")
    if place == GIVEN:
        if reference not in _given:
            raise ConfigError(
                f"{option}: {name} was given in Python and is in no file; give it again, with the "
                "function in the place of its name"
            )
        return _given[reference]
    if not _trusted.get().covers(place):
        raise UntrustedCodeError(
            f"{option}: {reference!r} is Python code, and whoever wrote this file chose it; "
            "nothing of it was run. Read it, and if you trust it say so: --trust "
            "(in Python: trust=True)"
        )
    try:
        if place.endswith(".py"):
            module = _module_from_file(Path(place))
        else:
            module = importlib.import_module(place)
        found: object = getattr(module, name)
    except FileNotFoundError:
        raise ConfigError(
            f"{option}: {reference!r} cannot be imported: No such file: {Path(place).absolute()}; "
            "paths start from the folder of the file that names them"
        ) from None
    except Exception as error:  # whatever the user's file does when it is run
        raise ConfigError(f"{option}: {reference!r} cannot be imported: {error}") from error
    return found


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


def _module_from_file(path: Path) -> ModuleType:
    """Run the file as a module, once for as long as its content stays the same."""
    content = path.read_bytes()
    digest = hashlib.sha256(bytes(path.resolve()) + b"\0" + content).hexdigest()
    # A name of its own: a file named random.py must not take the place of random.
    name = f"federico_own_{path.stem}_{digest[:16]}"
    if name in sys.modules:
        return sys.modules[name]

    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
