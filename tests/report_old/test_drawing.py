import numpy as np
import pytest
from matplotlib.figure import Figure

from federico.report.old.drawing import (
    GROUP_COLORS,
    NO_GROUP,
    by_group,
    group_colors,
    method_place,
    render,
    short,
    ticks,
)


def test_a_distribution_keeps_one_colour() -> None:
    assert group_colors([7, 3, 7], 3) == [GROUP_COLORS[1], GROUP_COLORS[0], GROUP_COLORS[1]]
    assert group_colors(None, 2) == [NO_GROUP, NO_GROUP]


def test_more_distributions_than_the_palette_still_differ() -> None:
    assert len(set(group_colors(list(range(20)), 20))) == 20


def test_clients_are_ordered_by_distribution_and_drawn_evenly_from_all() -> None:
    assert by_group([1, 0, 1, 0], 4, 10).tolist() == [1, 3, 0, 2]
    chosen = by_group([0] * 50 + [1] * 50, 100, 5)
    assert chosen.tolist() == [0, 24, 49, 74, 99]
    assert by_group(None, 3, 3).tolist() == [0, 1, 2]


def test_long_names_are_cut_and_line_breaks_removed() -> None:
    assert short("St.\nGallen") == "St. Gallen"
    assert short("abcdef", 4) == "abc\N{HORIZONTAL ELLIPSIS}"


def test_local_is_always_the_same_grey_and_an_unknown_method_has_a_colour() -> None:
    assert method_place("local") == 1
    assert method_place("not a method") >= 0


def test_few_enough_ticks_to_read() -> None:
    axes = Figure().subplots()
    ticks(axes, "x", [f"client {i}" for i in range(500)])
    labels = [label.get_text() for label in axes.get_xticklabels()]
    assert labels[0] == "client 0"
    assert 10 <= len(labels) <= 20


@pytest.mark.parametrize("name", ["$unbalanced", "$\\frac{$", "北京"])
def test_any_name_can_be_drawn(name: str) -> None:
    figure = Figure()
    ticks(figure.subplots(), "y", [name])
    assert render(figure).startswith(b"\x89PNG")


def test_order_is_an_index_array() -> None:
    assert np.array(["a", "b"])[by_group([1, 0], 2, 2)].tolist() == ["b", "a"]
