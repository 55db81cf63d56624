from dataclasses import replace

import numpy as np
import pytest

from federico.compare import figures
from federico.compare.result import Result
from federico.report.old.summary import Curve, title_of


def test_the_overview_has_every_row_and_the_papers_diamonds(result: Result) -> None:
    two, four = figures.overview(result).axes
    assert [label.get_text() for label in two.get_yticklabels()] == ["FedeRiCo", "Local", "FedAvg"]
    means = [entry.mean for entry in result.column("two", "best")]
    drawn = [
        float(np.asarray(dots.get_offsets())[0, 0])
        for dots in two.collections
        if len(dots.get_offsets()) == 1
    ]
    assert drawn == pytest.approx([100 * means[0], 56.61, 100 * means[1], 40.09, 100 * means[2]])
    assert len(four.collections) == 6, "a dot per run and a mean for each row, no diamonds"


def test_a_row_that_is_still_to_come_takes_no_room(result: Result) -> None:
    first, *others = result.rows
    begun = replace(result, entries=[entry for entry in result.entries if entry.row != first])
    leftmost = figures.overview(begun).axes[0]
    assert [label.get_text() for label in leftmost.get_yticklabels()] == [
        title_of(row) for row in others
    ]


def test_a_column_that_is_still_to_come_leaves_no_empty_panel(result: Result) -> None:
    begun = replace(result, entries=[entry for entry in result.entries if entry.column == "two"])
    assert len(figures.overview(begun).axes) == 1
    assert len(figures.cost(begun).axes) == 2


def test_cost_curves_end_at_the_result(result: Result) -> None:
    left, right = figures.cost(result).axes[:2]
    entry = result.entry("fedavg", "two", "best")
    assert entry is not None
    for axes, spent in ((left, entry.bytes_moved[-1] / 1e6), (right, entry.processor_seconds[-1])):
        (line,) = (line for line in axes.lines if line.get_label() == "FedAvg")
        x, y = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
        assert (x[-1], y[-1]) == pytest.approx((spent, 100 * entry.mean))


def test_a_method_that_sends_nothing_is_a_level_line(result: Result) -> None:
    left = figures.cost(result).axes[0]
    (line,) = (line for line in left.lines if line.get_label() == "Local")
    local = result.entry("local", "two", "best")
    assert local is not None
    assert np.asarray(line.get_ydata()) == pytest.approx([100 * local.mean] * 2)


def test_errors_of_untrained_models_leave_room_for_the_rest(result: Result) -> None:
    curves = [
        replace(entry, curve=Curve([1, 2], [50.0, 0.4], [0.0, 0.0])) for entry in result.entries
    ]
    errors = replace(result, task="regression", entries=curves)
    assert figures.cost(errors).axes[0].get_ylim() == pytest.approx((0, 0.6))
    assert figures.cost(result).axes[0].get_ylim()[1] > 0.6, "accuracies are shown as they are"
