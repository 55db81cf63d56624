"""A table of texts, and how it is written: for a terminal, in Markdown, in LaTeX."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderResult
from rich.table import Table as TerminalTable
from rich.text import Text

NOTHING = "-"
PAPER = "paper"
SECONDS = "processor s"
STAYS = (PAPER, SECONDS)
"""Columns that a narrow terminal does not part from the one before."""
ESCAPED_IN_LATEX = {
    "\\": r"\textbackslash ",
    "&": r"\&",
    "%": r"\%",
    "#": r"\#",
    "_": r"\_",
    "$": r"\$",
    "<": "$<$",
    "±": r"$\pm$",
    "\N{MINUS SIGN}": "$-$",
}


@dataclass(frozen=True)
class TableCell:
    """What stands in one place of a table."""

    text: str
    bold: bool = False


MISSING = TableCell(NOTHING)


@dataclass(frozen=True)
class TextTable:
    """A table, the names of its rows in the first column."""

    title: str
    headings: list[str]
    lines: list[list[TableCell]]


def markdown(table: TextTable) -> str:
    """The table in Markdown, without its title."""
    figures = len(table.headings) - 1
    rule = ["---"] + ["---:"] * figures
    written = _markdown_line(table.headings)
    written += _markdown_line(rule)

    for line in table.lines:
        texts = []
        for cell in line:
            shown = cell.text
            if cell.bold:
                shown = f"**{shown}**"
            texts.append(shown)
        written += _markdown_line(texts)
    return written


def _markdown_line(texts: Sequence[str]) -> str:
    joined = " | ".join(each.replace("|", "/") for each in texts)
    return f"| {joined} |\n"


def latex(table: TextTable) -> str:
    """The table in LaTeX, with the rules of the package booktabs."""
    headings = [TableCell(heading) for heading in table.headings]
    body = [_latex_line(line) for line in table.lines]
    figures = len(table.headings) - 1
    columns = "l" + "r" * figures
    parts = [
        f"% {table.title}",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        _latex_line(headings),
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(parts) + "\n"


def _latex_line(line: Sequence[TableCell]) -> str:
    texts = []
    for cell in line:
        shown = cell.text
        for character, escaped in ESCAPED_IN_LATEX.items():
            shown = shown.replace(character, escaped)
        if cell.bold:
            shown = rf"\textbf{{{shown}}}"
        texts.append(shown)
    joined = " & ".join(texts)
    return rf"{joined} \\"


class ForTerminal:
    """A table for a terminal, however narrow.

    What is too wide continues below, with the names of the rows again. A heading may take several
    lines, a figure never does.
    """

    def __init__(self, table: TextTable) -> None:
        self.table = table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Called by rich when the table is printed."""
        table = self.table
        on_one_line = []
        broken = []
        for place, heading in enumerate(table.headings):
            on_one_line.append(_width(table, place, [heading]))
            broken.append(_width(table, place, heading.split()))

        if _total(on_one_line) <= options.max_width:
            widths = on_one_line
            parts = [list(range(1, len(widths)))]
        else:
            widths = broken
            parts = _side_by_side(table, widths, options.max_width)

        yield Text(f" {table.title}", "bold")
        for part in parts:
            yield _terminal_part(table, [0, *part], widths)
        yield ""


def _width(table: TextTable, place: int, heading: Sequence[str]) -> int:
    """The width of a column whose heading is broken into these pieces."""
    texts = list(heading)
    for line in table.lines:
        texts.append(line[place].text)
    return max(map(cell_len, texts), default=0)


def _total(widths: Sequence[int]) -> int:
    """The width of columns with three spaces between them, and one at either end."""
    return sum(widths) + 3 * len(widths) - 1


def _side_by_side(table: TextTable, widths: Sequence[int], width: int) -> list[list[int]]:
    """Columns that fit side by side after the names."""
    headings = [*table.headings, ""]
    parts: list[list[int]] = [[]]
    for place in range(1, len(widths)):
        together = [place]
        if headings[place + 1] in STAYS:
            together.append(place + 1)

        line = [0, *parts[-1], *together]
        needed = _total([widths[each] for each in line])
        if parts[-1] and needed > width:
            parts.append([])
        parts[-1].append(place)
    return parts


def _terminal_part(table: TextTable, places: Sequence[int], widths: Sequence[int]) -> TerminalTable:
    drawn = TerminalTable(box=SIMPLE_HEAD, show_edge=False)
    for place in places:
        justify: JustifyMethod = "right"
        if place == 0:
            justify = "left"
        heading = Text(table.headings[place])
        drawn.add_column(heading, justify=justify, width=widths[place])

    for line in table.lines:
        texts = []
        for place in places:
            cell = line[place]
            style = ""
            if cell.bold:
                style = "bold"
            texts.append(Text(cell.text, style))
        drawn.add_row(*texts)
    return drawn
