"""Kept results as a section of a Markdown page, with a person's remarks on them."""

from collections.abc import Iterator
from html import escape
from pathlib import Path

from federico.report import text
from federico.report.details import summarize
from federico.report.figures import caption
from federico.report.table_summary import Summary
from federico.report.tables import all_tables
from federico.report.text_table import markdown
from federico.report.writing import DARK

REMARKS = "remarks.md"
"""What a person has to say about kept results, in a file beside them."""
PICTURES = ("figure", "overview", "cost")


def section(folder: Path, address: str) -> str:
    """The section of one folder of results; `address` leads from the page to that folder."""
    summary = summarize(folder)
    return "\n".join(_parts(summary, folder, address))


def picture(address: str, caption: str) -> str:
    """A picture and the one for a dark page as Markdown; `address` is without its ending."""
    return (
        "<picture>\n"
        f'  <source media="(prefers-color-scheme: dark)" srcset="{address}{DARK}.png">\n'
        f'  <img alt="{escape(caption)}" src="{address}.png">\n'
        "</picture>\n"
    )


def _parts(summary: Summary, folder: Path, address: str) -> Iterator[str]:
    """Headline, remarks, pictures, tables, and where the numbers come from."""
    paper = summary.table.paper
    yield f"## {summary.table.title}\n"
    yield f"{text.headline(summary)}\n"
    if paper.finding:
        yield f"**The paper** ({paper.where}): {paper.finding}\n"

    remarks = folder / REMARKS
    if remarks.exists():
        written = remarks.read_text(encoding="utf-8")
        yield f"{written.strip()}\n"
    for name in PICTURES:
        if (folder / f"{name}.png").exists():
            yield picture(f"{address}/{name}", caption(name, summary))

    for table in all_tables(summary):
        yield f"{table.title}:\n\n{markdown(table)}"
    yield f"{text.notes(summary)}\n"
    warning = text.worse_than_mean(summary)
    if warning:
        yield f"{warning}\n"

    differences = text.differences(summary)
    if differences:
        listed = f"{text.beside(summary)}:\n\n"
        for difference in differences:
            listed += f"- {difference}\n"
        yield listed
    yield f"{text.extent(summary).capitalize()}.\n"
    yield from _sources(summary)


def _sources(summary: Summary) -> Iterator[str]:
    """The commands, and what came from each of them."""
    for source in summary.sources:
        part = text.part(summary, source.command)
        origin = text.origin(source)
        if part and len(summary.sources) > 1:
            yield f"{part}: {origin}.\n"
        else:
            sentence = origin[0].upper() + origin[1:]
            yield f"{sentence}.\n"
        yield f"```\n{source.provenance.command}\n```\n"
