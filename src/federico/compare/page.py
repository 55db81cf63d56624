"""A study's own page and files, and its section of a page of results."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from federico.compare import figures, tables, words
from federico.compare.pictures import picture
from federico.compare.result import Result
from federico.compare.saved import Saved
from federico.compare.study import Study
from federico.compare.studydir import StudyDir
from federico.experiment.files import disk_errors, publish_bytes, publish_text
from federico.report.drawing import render
from federico.report.page import embedded, template

CAPTIONS = {
    "figure": "The figure of the paper, drawn from these runs.",
    "overview": "A large dot is a mean, a line one standard deviation, a small dot a run, a diamond the paper.",
    "cost": "How far each method gets with the megabytes it moves and the processor seconds it takes. A method that "
    "moves nothing is a level line at its end result.",
}


def images_of(study: Study, folder: StudyDir, result: Result) -> dict[str, bytes]:
    """The figures as PNGs: the paper's own first, if the study asks for one."""
    own = picture(study, folder, result)
    drawn = {} if own is None else {"figure": own}
    drawn["overview"] = figures.overview(result)
    if len({row.method for row in study.rows}) == len(study.rows) > 1:
        drawn["cost"] = figures.cost(result)
    return {name: render(figure) for name, figure in drawn.items()}


def write_study(folder: StudyDir, result: Result, images: Mapping[str, bytes], command: str) -> Path:
    """Tables, figures and one HTML page into the study's directory; returns the page."""
    grids = tables.grids(result)
    place = folder.path / "figures"
    with disk_errors(place):
        place.mkdir(parents=True, exist_ok=True)
    for name, png in images.items():
        publish_bytes(place / f"{name}.png", png)
    publish_text(folder.path / "table.md", "\n".join(f"{grid.title}\n\n{tables.markdown(grid)}" for grid in grids))
    publish_text(folder.path / "table.tex", "\n".join(map(tables.latex, grids)))
    publish_text(folder.path / "runs.csv", tables.as_csv(result))
    publish_text(folder.path / "report.html", html(result, images, command))
    return folder.path / "report.html"


def html(result: Result, images: Mapping[str, bytes], command: str) -> str:
    """One page that needs nothing else; names and commands are escaped by the template."""
    return template("federico.compare").render(
        result=result,
        headline=words.headline(result),
        extent=words.extent(result),
        differences=words.differences(result),
        notes=words.notes(result),
        grids=tables.grids(result),
        pictures=[(CAPTIONS[name], embedded(png)) for name, png in images.items()],
        command=command,
    )


def section(saved: Saved, note: str, place: str) -> str:
    """A part of a Markdown page; `place` leads from the page to the folder of the saved result."""
    return "\n".join(_lines(saved, note, place))


def _lines(saved: Saved, note: str, place: str) -> Iterator[str]:
    result, paper = saved.result, saved.result.paper
    yield f"## {result.title}\n"
    yield f"{words.headline(result)}\n"
    if paper.finding:
        yield f"**The paper** ({paper.where}): {paper.finding}\n"
    if note:
        yield f"{note.strip()}\n"
    for name in saved.figures:
        yield f"![{CAPTIONS[Path(name).stem.rpartition('-')[2]]}]({place}/{name})\n"
    for grid in tables.grids(result):
        yield f"{grid.title}:\n\n{tables.markdown(grid)}"
    yield f"{words.notes(result)}\n"
    if found := words.differences(result):
        yield "Not as in the paper:\n\n" + "".join(f"- {line}\n" for line in found)
    code = f"commit {saved.commit}" if saved.commit else f"federico {saved.versions['federico']}"
    with_what = f"{code}, torch {saved.versions['torch']}, {saved.machine}"
    yield f"{words.extent(result).capitalize()}; {saved.seconds:,.0f} seconds in all. {with_what.capitalize()}.\n"
    yield f"```\n{saved.command}\n```\n"
