from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from federico.api.progress import Quiet
from federico.experiment.grid import load_grid
from federico.experiment.runner import run_grid
from federico.paper.figures import draw_figure, shown_cells, write_figure
from federico.presets import preset
from federico.report.drawing import render
from federico.runs.table import read_table, write_table
from tests.support.results import make_table
from tests.support.run_folders import learning, write_cell

FORTY = [0.2, 0.4]


def make_run(folder: Path, *rows: str, **table: Any) -> Path:
    """A finished run of two rounds whose rows all have posteriors."""
    write_table(folder, make_table(*rows, rounds=2, **table))
    for row in rows:
        write_cell(folder, row, *learning(*FORTY), settings=f"of {row}")
    return folder


def titles(figure: Figure) -> list[str]:
    render(figure)
    return [axes.get_title(loc="left") for axes in figure.axes]


def test_a_run_that_asks_for_no_figure_has_none(tmp_path: Path) -> None:
    make_run(tmp_path, "federico")

    assert write_figure(tmp_path) is None
    assert not (tmp_path / "figure.png").exists()


def test_posteriors_have_a_panel_for_each_client(tmp_path: Path) -> None:
    make_run(tmp_path, "federico", figure={"draw": "posteriors"}, title="Figure 3")

    figure = draw_figure(tmp_path)

    assert figure is not None
    assert titles(figure) == ["a", "b", "c"]
    assert figure.get_suptitle() == "Figure 3"


def test_variants_have_a_panel_for_each_row_and_client(tmp_path: Path) -> None:
    make_run(tmp_path, "fast", "slow", figure={"draw": "variants", "clients": [0, 2]})

    figure = draw_figure(tmp_path)

    assert figure is not None
    assert titles(figure) == [
        "fast: client 0", "fast: client 2", "slow: client 0", "slow: client 2",
    ]  # fmt: skip


def test_curves_have_a_panel_for_each_group_of_rows(tmp_path: Path) -> None:
    run = make_run(tmp_path, "one", "two", "three", figure={"draw": "curves"})
    table = read_table(run)
    panels = {"one": "few", "two": "few", "three": "many"}
    rows = tuple(row.model_copy(update={"panel": panels[row.name]}) for row in table.rows)
    write_table(run, table.model_copy(update={"rows": rows}))

    figure = draw_figure(run)

    assert figure is not None
    assert titles(figure) == ["few", "many"]
    left, right = figure.axes
    assert [len(left.get_lines()), len(right.get_lines())] == [2, 1]


@pytest.mark.parametrize("draw", ["posteriors", "variants"])
def test_nothing_is_drawn_before_all_rows_are_finished(tmp_path: Path, draw: str) -> None:
    write_table(tmp_path, make_table("fast", "slow", rounds=2, figure={"draw": draw}))
    write_cell(tmp_path, "fast", *learning(*FORTY))
    write_cell(tmp_path, "slow", *learning(0.2), finished=False)

    assert write_figure(tmp_path) is None


def test_the_figure_lies_beside_the_results(tmp_path: Path) -> None:
    make_run(tmp_path, "federico", figure={"draw": "posteriors"})

    assert write_figure(tmp_path) == tmp_path / "figure.png"
    for name in ("figure.png", "figure-dark.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


def test_figure_1_is_drawn_from_a_run_of_its_preset(tmp_path: Path) -> None:
    grid = load_grid(preset("figure1"), ["rounds=2", "seeds=[10]"])
    run_grid(grid, tmp_path, Quiet())

    figure = draw_figure(tmp_path / "figure1")

    assert figure is not None
    assert titles(figure) == [
        "Each client's points and what it predicts",
        "Whose models each client uses",
    ]
    left, right = figure.axes
    assert len(left.get_lines()) == 1 + 10 + 1, "the sine, a line for each client, and FedAvg's"
    heights = [bar.get_y() + bar.get_height() for bar in right.patches]  # type: ignore[attr-defined]
    assert max(heights) == pytest.approx(100)


def test_figures_show_the_first_seed_and_column_at_the_given_rate(tmp_path: Path) -> None:
    table = make_table("federico", rounds=2, seeds=(3, 4), columns=("two", "four"))
    write_table(tmp_path, table)
    for seed in (4, 3):
        for column in ("four", "two"):
            write_cell(
                tmp_path,
                "federico",
                *learning(*FORTY),
                seed=seed,
                column=column,
                settings=column,
            )

    cell = shown_cells(tmp_path, table)["federico"]

    assert (cell.description.seed, cell.description.column) == (3, "two")
