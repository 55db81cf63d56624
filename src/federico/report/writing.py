"""Write tables and pictures beside the results they are about, and those of results to keep."""

from pathlib import Path

from matplotlib.figure import Figure

from federico.errors import RunError
from federico.report import summary_data, tables, text_table
from federico.report.dark import darken, darkened
from federico.report.details import RunDetails, read_details, summarize
from federico.report.drawing import render, render_for_paper
from federico.report.figures import draw_all
from federico.report.table_summary import Summary
from federico.runs.atomic import disk_errors, publish_bytes, publish_text

OWN_FIGURE = "figure"
"""The picture in the manner of the paper. It is drawn when the runs are there, see `paper.figures`,
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
    _copy_picture(folder, pictures, OWN_FIGURE)
    for name, figure in draw_all(summary, details):
        publish_picture(pictures, name, figure, for_paper=True)

    in_markdown = []
    in_latex = []
    for table in [*tables.all_tables(summary), *tables.worth_tables(summary)]:
        in_markdown.append(f"{table.title}\n\n{text_table.markdown(table)}")
        in_latex.append(text_table.latex(table))
    publish_text(folder / "table.md", "\n".join(in_markdown))
    publish_text(folder / "table.tex", "\n".join(in_latex))
    publish_text(folder / "runs.csv", summary_data.as_csv(summary))
    publish_text(folder / "gains.csv", summary_data.gains_as_csv(summary))


def draw_kept(target: Path, run: Path | None = None) -> None:
    """Draw the pictures that are kept beside results.

    They need nothing but the results. The figure in the manner of the paper is taken from the run
    that was added, if it has one.
    """
    if run is not None:
        _copy_picture(run, target, OWN_FIGURE)

    summary = summarize(target)
    if len(summary.table.rows) == 1:
        return
    without_cells = RunDetails([], None)
    for name, figure in draw_all(summary, without_cells):
        if name in KEPT_PICTURES:
            publish_picture(target, name, figure)


def _copy_picture(source: Path, target: Path, name: str) -> None:
    """Copy the picture and the one for a dark page, if there is a picture."""
    picture = source / f"{name}.png"
    if not picture.exists():
        return
    light = picture.read_bytes()
    dark = for_dark_page(picture)
    publish_bytes(target / f"{name}.png", light)
    publish_bytes(target / f"{name}{DARK}.png", dark)


def for_dark_page(picture: Path) -> bytes:
    """The picture that lies beside this one for dark pages; made from it if none does."""
    drawn = picture.with_name(f"{picture.stem}{DARK}.png")
    if drawn.exists() and not drawn.is_symlink():
        return drawn.read_bytes()
    try:
        return darkened(picture.read_bytes())
    except OSError as error:
        raise RunError(f"{picture}: cannot be read as a picture: {error}") from None


def publish_picture(folder: Path, name: str, figure: Figure, *, for_paper: bool = False) -> None:
    """Write the figure as it is and for a dark page, and as a PDF if it is for a paper, too."""
    publish_bytes(folder / f"{name}.png", render(figure))
    # Nothing moves any more: the layout of the first time is kept, which takes half the time.
    figure.set_layout_engine("none")
    if for_paper:
        publish_bytes(folder / f"{name}.pdf", render_for_paper(figure))
    darken(figure)
    publish_bytes(folder / f"{name}{DARK}.png", render(figure))
