"""`results/<name>.json`: a result with all that says where it comes from; its figures lie beside it."""

import json
import os
import platform
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from pydantic import ConfigDict, TypeAdapter, ValidationError

from federico.compare.result import Result
from federico.compare.run import best_cells, first_cells
from federico.compare.study import Study
from federico.compare.studydir import StudyDir
from federico.errors import DataError
from federico.experiment.files import disk_errors, publish_bytes, publish_text

DECIMALS = 6


@dataclass(frozen=True)
class Saved:
    """What was run, with what, where, and what came out."""

    __pydantic_config__ = ConfigDict(ser_json_inf_nan="strings")

    command: str
    commit: str
    """Of the code; with `-dirty` if it had changes, empty if it was not a checkout."""
    seconds: float
    """Of all runs together, tuning included."""
    machine: str
    versions: dict[str, str]
    figures: list[str]
    """Files beside this one."""
    result: Result


SAVED = TypeAdapter(Saved)


def save(
    study: Study, folder: StudyDir, result: Result, images: Mapping[str, bytes], command: str, target: Path
) -> Path:
    """Write the result and its figures below `target`."""
    files = {f"{study.name}-{name}.png": png for name, png in images.items()}
    kept = Saved(
        command=command,
        commit=_commit(),
        seconds=_seconds(study, folder),
        machine=f"{platform.machine()}, {os.cpu_count()} cores",
        versions={name: version(name) for name in ("federico", "torch", "numpy")}
        | {"python": platform.python_version()},
        figures=list(files),
        result=result,
    )
    with disk_errors(target):
        target.mkdir(parents=True, exist_ok=True)
    for name, png in files.items():
        publish_bytes(target / name, png)
    publish_text(target / f"{study.name}.json", to_json(kept))
    return target / f"{study.name}.json"


def read_saved(path: Path) -> Saved:
    """What `save` has written."""
    try:
        return SAVED.validate_json(path.read_bytes())
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        raise DataError(f"{path}: not a saved result: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def to_json(kept: Saved) -> str:
    """Numbers with a few decimals, lists of them on one line."""
    plain = json.loads(SAVED.dump_json(kept), parse_float=lambda text: round(float(text), DECIMALS))
    text = json.dumps(plain, indent=1, allow_nan=False, ensure_ascii=False)
    return re.sub(r"\[\s+([^\[\]{}]*?)\s+\]", lambda found: f"[{' '.join(found[1].split())}]", text) + "\n"


def _seconds(study: Study, folder: StudyDir) -> float:
    cells = {cell.name: cell for cell in [*first_cells(study), *best_cells(study, folder)]}
    return sum(sum(spent.seconds.values()) for cell in cells.values() for spent in folder.cell(cell).spent)


def _commit() -> str:
    """Of the checkout this package is part of; a package installed into another project's folder has none."""
    here = Path(__file__)
    try:
        subprocess.run(
            ["git", "ls-files", "--error-unmatch", here.name], cwd=here.parent, capture_output=True, check=True
        )
        found = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--exclude=*"],
            cwd=here.parent, capture_output=True, check=True, text=True,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return ""
    return found.stdout.strip()
