"""`federico report`."""

from pathlib import Path
from typing import Annotated

import typer

from federico import compat
from federico.cli.console import PLAIN, out, print_json
from federico.cli.options import Json, Quiet
from federico.cli.private_files import private_files
from federico.errors import RunError
from federico.site.status import STATUS_FILE, find_state_folder


def report(
    run: Annotated[
        Path,
        typer.Argument(
            help="Run directory, a folder of results/, or of a site its file or state folder."
        ),
    ],
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Write report.html for a run or a site, and print its table, or the site in a sentence.

    A run also gets its tables and figures.
    """
    state_folder = _state_folder(run)
    if state_folder is None:
        _report_run(run, quiet=quiet, json=json)
    else:
        _report_site(state_folder, quiet=quiet, json=json)


def _state_folder(path: Path) -> Path | None:
    """The state folder that a site file names, or that this is; None for anything else."""
    if path.suffix != ".toml" or path.is_dir():
        if (path / STATUS_FILE).exists():
            return path
        inside = path / "state"
        if (inside / STATUS_FILE).exists():
            raise RunError(
                f"{path}: neither a run nor the state folder of a site; that of the site in it is "
                f"{inside}"
            )
        return None

    from federico.config_file import read_tables

    if "federation" not in read_tables(path, "site file"):
        raise RunError(
            f"{path.absolute()}: not a site file; the report of an experiment is made from its "
            f"run directory, such as runs/{path.stem}"
        )
    return find_state_folder(path)


def _report_run(run: Path, *, quiet: bool, json: bool) -> None:
    from federico.cli.run import show_results
    from federico.report import summarize
    from federico.ui.frozen import write_report

    compat.look_for_cycles_rarely()
    summary = summarize(run)
    page = write_report(run, summary)
    if not quiet:
        show_results(summary, as_json=json)
    if not (quiet or json):
        out.print(f"Report: {page}", **PLAIN)


def _report_site(state_folder: Path, *, quiet: bool, json: bool) -> None:
    from federico.ui.site_report import write_site_report

    with private_files():
        report = write_site_report(state_folder)
    if json:
        page = str(report.page)
        print_json({"headline": report.headline, "sentence": report.sentence, "page": page})
    elif not quiet:
        out.print(report.headline, **PLAIN)
        if report.sentence:
            out.print(report.sentence, **PLAIN)
        out.print(f"Report: {report.page}", **PLAIN)
