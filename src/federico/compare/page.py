"""A study's own page and files, and its section of a page of results."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from federico.compare import figures, tables, words
from federico.compare.pictures import picture
from federico.compare.result import Result
from federico.compare.saved import OWN_FIGURE, Save, Saved
from federico.compare.study import Study
from federico.compare.studydir import StudyDir
from federico.report.old.drawing import render
from federico.report.old.page import embedded, template
from federico.runs.atomic import disk_errors, publish_bytes, publish_text

CAPTIONS = {
    "figure": "The figure of the paper, drawn from these runs.",
    "overview": "A large dot is a mean, a line one standard deviation, a small dot a run.",
    "cost": "How far each method gets with the megabytes it moves and the processor seconds it takes. A method that "
    "moves nothing is a level line at its end result.",
}


def images_of(study: Study, folder: StudyDir, result: Result) -> dict[str, bytes]:
    """The figures as PNGs: the paper's own first, if the study asks for one."""
    own = picture(study, folder, result)
    drawn = {} if own is None else {OWN_FIGURE: own}
    if len(study.rows) > 1:
        drawn["overview"] = figures.overview(result)
    if len({row.method for row in study.rows}) == len(study.rows) > 1:
        drawn["cost"] = figures.cost(result)
    return {name: render(figure) for name, figure in drawn.items()}


def write_study(
    folder: StudyDir, result: Result, images: Mapping[str, bytes], commands: Sequence[str]
) -> Path:
    """Tables, figures and one HTML page into a folder of their own beside the runs; returns the page."""
    grids = [*tables.grids(result), *tables.tuning(result)]
    place = folder.path / "comparison"
    with disk_errors(place):
        (place / "figures").mkdir(parents=True, exist_ok=True)
    for name, png in images.items():
        publish_bytes(place / "figures" / f"{name}.png", png)
    publish_text(
        place / "table.md", "\n".join(f"{grid.title}\n\n{tables.markdown(grid)}" for grid in grids)
    )
    publish_text(place / "table.tex", "\n".join(map(tables.latex, grids)))
    publish_text(place / "runs.csv", tables.as_csv(result))
    publish_text(place / "report.html", html(result, images, commands))
    return place / "report.html"


def html(result: Result, images: Mapping[str, bytes], commands: Sequence[str]) -> str:
    """One page that needs nothing else; names and commands are escaped by the template."""
    return template("federico.compare").render(
        result=result,
        headline=words.headline(result),
        extent=words.extent(result),
        beside=words.beside(result),
        differences=words.differences(result),
        notes=words.notes(result),
        grids=[*tables.grids(result), *tables.tuning(result)],
        pictures=[(CAPTIONS[name], embedded(png)) for name, png in images.items()],
        commands=commands,
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
    for grid in [*tables.grids(result), *tables.tuning(result)]:
        yield f"{grid.title}:\n\n{tables.markdown(grid)}"
    yield f"{words.notes(result)}\n"
    if found := words.differences(result):
        yield f"{words.beside(result)}:\n\n" + "".join(f"- {line}\n" for line in found)
    yield f"{words.extent(result).capitalize()}.\n"
    for number, save in enumerate(saved.saves):
        yield f"{_source(save, words.part(result, number) if len(saved.saves) > 1 else '')}\n"
        yield f"```\n{save.command}\n```\n"


def _source(save: Save, part: str) -> str:
    """What a command gave, and where it was run."""
    code = f"commit {save.commit}" if save.commit else f"federico {save.versions['federico']}"
    where = f"{save.seconds:,.0f} seconds in all, {code}, torch {save.versions['torch']}, {save.machine}"
    return f"{part}: {where}." if part else f"{where[0].upper()}{where[1:]}."
