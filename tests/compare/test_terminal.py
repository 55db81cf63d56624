import io

import pytest
from rich.console import Console

from federico.compare.tables import Grid, TableCell
from federico.compare.terminal import for_terminal

HEADINGS = ["", "2 distributions", "paper", "3 distributions", "paper", "MB moved", "processor s"]
VALUES = [
    "FedAvg and more",
    "15.6 ± 13.6",
    "12.3 ± 10.9",
    "14.4 ± 15.3",
    "56.6 ± 12.5",
    "1,234.5",
    "12,345.6",
]
GRID = Grid("Accuracy [of all] (%)", HEADINGS, [[TableCell(value) for value in VALUES]])


def shown(grid: Grid, width: int) -> list[str]:
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(for_terminal(grid, width))
    return console.export_text().splitlines()


@pytest.mark.parametrize("width", [200, 100, 80, 60, 47])
def test_no_figure_is_broken_or_lost_however_narrow(width: int) -> None:
    lines = shown(GRID, width)
    assert max(map(len, lines)) <= width
    assert [sum(line.count(value) for line in lines) for value in VALUES[1:]] == [1] * 6
    rows = [line for line in lines if "FedAvg" in line]
    assert all("FedAvg and more" in row for row in rows), "every part names the rows"
    assert (len(rows) == 1) == (width >= 99)


def test_what_belongs_together_stays_together() -> None:
    for width in range(47, 110):
        rows = [line for line in shown(GRID, width) if "FedAvg" in line]
        for first, second in ((1, 2), (3, 4), (5, 6)):
            assert any(VALUES[first] in row and VALUES[second] in row for row in rows)


def test_names_are_shown_as_they_are_and_the_title_once() -> None:
    lines = shown(
        Grid(
            "A [red]title[/red] of many words",
            ["", "[x] y"],
            [[TableCell("[bold]a"), TableCell("1", True)]],
        ),
        16,
    )
    text = "\n".join(lines)
    assert "[red]title" in text
    assert "[x]" in text
    assert "[bold]a" in text
