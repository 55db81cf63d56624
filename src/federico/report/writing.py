"""Write tables and pictures beside the results they are about, and those of results to keep."""

from pathlib import Path

from matplotlib.figure import Figure

from federico.report import tables
from federico.report.dark import darken
from federico.report.details import RunDetails, read_details, summarize
from federico.report.drawing import render
from federico.report.figures import draw_all
from federico.report.table_summary import Summary
from federico.runs.atomic import disk_errors, publish_bytes, publish_text

OWN_FIGURE = "figure.png"
"""The figure in the manner of the paper. It is drawn when the runs are there, see `paper.figures`,
and shown wherever it lies beside the results."""
DARK = "-dark"
"""What the name of a picture for a dark page ends with."""
KEPT_PICTURES = ("overview", "cost")
"""Pictures that are kept beside results in `results/<name>`."""


def write_tables_and_pictures(folder: Path, summary: Summary) -> None:
    """Write pictures and tables of a run or of kept results.

    `summary` is that of the folder, see `summarize`.
    """
    details = read_details(folder, summary.table)

    pictures = folder / "figures"
    with disk_errors(pictures):
        pictures.mkdir(exist_ok=True)
    own_figure = folder / OWN_FIGURE
    if own_figure.exists():
        publish_bytes(pictures / OWN_FIGURE, own_figure.read_bytes())
    for name, figure in draw_all(summary, details):
        _publish_picture(pictures, name, figure)

    in_markdown = []
    in_latex = []
    for table in [*tables.all_tables(summary), *tables.worth_tables(summary)]:
        in_markdown.append(f"{table.title}\n\n{tables.markdown(table)}")
        in_latex.append(tables.latex(table))
    publish_text(folder / "table.md", "\n".join(in_markdown))
    publish_text(folder / "table.tex", "\n".join(in_latex))
    publish_text(folder / "runs.csv", tables.as_csv(summary))
    publish_text(folder / "gains.csv", tables.gains_as_csv(summary))


def draw_kept(target: Path, run: Path | None = None) -> None:
    """Draw the pictures that are kept beside results.

    They need nothing but the results. The figure in the manner of the paper is taken from the run
    that was added, if it has one.
    """
    if run is not None and (run / OWN_FIGURE).exists():
        publish_bytes(target / OWN_FIGURE, (run / OWN_FIGURE).read_bytes())

    summary = summarize(target)
    if len(summary.table.rows) == 1:
        return
    without_cells = RunDetails([], None)
    for name, figure in draw_all(summary, without_cells):
        if name in KEPT_PICTURES:
            _publish_picture(target, name, figure)


def _publish_picture(folder: Path, name: str, figure: Figure) -> None:
    """Write the figure twice: as it is, and for a dark page."""
    publish_bytes(folder / f"{name}.png", render(figure))
    darken(figure)
    publish_bytes(folder / f"{name}{DARK}.png", render(figure))
