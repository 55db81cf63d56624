"""`federico report`."""

from pathlib import Path
from typing import Annotated

import typer

from federico.cli.console import PLAIN, out
from federico.cli.options import Json, Quiet


def report(
    run: Annotated[Path, typer.Argument(help="Run directory, or a folder of results/.")],
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Write report.html, tables and figures for a run, and print its table."""
    from federico.cli.run import show_results
    from federico.report import summarize
    from federico.ui.frozen import write_report

    summary = summarize(run)
    page = write_report(run, summary)
    if not quiet:
        show_results(summary, as_json=json)
    if not (quiet or json):
        out.print(f"Report: {page}", **PLAIN)
