"""Tables for a terminal, however narrow."""

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Group
from rich.table import Table
from rich.text import Text

from federico.compare.tables import PAPER, SECONDS, Grid

STAYS = (PAPER, SECONDS)
"""Columns that are not parted from the one before."""


def for_terminal(grid: Grid, width: int) -> Group:
    """With the best in bold; what is too wide goes on below, with the names of the rows again.

    A heading may take several lines, a figure never does.
    """
    whole = [_width(grid, place, [heading]) for place, heading in enumerate(grid.headings)]
    parts = [list(range(1, len(whole)))]
    if _total(whole) > width:
        whole = [
            _width(grid, place, heading.split()) for place, heading in enumerate(grid.headings)
        ]
        parts = _parts(grid, whole, width)
    return Group(
        Text(f" {grid.title}", "bold"),
        *(_terminal_table(grid, [0, *part], whole) for part in parts),
        "",
    )


def _width(grid: Grid, place: int, heading: Sequence[str]) -> int:
    """Of a column whose heading is broken into these pieces."""
    return max(
        cell_len(text) for text in ["", *heading, *(line[place].text for line in grid.lines)]
    )


def _total(widths: Sequence[int]) -> int:
    """With three spaces between columns, and one at either end."""
    return sum(widths) + 3 * len(widths) - 1


def _parts(grid: Grid, widths: Sequence[int], width: int) -> list[list[int]]:
    """Columns that fit side by side after the names."""
    parts: list[list[int]] = [[]]
    for place in range(1, len(widths)):
        follows = grid.headings[place + 1 : place + 2]
        together = [place, place + 1] if follows and follows[0] in STAYS else [place]
        if parts[-1] and _total([widths[each] for each in [0, *parts[-1], *together]]) > width:
            parts.append([])
        parts[-1].append(place)
    return parts


def _terminal_table(grid: Grid, places: Sequence[int], widths: Sequence[int]) -> Table:
    table = Table(box=SIMPLE_HEAD, show_edge=False)
    for place in places:
        table.add_column(
            Text(grid.headings[place]), justify="right" if place else "left", width=widths[place]
        )
    for line in grid.lines:
        table.add_row(
            *(Text(line[place].text, "bold" if line[place].bold else "") for place in places)
        )
    return table
