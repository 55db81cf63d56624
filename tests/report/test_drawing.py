import pytest
from matplotlib.figure import Figure

from federico.report.drawing import (
    METHOD_COLORS,
    group_colors,
    looks,
    render,
    sheet,
    short,
    ticks,
    true_groups,
)
from tests.support.results import make_row


def test_methods_keep_their_colours_whatever_stands_beside_them() -> None:
    rows = [make_row("mine"), make_row("local"), make_row("federico")]

    found = looks(rows)

    assert found["federico"].color == METHOD_COLORS["federico"]
    assert found["local"].color == METHOD_COLORS["local"]


def test_methods_of_ones_own_get_colours_of_their_own() -> None:
    rows = [make_row(f"mine-{number}") for number in range(5)]
    rows += [make_row(method) for method in METHOD_COLORS]

    found = looks(rows)

    assert len({look.color for look in found.values()}) == len(rows)


def test_variants_of_one_method_share_its_colour_and_differ_in_their_lines() -> None:
    rows = [make_row("a", method="mine"), make_row("b", method="mine")]

    found = looks(rows)

    assert found["a"].color == found["b"].color
    assert found["a"].line != found["b"].line


@pytest.mark.parametrize("distribution", [None, [0, 1, 2], [4, 4, 4]])
def test_groups_that_group_nobody_are_no_groups(distribution: list[int] | None) -> None:
    assert true_groups(distribution) is None


def test_many_distributions_have_as_many_colours() -> None:
    assert len(set(group_colors(list(range(30)), 30))) == 30
    assert len(set(group_colors([0, 0, 1], 3))) == 2


def test_long_names_are_cut() -> None:
    assert short("a name of no great length", 10) == "a name of\N{HORIZONTAL ELLIPSIS}"
    assert short("a \n b") == "a b"


def test_long_titles_take_several_lines() -> None:
    figure = sheet(4, 3, "A title that says so much that it does not fit on one line")

    assert "\n" in figure.get_suptitle()


def test_of_many_names_only_some_are_written() -> None:
    figure = sheet(4, 3, "")
    axes = figure.subplots()

    ticks(axes, "y", [str(number) for number in range(1000)])

    assert 10 < len(axes.get_yticks()) <= 32


def test_names_in_any_script_are_drawn() -> None:
    figure = Figure()
    figure.text(0.5, 0.5, "東京 $x$", parse_math=False)

    assert render(figure).startswith(b"\x89PNG")


def test_no_line_of_a_title_begins_with_a_unit() -> None:
    figure = sheet(4, 3, "A row reaches 90.0 % accuracy: 95 % interval")
    lines = figure.get_suptitle().split("\n")
    assert not [line for line in lines if line.startswith("%")]
    assert " ".join(lines) == "A row reaches 90.0 % accuracy: 95 % interval"
