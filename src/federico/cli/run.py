"""`federico run` and `federico report`."""

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from federico.api import Quiet
from federico.cli.console import PLAIN, err, out, print_json
from federico.cli.progress import LiveProgress
from federico.exchange.mpi import team
from federico.exchange.processes import ProcessGroup
from federico.experiment.config import Experiment, cell_options, load
from federico.experiment.runner import simulate
from federico.report.old.written import as_json as summary_as_json
from federico.report.old.written import result_table, summarize, write_report
from federico.runs.layout import RunDir


def run_experiment(
    file: Path, overrides: list[str], directory: Path, *, quiet: bool, as_json: bool
) -> None:
    """Run what is left to run, then print the result."""
    members = team()
    with _together(members):
        experiment = load(file, overrides)
        run = RunDir(directory / experiment.name)
        finished = members.broadcast(_finished(experiment, run))
        if not finished:
            _simulate(experiment, directory, members, quiet=quiet or as_json)
    if members.rank > 0:
        return
    if finished and not quiet:
        err.print(f"{run.path}: finished already, nothing to do", **PLAIN)
    _show(run.path, quiet=quiet, as_json=as_json)
    if not (quiet or as_json):
        out.print(f"Next: federico report {run.path}", **PLAIN)


def write_run_report(run: Path, *, quiet: bool, as_json: bool) -> None:
    """Write the page and the figures, then print the result."""
    page = write_report(run)
    _show(run, quiet=quiet, as_json=as_json)
    if not (quiet or as_json):
        out.print(f"Report: {page}", **PLAIN)


@contextmanager
def _together(members: ProcessGroup) -> Iterator[None]:
    """If one process of the team cannot go on, none can: they would wait for it for ever."""
    try:
        yield
    except BaseException as error:
        members.give_up(error)
        raise


def _simulate(
    experiment: Experiment, directory: Path, members: ProcessGroup, *, quiet: bool
) -> None:
    command = shlex.join(["federico", *sys.argv[1:]])
    with nullcontext(Quiet()) if quiet or members.rank > 0 else LiveProgress(err) as observer:
        simulate(experiment, directory, observer, command=command, team=members)


def _finished(experiment: Experiment, run: RunDir) -> bool:
    """Whether this very experiment is; where anything differs, `simulate` says what."""
    return all(
        cell.rounds_done == experiment.rounds
        and cell.description.options == cell_options(experiment, method)
        for method in experiment.methods
        for cell in (run.cell(method, seed) for seed in experiment.seeds)
    )


def _show(run: Path, *, quiet: bool, as_json: bool) -> None:
    summary = summarize(RunDir(run))
    if as_json:
        print_json(summary_as_json(summary))
    elif not quiet:
        out.print(result_table(summary))
