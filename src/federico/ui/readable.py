"""What can be read of files that may be broken, half written or hostile; what to do otherwise."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from federico.errors import FedericoError, RunError
from federico.ui.rounds import NoRoundYetError

UNREADABLE = (
    FedericoError,
    OSError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)
"""What reading files may raise that do not hold what federico writes."""
ADVICE = (
    "If it is being written now, wait a moment. Otherwise bring the file back from a copy, or "
    "delete the folder and run the experiment again."
)
T = TypeVar("T")


class UnreadableError(Exception):
    """Something cannot be shown; the text says why, and `advice` what to do."""

    def __init__(self, text: str, advice: str) -> None:
        super().__init__(text)
        self.advice = advice


def readable(path: Path, read: Callable[[], T]) -> T:
    """What was read in this folder; a broken or half-written run says what is wrong with it."""
    try:
        return read()
    except NoRoundYetError as error:
        raise UnreadableError(str(error), "") from error
    except UNREADABLE as error:
        raise UnreadableError(fault(path, error), ADVICE) from error


def fault(path: Path, error: Exception) -> str:
    """What is wrong in this folder, with the names of files in it instead of whole paths."""
    if isinstance(error, FedericoError | OSError):
        return str(error).replace(f"{path}/", "")
    return f"its files are damaged ({type(error).__name__}: {error})"


def as_json(value: Any) -> bytes:
    """The value as the page gets it; what JSON does not know, such as NaN, is an error."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode("ascii")


def refuse_links(folder: Path, files: list[Path]) -> None:
    """Nothing is read that lies outside of the folder, whatever leads there."""
    home = folder.resolve()
    for file in files:
        if not file.resolve().is_relative_to(home):
            raise RunError(
                f"{file}: leads out of the folder that is shown, and is not followed; "
                "copy it here, or delete it"
            )
