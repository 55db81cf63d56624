"""`results/<name>.json`: a result with all that says where it comes from; its figures lie beside it.

A result may grow over days and machines: what is saved is added to what was saved before.
"""

import fcntl
import json
import os
import platform
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from federico.compare.result import Result
from federico.errors import DataError
from federico.runs.atomic import disk_errors, publish_bytes, publish_text

DECIMALS = 6
LOCK = ".lock"
OWN_FIGURE = "figure"
"""The paper's figure: all others can be drawn from the result alone, this one needs the runs."""


@dataclass(frozen=True)
class Save:
    """One command, with what and where it was run."""

    command: str
    commit: str
    """Of the code that saved; with `-dirty` if it had changes, empty if it was not a checkout."""
    seconds: float
    """Of all its runs together, tuning included."""
    machine: str
    versions: dict[str, str]


@dataclass(frozen=True)
class Saved:
    """What came out, and the commands it comes from: every entry names its own by its place in `saves`."""

    __pydantic_config__ = ConfigDict(ser_json_inf_nan="strings")

    saves: list[Save]
    figures: list[str]
    """Files beside this one."""
    result: Result


SAVED = TypeAdapter(Saved)


def file_of(study: str, target: Path) -> Path:
    """Where the result of the study of that name is kept."""
    return target / f"{study}.json"


def this_save(command: str, seconds: float) -> Save:
    """Here and now."""
    return Save(
        command=command,
        commit=_commit(),
        seconds=seconds,
        machine=f"{platform.machine()}, {os.cpu_count()} cores",
        versions={name: version(name) for name in ("federico", "torch", "numpy")}
        | {"python": platform.python_version()},
    )


@contextmanager
def saving(target: Path) -> Iterator[None]:
    """Keep other commands from saving below `target`, or wait for the one that does.

    What is read to be added to must still be what is there when the sum is written.
    """
    with disk_errors(target):
        target.mkdir(parents=True, exist_ok=True)
        file = (target / LOCK).open("w")
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def write_saved(
    saves: Sequence[Save],
    result: Result,
    images: Mapping[str, bytes],
    target: Path,
    before: Sequence[str] = (),
) -> Path:
    """Write the result and its figures below `target`; the paper's stays as it was `before` if it was not drawn now."""
    files = {f"{result.name}-{name}.png": png for name, png in images.items()}
    own = f"{result.name}-{OWN_FIGURE}.png"
    kept = [own] if own in before and own not in files else []
    with disk_errors(target):
        target.mkdir(parents=True, exist_ok=True)
    for name, png in files.items():
        publish_bytes(target / name, png)
    file = file_of(result.name, target)
    publish_text(file, to_json(Saved(list(saves), [*kept, *files], result)))
    return file


def read_saved(path: Path) -> Saved:
    """What `write_saved` has written."""
    try:
        return SAVED.validate_json(path.read_bytes())
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        raise DataError(
            f"{path}: not a saved result: {'.'.join(map(str, first['loc']))}: {first['msg']}; "
            "move it away to start a new one"
        ) from None


def rounded(result: Result) -> Result:
    """As it will be read again."""
    return SAVED.validate_json(to_json(Saved([], [], result))).result


def to_json(kept: Saved) -> str:
    """Numbers with a few decimals, lists of them on one line."""
    text = json.dumps(
        _short(json.loads(SAVED.dump_json(kept))), indent=1, allow_nan=False, ensure_ascii=False
    )
    return (
        re.sub(r"\[\s+([^\[\]{}]*?)\s+\]", lambda found: f"[{' '.join(found[1].split())}]", text)
        + "\n"
    )


def _short(value: Any) -> Any:
    """Measured numbers rounded; a learning rate is a setting, and with other digits it would be another one."""
    if isinstance(value, dict):
        return {key: part if key == "rate" else _short(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_short(part) for part in value]
    return round(value, DECIMALS) if isinstance(value, float) else value


def _commit() -> str:
    """Of the checkout this package is part of; a package installed into another project's folder has none."""
    here = Path(__file__)

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", *words], cwd=here.parent, capture_output=True, check=True, text=True
        ).stdout

    try:
        git("ls-files", "--error-unmatch", here.name)
        head = git("describe", "--always", "--exclude=*").strip()
        changed = git(
            "status", "--porcelain", "--", ".."
        )  # of the package: results may have been added
    except (OSError, subprocess.CalledProcessError):
        return ""
    return f"{head}-dirty" if changed else head
