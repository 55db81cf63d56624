"""`federico run`."""

import math
import shlex
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from federico.cli.console import PLAIN, err, for_tables, out, print_json
from federico.cli.run_options import RunOptions, with_run_options
from federico.cli.trust_question import asking_at_terminal

if TYPE_CHECKING:
    from federico.exchange.processes import ProcessGroup
    from federico.experiment.estimate import Estimate
    from federico.experiment.grid import Grid
    from federico.experiment.observer import Observer
    from federico.experiment.selection import KnownResults
    from federico.report.table_summary import Summary

KEPT = Path("results")
"""Where `--save` keeps results."""


@with_run_options
def run(
    file: Annotated[Path, typer.Argument(help="Experiment file (TOML).")], **given: Any
) -> None:
    """Run an experiment: all its methods on all seeds, in all rows and columns of its grid.

    An interrupted run resumes from its last checkpoints; a finished one only shows its table.
    Python code that the file names runs only if you trust it: a terminal asks once for each file
    of code, and again when it has changed. Elsewhere, and for installed modules, say --trust.
    """
    from federico.experiment.grid import load_grid
    from federico.own_code import trust_if, trusting

    options = RunOptions(**given)
    # A dry run does not ask: it is what somebody tries first with a file that is not their own.
    asks = nullcontext() if options.dry_run else asking_at_terminal(file)
    with trusting(trust_if(options.trust)), asks, leaving_together() as team:
        perform(load_grid(file, options.settings), options, ["run", str(file)], team)


@contextmanager
def leaving_together() -> "Iterator[ProcessGroup]":
    """The processes that run the experiment. If one cannot go on, all are ended with it."""
    from federico.exchange import mpi

    team = mpi.team()
    try:
        yield team
    except BaseException as error:
        team.give_up(error)
        raise


def perform(grid: "Grid", options: RunOptions, typed: list[str], team: "ProcessGroup") -> None:
    """Run what is left of a grid, then show its table."""
    from federico.experiment.runner import is_finished, run_grid

    _check_jobs(options.jobs, team)
    known = _known_to_first(grid, options, team)
    if options.dry_run:
        if team.rank == 0:
            _show_estimate(grid, options, known)
        return

    finished = False
    if team.rank == 0:
        finished = is_finished(grid, options.directory, options.selection, known)
    finished = team.broadcast(finished)
    if not finished:
        grid.settle_own_code()  # while nothing is drawn over a question
        command = _command(typed, options)
        with _observer(grid, options, team) as observer:
            run_grid(
                grid,
                options.directory,
                observer,
                selection=options.selection,
                jobs=options.jobs,
                known=known,
                command=command,
                team=team,
            )
    if team.rank == 0:
        _show_what_was_run(grid, options, was_finished=finished)


def _known_to_first(grid: "Grid", options: RunOptions, team: "ProcessGroup") -> "KnownResults":
    """What is known from before, to the first process alone.

    It decides for all what is run, and it alone talks to the user.
    """
    from federico.experiment.selection import NOTHING_KNOWN

    if team.rank > 0:
        return NOTHING_KNOWN
    known = _known_results(grid, options)
    _say_known_rates(grid, options, known)
    if options.save:
        _refuse_changed(grid, options)
    return known


def _show_what_was_run(grid: "Grid", options: RunOptions, *, was_finished: bool) -> None:
    """Write the figure if the file asks for one, keep the results if asked to, show the table."""
    from federico.paper.figures import write_figure
    from federico.report import summarize

    folder = options.directory / grid.name
    if was_finished and not options.quiet:
        err.print(f"{folder}: finished already, nothing to do", **PLAIN)

    shown = folder
    write_figure(folder)
    if options.save:
        shown = _save(grid, folder)
    if not options.quiet:
        show_results(summarize(shown), as_json=options.json)
    if not options.silent:
        if options.save:
            out.print(f"Saved: {shown}", **PLAIN)
        out.print(f"Next: federico report {folder}", **PLAIN)


def show_results(summary: "Summary", *, as_json: bool) -> None:
    """Print the table of a run or of kept results."""
    from federico.report.summary_data import as_json as summary_as_json

    if as_json:
        print_json(summary_as_json(summary))
    else:
        print_summary(summary)


def print_summary(summary: "Summary") -> None:
    """Print headline, tables, and what differs from the paper's setting."""
    from federico.report import text
    from federico.report.tables import gain_tables, result_tables
    from federico.report.text_table import ForTerminal

    out.print(text.headline(summary), style="bold", **PLAIN)
    console = for_tables()
    for table in [*result_tables(summary), *gain_tables(summary)]:
        console.print(ForTerminal(table))
    out.print(f"{text.extent(summary)}. {text.notes(summary)}", highlight=False, markup=False)
    warning = text.worse_than_mean(summary)
    if warning:
        err.print(f"warning: {warning}", style="yellow", **PLAIN)
    for difference in text.differences(summary):
        out.print(f"{text.beside(summary)}: {difference}", highlight=False, markup=False)


def _check_jobs(jobs: int, team: "ProcessGroup") -> None:
    from federico.errors import ConfigError

    if jobs < 1:
        raise ConfigError(f"--jobs {jobs}: at least one process must do the work")
    if jobs > 1 and team.ranks > 1:
        raise ConfigError(f"--jobs {jobs}: under mpiexec all ranks work on one run; leave it out")


def _observer(
    grid: "Grid", options: RunOptions, team: "ProcessGroup"
) -> AbstractContextManager["Observer"]:
    from federico.api.progress import Quiet as QuietObserver
    from federico.cli.progress import LiveProgress

    if options.silent or team.rank > 0:
        return nullcontext(QuietObserver())
    return LiveProgress(err, grid.table())


def _known_results(grid: "Grid", options: RunOptions) -> "KnownResults":
    """Results that were kept before; a damaged file matters only if something is to be added."""
    from federico.errors import RunError
    from federico.experiment.selection import NOTHING_KNOWN, KnownResults
    from federico.runs.results import read_results

    try:
        return KnownResults(*read_results(KEPT / grid.name))
    except RunError as error:
        if options.save:
            raise
        err.print(f"note: no learning rates are known from before: {error}", **PLAIN)
        return NOTHING_KNOWN


def _say_known_rates(grid: "Grid", options: RunOptions, known: "KnownResults") -> None:
    """Say which learning rates were chosen before and are not tuned again."""
    from federico.experiment.tuning import best_rate
    from federico.runs.results import read_results

    options.selection.check(grid)
    if "best" not in options.selection.kinds(grid):
        return
    here, _ = read_results(options.directory / grid.name)
    rates = []
    for row, column in options.selection.places(grid):
        if best_rate(grid, row, column, here) is not None:
            continue
        rate = best_rate(grid, row, column, known.cells, known.aggregates)
        if rate is not None:
            name = f"{row.name}, {column.name}" if column.name else row.name
            rates.append(f"{name}: {rate:g}")
    if rates:
        source = f"note: best learning rates from {KEPT / grid.name}, not tuned again: "
        err.print(source + "; ".join(rates), **PLAIN)


def _refuse_changed(grid: "Grid", options: RunOptions) -> None:
    """Refuse to run what could not be saved, before it takes hours."""
    from federico.runs.kept_results import refuse_changed
    from federico.runs.table import EntryKey

    settings: dict[EntryKey, str] = {}
    for row, column in options.selection.places(grid):
        for rate_kind in options.selection.kinds(grid):
            cell = grid.cells(row, column, rate_kind)[0]
            settings[row.name, column.name, rate_kind] = cell.settings
    refuse_changed(KEPT / grid.name, settings)


def _save(grid: "Grid", folder: Path) -> Path:
    """Add the results of this run to those that are kept."""
    from federico.report import draw_kept
    from federico.runs.kept_results import keep_results
    from federico.runs.results import read_results

    results, _ = read_results(folder)
    target = KEPT / grid.name
    keep_results(target, grid.table(), results)
    draw_kept(target, folder)
    return target


def _show_estimate(grid: "Grid", options: RunOptions, known: "KnownResults") -> None:
    """Say how long the experiment would take; runs nothing but miniatures."""
    from federico.experiment.estimate import estimate

    rows = estimate(grid, options.directory, options.selection, known)
    total = sum(row.seconds for row in rows) / options.jobs
    if options.json:
        by_row = {
            row.row: {"runs": row.runs, "finished": row.finished, "seconds": row.seconds}
            for row in rows
        }
        print_json({"rows": by_row, "seconds": total})
        return
    _print_estimate(grid, rows)
    runs = sum(row.runs for row in rows)
    finished = sum(row.finished for row in rows)
    out.print(
        f"{runs} runs (tuning included), {finished} finished; "
        f"about {_duration(total)} with --jobs {options.jobs}.",
        **PLAIN,
    )


def _print_estimate(grid: "Grid", rows: "Sequence[Estimate]") -> None:
    from federico.report.text_table import ForTerminal, TableCell, TextTable

    lines = []
    for row in rows:
        texts = [row.title, str(row.runs), str(row.finished), _duration(row.seconds)]
        lines.append([TableCell(text) for text in texts])
    headings = ["", "runs", "finished", "time left"]
    out.print(ForTerminal(TextTable(f"{grid.title}: nothing was run", headings, lines)))


def _duration(seconds: float) -> str:
    return str(timedelta(seconds=math.ceil(seconds)))


def _command(typed: list[str], options: RunOptions) -> str:
    """What to type for the same numbers, without where they are kept and how many work on them."""
    words = ["federico", *typed]
    for option, values in (
        ("--name", [options.name] if options.name else []),
        ("--set", options.overrides),
        ("--row", options.row),
        ("--column", options.column),
        ("--rate", options.rate),
    ):
        for value in values:
            words += [option, value]
    if options.save:
        words.append("--save")
    return shlex.join(words)
