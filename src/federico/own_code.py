"""Classes from people's own code, named as `mine.py:MyClass` or `package.module:MyClass`."""

import hashlib
import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from federico.errors import ConfigError


def import_object(reference: str, option: str) -> object:
    """What has that name in that file or module; `option` is the one that refers to it.

    The caller must check that it is the class it wants before calling it: using whatever a file
    names would let a run directory from elsewhere execute anything.
    """
    place, _, name = reference.rpartition(":")
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
