"""Whether two models are the same calculation, as far as can be told without their numbers."""

import ast
import hashlib
import inspect
import re
import textwrap
from pathlib import Path
from types import FunctionType

from torch import nn

INSTALLED = "site-packages"
"""The folder of installed packages."""


def structure_of(module: nn.Module) -> str:
    """A hash of what a model prints, its tensors' names and shapes, and the code of its classes."""
    printed = re.sub(r"0x[0-9a-f]+", "", str(module))  # addresses differ by process
    tensors = [(name, tuple(tensor.shape)) for name, tensor in module.state_dict().items()]
    content = f"{printed} {tensors} {_own_code(module)}"
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def _own_code(module: nn.Module) -> list[str]:
    """The code of the classes that a user wrote for this model, without comments and layout.

    Classes of installed packages are left out: a run should survive an upgrade. A function whose
    source cannot be found, as in some shells, is left out as well.
    """
    code = []
    for kind in {type(part) for part in module.modules()}:
        for name, member in vars(kind).items():
            if isinstance(member, FunctionType) and not _is_installed(member):
                code.append(f"{kind.__name__}.{name}: {_source(member)}")
    return sorted(code)


def _is_installed(function: FunctionType) -> bool:
    return INSTALLED in Path(function.__code__.co_filename).parts


def _source(function: FunctionType) -> str:
    """What a function does, as Python reads it; empty where its source cannot be found."""
    try:
        source = textwrap.dedent(inspect.getsource(function))
        return ast.dump(ast.parse(source))
    except (OSError, SyntaxError):
        return ""
