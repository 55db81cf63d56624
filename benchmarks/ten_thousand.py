"""Ten thousand clients, a linear model, a hundred rounds to the end, and the report of it.

Usage: python -m benchmarks.ten_thousand [--clients K] [--rounds N] [--folder FOLDER] [--store]
       python -m benchmarks.ten_thousand --folder FOLDER --report-only

FedeRiCo has its default settings, unless `--strangers cautious` is asked for. The run and its
report have a process each. Seconds are those of the processor, so that other work on the machine
hardly counts; those by the clock are stored beside them. With `--store` the figures are written to
benchmarks/results/ten-thousand.json. The run stays in FOLDER if one is given; an interrupted one is
not resumed but started over.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.machine import facts, peak_memory
from benchmarks.store import ROOT, Results
from benchmarks.tables import Table
from benchmarks.workloads import EXPERIMENTS
from federico.api.progress import Quiet
from federico.experiment.config import load
from federico.experiment.runner import simulate
from federico.runs.layout import CellDir
from federico.runs.records import RECORDS, Record

ROW = "ten-thousand"
CLIENTS = 10_000
ROUNDS = 100
GOALS = {
    "start": 3.0,
    "final_save": 3.0,
    "record_bytes": 100e6,
    "report": 5.0,
    "report_peak": 500e6,
}
"""What each figure may be at most, in seconds and bytes."""

FIGURES = {
    "start": "seconds before the first round",
    "final_save": "seconds after the last round, to save everything",
    "record_bytes": "records of all rounds",
    "report": "seconds for the report",
    "report_peak": "peak memory of the report",
    "round_median": "seconds for a round",
    "run_peak": "peak memory of the run",
    "report_page": "size of report.html",
}
"""What is shown in the documentation, in this order: title by figure."""
BY_CLOCK = {
    "start": "start_wall",
    "final_save": "final_save_wall",
    "report": "report_wall",
    "round_median": "round_median_wall",
}
"""Where the same seconds are by the clock."""

REPORT = """
import atexit
from pathlib import Path
from federico.cli.main import main

def say_peak() -> None:
    # The accounts of the system count what the process was before it became this program, too.
    status = Path("/proc/self/status").read_text()
    print(status.partition("VmHWM:")[2].split()[0])

atexit.register(say_peak)
main()
"""
"""The command line, and the kilobytes that its process has held at most as the last word."""


@dataclass(frozen=True)
class Moment:
    """The two clocks, read at the same time."""

    wall: float
    processor: float

    @classmethod
    def now(cls) -> "Moment":
        """As they are now; the processor's seconds are those of all threads of this process."""
        return cls(time.perf_counter(), time.process_time())


class Watch(Quiet):
    """Notes when the first round begins and when each has ended."""

    def __init__(self) -> None:
        self.begun: Moment | None = None
        self.rounds: list[Moment] = []

    def cell_started(self, cell: CellDir, rounds_before: int) -> None:
        """All is checked and in its place, and the first round begins."""
        self.begun = Moment.now()

    def round_done(self, cell: CellDir, record: Record) -> None:
        """A round and its record are there."""
        self.rounds.append(Moment.now())


def measure_run(root: Path, clients: int, rounds: int, strangers: str) -> dict[str, Any]:
    """Play all rounds in this process; seconds of its parts, its peak and its records."""
    changes = (
        'name="ten-thousand"',
        'methods=["federico"]',
        "seeds=[0]",
        f"rounds={rounds}",
        f"data.clients={clients}",
        f'federico.strangers="{strangers}"',
    )
    experiment = load(EXPERIMENTS / "sine.toml", changes)
    watch = Watch()
    started = Moment.now()
    run = simulate(experiment, root, watch)
    ended = Moment.now()

    assert watch.begun is not None, "a run that was there already is not measured"
    marks = [watch.begun, *watch.rounds]
    of_rounds = [_seconds(marks[k], marks[k + 1]) for k in range(rounds)]
    files = [path.stat().st_size for path in run.path.glob(f"*/{RECORDS}")]
    start = _seconds(started, watch.begun)
    final_save = _seconds(watch.rounds[-1], ended)
    return {
        "clients": clients,
        "rounds": rounds,
        "strangers": strangers,
        "start": start.processor,
        "start_wall": start.wall,
        "round_median": median(each.processor for each in of_rounds),
        "round_median_wall": median(each.wall for each in of_rounds),
        "round_last": of_rounds[-1].processor,
        "rounds_wall": sum(each.wall for each in of_rounds),
        "final_save": final_save.processor,
        "final_save_wall": final_save.wall,
        "run_peak": peak_memory(),
        "record_bytes": sum(files),
    }


def measure_report(run: Path) -> dict[str, Any]:
    """Write the report with the command line; its seconds, its peak and the size of its page."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", REPORT, "report", str(run)]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    user = after.ru_utime - before.ru_utime
    system = after.ru_stime - before.ru_stime
    return {
        "report": user + system,
        "report_wall": wall,
        "report_peak": int(done.stdout.rsplit(maxsplit=1)[-1]) * 1024,
        "report_page": (run / "report.html").stat().st_size,
    }


def table(figures: Mapping[str, Any]) -> Table:
    """What was measured beside its goals, seconds by both clocks."""
    rows = []
    for figure, title in FIGURES.items():
        goal = ""
        verdict = ""
        if figure in GOALS:
            goal = f"<= {_readable(figure, GOALS[figure])}"
            verdict = "yes" if _reached(figure, figures) else "**no**"
        by_clock = ""
        if BY_CLOCK.get(figure) in figures:
            by_clock = _readable(figure, figures[BY_CLOCK[figure]])
        rows.append([title, goal, _readable(figure, figures[figure]), by_clock, verdict])
    heads = ["figure", "goal", "measured (seconds of the processor)", "by the clock", "reached"]
    size = f"{figures['clients']:,} clients, {figures['rounds']} rounds"
    return Table(size, heads, rows)


def in_new_process(measure: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """What a measurement gives in a process that has done nothing before."""
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_send, args=(theirs, measure, arguments))
    process.start()
    theirs.close()
    figures: dict[str, Any] = ours.recv()
    process.join()
    return figures


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and store what was measured at full size."""
    asked = _parser().parse_args(arguments)
    with TemporaryDirectory() as scratch:
        root = Path(asked.folder or scratch)
        if asked.report_only:
            figures = dict(Results().measurements(ROW)[0])
        else:
            shutil.rmtree(root / ROW, ignore_errors=True)
            figures = in_new_process(
                measure_run, root, asked.clients, asked.rounds, asked.strangers
            )
        figures |= in_new_process(measure_report, root / ROW)

    print(json.dumps(figures, indent=1))
    missed = [name for name in GOALS if not _reached(name, figures)]
    for name in missed:
        print(f"{name}: {figures[name]:.4g}, the goal is {GOALS[name]:.4g}")
    if asked.store:
        Results().write(ROW, facts(), [figures])
    return 1 if missed else 0


def _reached(figure: str, figures: Mapping[str, Any]) -> bool:
    """Whether a figure is within its goal; records grow with the rounds, and are to fit for all."""
    amount = float(figures[figure])
    if figure == "record_bytes":
        amount *= ROUNDS / figures["rounds"]
    return amount <= GOALS[figure]


def _readable(figure: str, amount: float) -> str:
    if figure.endswith(("bytes", "peak", "page")):
        return f"{amount / 1e6:.0f} MB"
    return f"{amount:.2g}" if amount < 10 else f"{amount:.0f}"


def _seconds(begin: Moment, end: Moment) -> Moment:
    return Moment(end.wall - begin.wall, end.processor - begin.processor)


def _send(
    pipe: Connection, measure: Callable[..., dict[str, Any]], arguments: Sequence[Any]
) -> None:
    pipe.send(measure(*arguments))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ten_thousand")
    parser.add_argument("--clients", type=int, default=CLIENTS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--strangers", choices=("optimistic", "cautious"), default="optimistic")
    parser.add_argument("--folder", type=Path, help="where the run stays")
    parser.add_argument(
        "--store", action="store_true", help="write the figures to benchmarks/results"
    )
    parser.add_argument(
        "--report-only", action="store_true", help="measure the report of the run in FOLDER again"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
