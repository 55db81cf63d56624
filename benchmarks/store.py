"""Measurements on the disk: finished ones in `results`, those of a suite under way in a file that
outlives a stop.
"""

import hashlib
import json
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.ratios import Measurement

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
"""Where `python -m benchmarks...` finds the suite."""
RESULTS = HERE / "results"
SOURCES = ((HERE, "*.py"), (ROOT / "src", "**/*.py"), (ROOT / "experiments", "*.toml"))


def code_digest(sources: Sequence[tuple[Path, str]] = SOURCES) -> str:
    """Changes with every change of what is measured or how."""
    digest = hashlib.sha256()
    for folder, pattern in sources:
        for path in sorted(folder.glob(pattern)):
            digest.update(
                path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0"
            )
    return digest.hexdigest()


CACHE = HERE / "cache" / code_digest()[:12]
"""Warm runs, and the suite under way: of this code and no other."""


class Results:
    """One file per row: the machine, and all measurements whole, so that nothing has to be measured
    twice.
    """

    def __init__(self, folder: Path = RESULTS) -> None:
        self._folder = folder

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(path.stem for path in self._folder.glob("*.json")))

    def __contains__(self, row: str) -> bool:
        return self._path(row).exists()

    def measurements(self, row: str) -> list[Measurement]:
        """Of this row; none if it was never measured."""
        return list(self._read(row)["measurements"]) if row in self else []

    def machine(self, row: str) -> dict[str, str]:
        """Where this row was measured."""
        return dict(self._read(row)["machine"])

    def write(
        self, row: str, machine: Mapping[str, str], measurements: Sequence[Measurement]
    ) -> None:
        """Put these in the place of what was there."""
        self._folder.mkdir(exist_ok=True)
        content = {"row": row, "machine": machine, "measurements": measurements}
        self._path(row).write_text(json.dumps(_rounded(content), indent=1) + "\n", encoding="utf-8")

    def _read(self, row: str) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self._path(row).read_text(encoding="utf-8"))
        return content

    def _path(self, row: str) -> Path:
        return self._folder / f"{row}.json"


class Unfinished:
    """The measurements of a suite that is under way, a line each."""

    def __init__(self, folder: Path = CACHE) -> None:
        self._file = folder / "unfinished.jsonl"

    def add(self, row: str, measurement: Measurement) -> None:
        """Keep one more."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("a", encoding="utf-8") as file:
            file.write(_line(row, measurement))

    def measurements(self, row: str) -> list[Measurement]:
        """Those of this row so far."""
        return [measurement for name, measurement in self._lines() if name == row]

    def drop(self, rows: Collection[str]) -> None:
        """These rows are done."""
        kept = [_line(row, measurement) for row, measurement in self._lines() if row not in rows]
        if self._file.exists():
            self._file.write_text("".join(kept), encoding="utf-8")

    def _lines(self) -> list[tuple[str, Measurement]]:
        """Whole lines only: a stop may have cut the last one short."""
        text = self._file.read_text(encoding="utf-8") if self._file.exists() else ""
        lines = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
        return [(line["row"], line["measurement"]) for line in lines]


def drop_other_caches(kept: Path = CACHE) -> None:
    """What other code left cannot be used."""
    for folder in kept.parent.glob("*"):
        if folder != kept:
            shutil.rmtree(folder)


def _line(row: str, measurement: Measurement) -> str:
    return json.dumps({"row": row, "measurement": measurement}) + "\n"


def _rounded(value: Any) -> Any:
    """Six digits are more than any clock gives, and make small files."""
    if isinstance(value, Mapping):
        return {key: _rounded(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(inner) for inner in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value
