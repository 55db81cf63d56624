"""The benchmark suite: every measurement in a fresh process, the rows in turn, so that a bad minute
meets all of them.

A suite that was stopped resumes when it is started again, as long as the code is the same.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence

from rich.console import Console

from benchmarks import page, tables
from benchmarks.check import verdicts
from benchmarks.machine import facts
from benchmarks.measure import MISSING
from benchmarks.ratios import Measurement
from benchmarks.rows import ROWS
from benchmarks.store import ROOT, Results, Unfinished, drop_other_caches

ENOUGH = 5
console = Console(width=160, highlight=False)


class Suite:
    """Some rows, measured so many times each."""

    def __init__(self, rows: Sequence[str], repeats: int) -> None:
        self._rows, self._repeats, self._unfinished = rows, repeats, Unfinished()

    def run(self) -> dict[str, list[Measurement]]:
        """Measure what is missing; rows whose data is not there are left out."""
        able = [
            row
            for row in self._rows
            if self._left(row) == 0 or self._start(row, "--prepare") is not None
        ]
        for turn in range(self._repeats, 0, -1):
            for row in able:
                if self._left(row) >= turn:
                    self._measure(row, turn)
        return {row: self._unfinished.measurements(row) for row in able}

    def done(self) -> None:
        """All is stored or compared."""
        self._unfinished.drop(self._rows)

    def _left(self, row: str) -> int:
        wanted = min(self._repeats, ROWS[row].repeats or self._repeats)
        return wanted - len(self._unfinished.measurements(row))

    def _measure(self, row: str, turn: int) -> None:
        console.print(f"{row}: {turn} to go")
        output = self._start(row)
        assert output is not None, "what a row needs was there when it was prepared"
        self._unfinished.add(row, json.loads(output.splitlines()[-1]))

    def _start(self, row: str, *options: str) -> str | None:
        """What a fresh process prints; None if something it needs is missing."""
        command = [sys.executable, "-m", "benchmarks.measure", row, *options]
        environment = {"OMP_WAIT_POLICY": "passive", **os.environ}  # as the command line sets it
        process = subprocess.run(
            command, check=False, capture_output=True, text=True, cwd=ROOT, env=environment
        )
        if process.returncode in {error.exit_code for error in MISSING}:
            console.print(f"{row}: left out: {process.stderr.strip()}")
            return None
        if process.returncode:
            raise SystemExit(f"{row}: could not be measured\n{process.stderr}")
        return process.stdout


def compare(measured: dict[str, list[Measurement]]) -> int:
    """Say how the measured rows stand against the stored ones; 1 if any is worse."""
    stored, bad = Results(), 0
    for row, measurements in measured.items():
        if row not in stored:
            console.print(f"{row}: nothing stored to compare with; `make bench` stores it")
            continue
        for verdict in verdicts(row, ROWS[row].ratios, stored.measurements(row), measurements):
            console.print(str(verdict))
            bad += verdict.regression
    console.print(f"{bad} regressions")
    return int(bad > 0)


def write(measured: dict[str, list[Measurement]]) -> None:
    """Store the measurements and make the page of all that is stored."""
    results = Results()
    for row, measurements in measured.items():
        results.write(row, facts(), measurements)
    page.write()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help="all if none is named")
    parser.add_argument(
        "--repeats",
        type=int,
        default=ENOUGH,
        help=f"fresh processes per row, {ENOUGH} if not given",
    )
    parser.add_argument("--list", action="store_true", help="list the rows and measure nothing")
    end = parser.add_mutually_exclusive_group()
    end.add_argument(
        "--write", action="store_true", help="store the measurements and write the page"
    )
    end.add_argument(
        "--check",
        action="store_true",
        help="compare with what is stored; exit code 1 on a regression",
    )
    arguments = parser.parse_args()
    if unknown := set(arguments.rows) - ROWS.keys():
        parser.error(f"there is no row {', '.join(sorted(unknown))}; there are {', '.join(ROWS)}")
    if arguments.list:
        console.print("\n".join(f"{row.name:18}{row.title}" for row in ROWS.values()))
        return 0
    drop_other_caches()
    suite = Suite(arguments.rows or list(ROWS), arguments.repeats)
    measured = suite.run()
    for table in tables.of(measured):
        console.print(table.rich())
    status = compare(measured) if arguments.check else 0
    if arguments.write:
        write(measured)
    suite.done()
    return status


if __name__ == "__main__":
    sys.exit(main())
