"""`federico run` and `federico report`."""

import shlex
import sys
from contextlib import nullcontext
from pathlib import Path

from federico.api import Quiet
from federico.cli.console import PLAIN, err, out, print_json
from federico.cli.progress import LiveProgress
from federico.errors import FedericoError
from federico.exchange.mpi import team
from federico.experiment.config import Experiment, load
from federico.experiment.rundir import RunDir
from federico.experiment.simulate import cell_options, simulate
from federico.report import as_json as summary_as_json
from federico.report import result_table, summarize, write_report


def run_experiment(file: Path, overrides: list[str], directory: Path, *, quiet: bool, as_json: bool) -> None:
    """Run what is left to run, then print the result."""
    experiment = load(file, overrides)
    run = RunDir(directory / experiment.name)
    if _finished(experiment, run):
        if not quiet:
            err.print(f"{run.path}: finished already, nothing to do", **PLAIN)
    elif not _simulate(experiment, directory, quiet=quiet or as_json):
        return
    _show(run.path, quiet=quiet, as_json=as_json)
    if not (quiet or as_json):
        out.print(f"Next: federico report {run.path}", **PLAIN)


def write_run_report(run: Path, *, quiet: bool, as_json: bool) -> None:
    """Write the page and the figures, then print the result."""
    page = write_report(run)
    _show(run, quiet=quiet, as_json=as_json)
    if not (quiet or as_json):
        out.print(f"Report: {page}", **PLAIN)


def _simulate(experiment: Experiment, directory: Path, *, quiet: bool) -> bool:
    """Run it, alone or as one rank of an MPI job; returns whether this process is the one that shows the result."""
    members = team()
    silent = quiet or members.rank > 0
    command = shlex.join(["federico", *sys.argv[1:]])
    try:
        with nullcontext(Quiet()) if silent else LiveProgress(err) as observer:
            simulate(experiment, directory, observer, command=command, team=members)
    except FedericoError as error:
        members.give_up(error)
        raise
    return members.rank == 0


def _finished(experiment: Experiment, run: RunDir) -> bool:
    """Whether this very experiment is; where anything differs, `simulate` says what."""
    return all(
        cell.rounds_done == experiment.rounds and cell.description.options == cell_options(experiment, method)
        for method in experiment.methods
        for cell in (run.cell(method, seed) for seed in experiment.seeds)
    )


def _show(run: Path, *, quiet: bool, as_json: bool) -> None:
    summary = summarize(RunDir(run))
    if as_json:
        print_json(summary_as_json(summary))
    elif not quiet:
        out.print(result_table(summary))
