from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from federico.report.aggregate import aggregate
from federico.report.details import RunDetails, read_details, summarize
from federico.report.drawing import render
from federico.report.figures import (
    CAPTIONS,
    caption,
    cost,
    draw_all,
    overview,
    partition,
    rounds,
)
from federico.report.posteriors import panels, read_posteriors
from federico.runs.table import write_table
from tests.support.results import STORED, make_aggregate, make_cell, make_table, two_columns
from tests.support.run_folders import learning, write_cell

NO_CELLS = RunDetails([], None)


def drawn(figure: Figure) -> list[Axes]:
    render(figure)
    return figure.axes


def texts(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def test_a_run_with_cells_has_all_pictures(tmp_path: Path) -> None:
    table = make_table(rounds=2)
    write_table(tmp_path, table)
    write_cell(tmp_path, "federico", *learning(0.5, 0.9))
    write_cell(
        tmp_path,
        "local",
        {"figures": {"accuracy": [0.4] * 3}},
        {"figures": {"accuracy": [0.5] * 3}},
    )

    pictures = dict(draw_all(summarize(tmp_path), read_details(tmp_path, table)))

    assert list(pictures) == [
        "overview", "rounds", "cost", "clients", "collaboration", "partition",
    ]  # fmt: skip
    assert pictures.keys() <= CAPTIONS.keys()
    assert all(render(figure).startswith(b"\x89PNG") for figure in pictures.values())


def test_results_without_cells_have_the_pictures_that_need_none() -> None:
    assert [name for name, _ in draw_all(two_columns(), NO_CELLS)] == ["overview", "cost"]
    single = aggregate(make_table(rounds=2, stored=STORED), [], [make_aggregate()])
    assert [name for name, _ in draw_all(single, NO_CELLS)] == [
        "overview", "rounds", "cost", "clients",
    ]  # fmt: skip


def test_nothing_is_drawn_before_the_first_evaluation() -> None:
    summary = aggregate(make_table(), [], unfinished=[make_cell("federico", rounds=1)])

    assert list(draw_all(summary, NO_CELLS)) == []


def test_variants_of_one_method_are_not_compared_by_cost() -> None:
    rows = [make_cell("a", 0.5, 0.6, method="mine"), make_cell("b", 0.5, 0.6, method="mine")]
    table = make_table("a", "b", rounds=2)
    same_method = tuple(row.model_copy(update={"method": "mine"}) for row in table.rows)
    summary = aggregate(table.model_copy(update={"rows": same_method}), rows)

    assert "cost" not in dict(draw_all(summary, NO_CELLS))


def test_pictures_of_several_columns_can_be_read_on_a_telephone() -> None:
    for figure in (overview(two_columns()), cost(two_columns()), rounds(two_columns())):
        above, *_, below = drawn(figure)
        assert figure.get_figwidth() < 6.5, "inches: 390 pixels of a page leave 6 for a letter"
        assert above.get_position().y0 > below.get_position().y1, "below each other"


def test_methods_of_which_one_has_two_rows_are_compared_by_cost() -> None:
    rows = [make_cell("federico", 0.5, 0.6), make_cell("local", 0.5, 0.6)]
    rows.append(make_cell("the paper's rule", 0.5, 0.6, method="federico"))
    table = make_table("federico", "local", "the paper's rule", rounds=2)
    first, second, third = table.rows
    changed = (first, second, third.model_copy(update={"method": "federico"}))
    summary = aggregate(table.model_copy(update={"rows": changed}), rows)
    left, _ = drawn(dict(draw_all(summary, NO_CELLS))["cost"])
    of_federico = [line for line in left.get_lines() if line.get_color() == "#0072B2"]
    assert len({str(line.get_linestyle()) for line in of_federico}) == 2


def test_the_overview_has_a_panel_for_each_column_and_says_every_mean() -> None:
    left, right = drawn(overview(two_columns()))

    assert [label.get_text() for label in left.get_yticklabels()] == ["FedeRiCo", "Local", "FedAvg"]
    assert texts(left) == ["96.0", "76.0", "56.0"], "at the best rates"
    assert texts(right) == ["86.0", "76.0", "66.0"]


def keys(figure: Figure) -> list[str]:
    (legend,) = figure.legends
    return [entry.get_text() for entry in legend.get_texts()]


def test_a_single_run_is_called_one_and_has_no_deviation() -> None:
    cells = [make_cell("federico", 0.5, 0.884), make_cell("local", 0.5, 0.881)]
    single = aggregate(make_table(rounds=2), cells)
    assert keys(overview(single)) == ["a single run"]
    assert "single run" in caption("overview", single)
    assert keys(overview(two_columns()))[:2] == ["mean, standard deviation", "a run"]
    assert caption("overview", two_columns()) == CAPTIONS["overview"]


def test_a_tenth_of_a_point_does_not_look_like_a_difference() -> None:
    cells = [make_cell("federico", 0.5, 0.884), make_cell("local", 0.5, 0.881)]
    (axes,) = drawn(overview(aggregate(make_table(rounds=2), cells)))
    low, high = axes.get_xlim()
    assert high - low == pytest.approx(5)
    assert low < 88.1
    assert high > 88.4
    far_apart = [make_cell("federico", 0.5, 0.9), make_cell("local", 0.5, 0.7)]
    (axes,) = drawn(overview(aggregate(make_table(rounds=2), far_apart)))
    low, high = axes.get_xlim()
    assert 20 < high - low < 26


def test_columns_with_little_between_their_rows_do_not_hide_rows_of_other_columns() -> None:
    table = make_table(rounds=2, columns=["near", "far"])
    cells = []
    for row, near, far in (("federico", 0.965, 0.964), ("local", 0.964, 0.534)):
        cells.append(make_cell(row, 0.5, near, column="near"))
        cells.append(make_cell(row, 0.5, far, column="far"))

    for axes in drawn(overview(aggregate(table, cells))):
        low, high = axes.get_xlim()
        assert low < 53.4
        assert high > 96.5


def test_what_was_measured_in_a_single_round_is_a_dot() -> None:
    cells = [make_cell("federico", 0.9), make_cell("local", 0.7)]
    left, _ = drawn(cost(aggregate(make_table(rounds=1), cells)))
    markers = {line.get_label(): line.get_marker() for line in left.get_lines()}
    assert markers["FedeRiCo"] == "o"


def test_the_key_names_only_distributions_that_are_drawn(tmp_path: Path) -> None:
    rounds_played = []
    for weights in ({"a": 1.0}, {"a": 0.6, "b": 0.4}):
        posterior = [weights, {"a": 0.5, "b": 0.5}, {"c": 1.0}]
        rounds_played.append({"posterior": posterior, "figures": {"accuracy": [0.5] * 3}})
    cell = write_cell(tmp_path, "federico", *rounds_played)
    of_all = read_posteriors(cell)
    of_first = read_posteriors(cell, [0])
    assert of_all is not None
    assert of_first is not None
    assert keys(panels(of_all, "all")) == ["own model", "distribution 0", "distribution 1"]
    assert keys(panels(of_first, "first")) == ["own model", "distribution 0"]


def test_columns_still_to_come_take_no_room() -> None:
    summary = two_columns()
    first = [entry for entry in summary.entries if entry.column == "two"]

    assert len(drawn(overview(replace(summary, entries=first)))) == 1


def test_the_trust_of_clients_stands_beside_the_overview(tmp_path: Path) -> None:
    write_table(tmp_path, make_table("federico", rounds=2))
    cell = write_cell(tmp_path, "federico", *learning(0.5, 0.9))

    figure = overview(summarize(tmp_path), read_posteriors(cell))

    _, right = drawn(figure)
    assert figure.get_suptitle() == "FedeRiCo reaches 90.0 % accuracy"
    cells = ["60", "40", "", "30", "70", "", "10", "", "90"]
    assert texts(right) == [*cells, "distribution 0", "distribution 1"]


def test_a_narrow_overview_has_trust_below_and_cuts_no_title(tmp_path: Path) -> None:
    write_table(tmp_path, make_table("federico", rounds=2))
    cell = write_cell(tmp_path, "federico", *learning(0.5, 0.9))
    figure = overview(summarize(tmp_path), read_posteriors(cell), narrow=True)

    above, below = drawn(figure)
    assert above.get_position().y0 > below.get_position().y1
    for text in figure.findobj(Text):
        assert text.get_window_extent().x1 <= figure.bbox.x1


def test_diverged_rows_are_drawn_as_gaps() -> None:
    diverged = make_cell("federico", 0.0, 0.0, task="regression",
                         figures={name: [[None] * 3, [None] * 3] for name in ("r2", "loss")}
                         )  # fmt: skip
    errors = [[9.0] * 3, [0.5] * 3]
    r2 = [[-9.0] * 3, [-0.5] * 3]
    fine = make_cell("local", 0.0, 0.0, task="regression", figures={"r2": r2, "loss": errors})
    summary = aggregate(make_table(rounds=2), [diverged, fine])

    (axes,) = drawn(rounds(summary))
    drawn(overview(summary))
    drawn(cost(summary))

    assert axes.get_ylim() == pytest.approx((-0.75, 0.2)), (
        "the first rounds leave room for the last"
    )


def test_a_method_that_moves_nothing_is_a_level_line() -> None:
    cells = [
        make_cell("federico", 0.5, 0.6),
        make_cell("local", 0.4, 0.5, bytes_by_round=[0, 0]),
    ]

    left, _ = drawn(cost(aggregate(make_table(rounds=2), cells)))

    level = left.get_lines()[1]
    assert list(level.get_ydata()) == [50, 50]


def test_the_band_of_r2_lies_around_its_line_below_zero_too() -> None:
    cells = []
    for seed, explained in enumerate((-0.2, -0.4)):
        figures = {"r2": [[explained] * 3] * 2, "loss": [[1 - explained] * 3] * 2}
        cells.append(make_cell("local", 0.0, 0.0, seed=seed, task="regression", figures=figures))
    summary = aggregate(make_table("local", rounds=2, seeds=(0, 1)), cells)

    (axes,) = drawn(rounds(summary))

    (band,) = axes.collections
    low, high = band.get_datalim(axes.transData).intervaly
    assert low < -0.4 < -0.2 < high < 0


def test_many_cells_have_a_key_of_shades_instead_of_texts(tmp_path: Path) -> None:
    names = [str(number) for number in range(20)]
    about = {
        "clients": names,
        "distribution": None,
        "train_samples": [1] * 20,
        "test_samples": [1] * 20,
        "label_counts": [[1, 0]] * 20,
    }
    cell = write_cell(tmp_path, "local", {"figures": {"accuracy": [0.5] * 20}}, **about)

    (axes,) = drawn(partition(cell.description))

    (key,) = axes.child_axes
    assert [each.get_text() for each in key.texts] == ["samples"]
    assert not axes.texts


def test_posteriors_of_many_clients_are_drawn_for_some(tmp_path: Path) -> None:
    names = [str(number) for number in range(300)]
    posterior = [{name: 1.0} for name in names]
    many = {
        "clients": names,
        "distribution": None,
        "train_samples": [1] * 300,
        "test_samples": [1] * 300,
        "label_counts": [[1, 0]] * 300,
    }
    cell = write_cell(
        tmp_path, "federico", {"figures": {"accuracy": [0.5] * 300}, "posterior": posterior}, **many
    )
    shown = read_posteriors(cell)
    assert shown is not None

    figure = panels(shown, "Weights")

    assert len(drawn(figure)) == 12
    assert figure.get_suptitle() == "Weights, 12 of 300 clients"
    assert "256 of 300 clients" in partition(cell.description).get_suptitle()
    summary = aggregate(make_table("federico"), [make_cell("federico", 0.5)])
    first = dict(draw_all(summary, RunDetails([], shown)))["overview"]
    assert len(first.axes) == 1, "some of 300 clients say little about whom all of them trust"


def test_a_method_without_posteriors_has_none_to_draw(tmp_path: Path) -> None:
    cell = write_cell(tmp_path, "local", {"figures": {"accuracy": [0.5] * 3}})

    assert read_posteriors(cell) is None


def test_components_that_belong_to_nobody_are_named_in_the_legend(tmp_path: Path) -> None:
    components = {"posterior": [{"*one": 0.5, "*two": 0.5}] * 3, "figures": {"accuracy": [0.5] * 3}}
    shown = read_posteriors(write_cell(tmp_path, "fedem", components))
    assert shown is not None

    figure = panels(shown, "Weights")

    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["one", "two"]
    assert drawn(figure)[0].get_title(loc="left") == "a, distribution 0"


def test_regression_shows_samples_for_training_and_testing(tmp_path: Path) -> None:
    cell = write_cell(tmp_path, "federico", task="regression", label_names=[], label_counts=[])

    (axes,) = drawn(partition(cell.description))

    assert [patch.get_width() for patch in axes.patches[:2]] == [6, 3]  # type: ignore[attr-defined]
