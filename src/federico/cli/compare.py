"""`federico compare` and `federico reproduce`."""

import math
import shlex
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from federico.cli.console import PLAIN, err, for_tables, out, print_json
from federico.cli.studytable import LiveStudy
from federico.compare import tables, words
from federico.compare.adding import add
from federico.compare.estimate import Estimate, estimate
from federico.compare.page import images_of, write_study
from federico.compare.presets import preset
from federico.compare.queue import News
from federico.compare.result import Result, gather
from federico.compare.run import Part, run_study
from federico.compare.saved import Saved, file_of, read_saved, saving, write_saved
from federico.compare.study import Cell, Study, load_study, scaled
from federico.compare.studydir import StudyDir
from federico.compare.tables import Grid, TableCell
from federico.compare.terminal import for_terminal
from federico.compare.tuning import Tuned
from federico.errors import ConfigError, DataError
from federico.report.old.summary import title_of

RESULTS = Path("results")


@dataclass(frozen=True)
class Wishes:
    """What was asked for on the command line, beside the file."""

    overrides: list[str]
    rows: list[str]
    columns: list[str]
    at: list[str]
    jobs: int
    dry_run: bool
    save: bool
    directory: Path
    quiet: bool
    as_json: bool

    @property
    def part(self) -> Part:
        """What to run now."""
        return Part(tuple(self.rows), tuple(self.columns), tuple(self.at))


class Silent:
    """Shows nothing; what a person should know goes to standard error."""

    def expect(self, cells: Sequence[Cell]) -> None:
        """Nothing to show."""

    def hear(self, news: News) -> None:
        """One line for a note."""
        if news.note:
            err.print(f"note: {news.note}", **PLAIN)


def compare_file(file: Path, wishes: Wishes) -> None:
    """Run what is left of a study, then print and write its tables and figures."""
    _perform(load_study(file, wishes.overrides), wishes, ["compare", str(file)])


def reproduce_preset(name: str, scale: float, wishes: Wishes) -> None:
    """The same for a table or figure of the paper."""
    study = scaled(load_study(preset(name), wishes.overrides), scale)
    _perform(study, wishes, ["reproduce", name, *([] if scale == 1 else ["--scale", f"{scale:g}"])])


def _perform(study: Study, wishes: Wishes, words_typed: list[str]) -> None:
    if wishes.jobs < 1:
        raise ConfigError(f"--jobs {wishes.jobs}: at least one process must do the work")
    folder = StudyDir(wishes.directory / study.name, _rates_saved(study, wishes))
    _say_known_rates(study, folder, wishes.part)
    if wishes.dry_run:
        _show_estimate(study, estimate(study, folder, wishes.part), wishes)
        return
    command = _command(words_typed, wishes)
    silent = wishes.quiet or wishes.as_json
    with nullcontext(Silent()) if silent else LiveStudy(err, study, folder) as listener:
        run_study(study, folder, listener, part=wishes.part, jobs=wishes.jobs, command=command)
    result = gather(study, folder)
    if result is not None and wishes.save:
        _save(study, folder, result, wishes, command)
    elif result is not None:
        images = images_of(study, folder, result)
        _finish(result, write_study(folder, result, images, [command]), wishes)


def _earlier(study: Study) -> Saved | None:
    """What was saved of this study before."""
    file = file_of(study.name, RESULTS)
    return read_saved(file) if file.exists() else None


def _rates_saved(study: Study, wishes: Wishes) -> Sequence[Tuned]:
    """How learning rates were chosen before; a file that nothing will be added to may be of no use."""
    try:
        earlier = _earlier(study)
    except DataError as error:
        if wishes.save:
            raise
        err.print(f"note: no learning rates are known from before: {error}", **PLAIN)
        return ()
    return earlier.result.tuned if earlier else ()


def _say_known_rates(study: Study, folder: StudyDir, part: Part) -> None:
    part.check(study)
    if "best" not in part.rates(study):
        return
    known = [
        f"{title_of(row.name)}{f', {column.name}' if column.name else ''}: {rate:g}"
        for row, column in part.pairs(study)
        if not folder.tuning_cells(study, row, column)
        and (rate := folder.best_rate(study, row, column))
    ]
    if known:
        source = f"note: best learning rates from {file_of(study.name, RESULTS)}, not tuned again: "
        err.print(source + "; ".join(known), **PLAIN | {"soft_wrap": not err.is_terminal})


def _save(study: Study, folder: StudyDir, result: Result, wishes: Wishes, command: str) -> None:
    """Add to what was saved before; tables and figures show all of it."""
    with saving(RESULTS):
        earlier = _earlier(study)  # as it is now: another command may have saved during the runs
        both = add(study, folder, result, command, earlier)
        images = images_of(study, folder, both.result)
        page = write_study(folder, both.result, images, [save.command for save in both.saves])
        drawn_before = earlier.figures if earlier and study.compare.figure else ()
        file = write_saved(both.saves, both.result, images, RESULTS, drawn_before)
    for note in both.notes:
        err.print(f"note: {file}: {note}", **PLAIN)
    _finish(both.result, page, wishes, file)


def _finish(result: Result, page: Path, wishes: Wishes, saved: Path | None = None) -> None:
    if wishes.as_json:
        print_json(_as_json(result))
    elif not wishes.quiet:
        _show(result)
        out.print(f"Report: {page}", **PLAIN)
        if saved:
            out.print(f"Saved: {saved}", **PLAIN)


def _show(result: Result) -> None:
    out.print(words.headline(result), style="bold", **PLAIN)
    console = for_tables()
    for grid in tables.grids(result):
        console.print(for_terminal(grid, console.width))
    out.print(f"{words.extent(result)}. {words.notes(result)}", highlight=False, markup=False)
    for difference in words.differences(result):
        out.print(f"{words.beside(result)}: {difference}", highlight=False, markup=False)


def _show_estimate(study: Study, rows: Sequence[Estimate], wishes: Wishes) -> None:
    total = sum(row.seconds for row in rows) / wishes.jobs
    if wishes.as_json:
        found = {
            row.row: {"runs": row.runs, "finished": row.finished, "seconds": row.seconds}
            for row in rows
        }
        print_json({"rows": found, "seconds": total})
        return
    lines = [
        [title_of(row.row), str(row.runs), str(row.finished), _duration(row.seconds)]
        for row in rows
    ]
    grid = Grid(
        f"{study.title}: nothing was run",
        ["", "runs", "finished", "time left"],
        [[*map(TableCell, line)] for line in lines],
    )
    out.print(for_terminal(grid, out.width))
    done, runs = sum(row.finished for row in rows), sum(row.runs for row in rows)
    out.print(
        f"{runs} runs (tuning included), {done} finished; about {_duration(total)} with --jobs {wishes.jobs}.",
        **PLAIN,
    )


def _duration(seconds: float) -> str:
    return str(timedelta(seconds=math.ceil(seconds)))


def _command(typed: list[str], wishes: Wishes) -> str:
    """What to type for the same numbers: where they are kept and how many work on them is left out."""
    settings = [part for override in wishes.overrides for part in ("--set", override)]
    chosen = [("--row", wishes.rows), ("--column", wishes.columns), ("--at", wishes.at)]
    parts = [part for option, names in chosen for name in names for part in (option, name)]
    return shlex.join(["federico", *typed, *settings, *parts, *(["--save"] if wishes.save else [])])


def _as_json(result: Result) -> dict[str, Any]:
    return {
        "study": result.name,
        "metric": result.metric.name,
        "rounds": result.rounds,
        "seeds": result.seeds,
        "unfinished": result.unfinished,
        "headline": words.headline(result),
        "differences": words.differences(result),
        "entries": [
            {
                "row": entry.row,
                "column": entry.column,
                "at": entry.at,
                "learning_rate": entry.rate,
                "by_seed": {str(seed): _finite(value) for seed, value in entry.by_seed.items()},
                "mean": _finite(entry.mean),
                "sd": entry.sd(result.spread),
                "bytes_moved": entry.bytes_moved[-1],
                "processor_seconds": entry.processor_seconds[-1],
            }
            for entry in result.entries
        ],
    }


def _finite(value: float) -> float | None:
    return value if abs(value) < float("inf") else None
