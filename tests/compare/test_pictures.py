from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from federico.compare.pictures import picture
from federico.experiment.build import prepare
from federico.report.old.drawing import render

SINE: dict[str, Any] = {
    "methods": ["federico", "fedavg"],
    "seeds": [0],
    "split": {},
    "data": {"kind": "sine", "clients": 4},
    "partition": {"kind": "natural"},
}
ONE: dict[str, Any] = {"at": ["given"], "columns": [{}], "paper": {}}


def test_no_figure_unless_asked_for(played: Any) -> None:
    assert picture(played.study, played.folder, played.result) is None


def test_figure_1_has_a_line_per_client_and_bars_that_add_up(play: Any, tiny: Any) -> None:
    found = play(tiny(ONE | {"figure": {"draw": "lines"}}, **SINE))
    figure = picture(found.study, found.folder, found.result)
    assert figure is not None
    left, right = figure.axes
    assert len(left.lines) == 1 + 4 + 1, "the sine, a line per client, FedAvg's"
    heights = np.array([bar.get_height() for bar in right.patches]).reshape(4, 4)
    assert heights.sum(axis=0) == pytest.approx(np.full(4, 100.0))
    ends = [float(np.ptp(np.asarray(line.get_xdata()))) for line in left.lines[1:5]]
    clients = prepare(found.told.expected[0].experiment, 0).clients
    assert ends == pytest.approx([float(np.ptp([*c.train.x, *c.test.x])) for c in clients])
    assert render(figure)


def test_figure_1_waits_for_all_its_runs(play: Any, tiny: Any) -> None:
    found = play(tiny(ONE, **SINE | {"methods": ["federico"]}))
    wanted = tiny(ONE | {"figure": {"draw": "lines"}}, **SINE)
    assert picture(wanted, found.folder, found.result) is None


def test_runs_shorter_than_those_that_were_saved_are_not_drawn(play: Any, tiny: Any) -> None:
    figure = ONE | {"figure": {"draw": "posteriors"}}
    found = play(tiny(figure, methods=["federico"], seeds=[0]))
    once = tiny(figure, methods=["federico"], seeds=[0], rounds=1)
    assert picture(once, found.folder, replace(found.result, entries=[])) is not None
    assert picture(once, found.folder, found.result) is None


@pytest.mark.parametrize(
    ("method", "legend"), [("federico", "own model"), ("fedem", "component 1")]
)
def test_weights_over_rounds_have_a_panel_per_client(
    play: Any, tiny: Any, method: str, legend: str
) -> None:
    found = play(tiny(ONE | {"figure": {"draw": "posteriors"}}, methods=[method], seeds=[0]))
    figure = picture(found.study, found.folder, found.result)
    assert figure is not None
    assert len(figure.axes) == 4
    assert legend in [text.get_text() for text in figure.legends[0].get_texts()]


def test_variants_are_drawn_beside_each_other(play: Any, tiny: Any) -> None:
    rows = [{"name": f"β = {beta}", "set": {"federico.momentum": beta}} for beta in (0.1, 0.9)]
    found = play(
        tiny(ONE | {"rows": rows, "figure": {"draw": "variants", "clients": [0, 3]}}, seeds=[0])
    )
    figure = picture(found.study, found.folder, found.result)
    assert figure is not None
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        "β = 0.1: client 0", "β = 0.1: client 3", "β = 0.9: client 0", "β = 0.9: client 3",
    ]  # fmt: skip


def test_curves_are_grouped_into_panels(play: Any, tiny: Any) -> None:
    rows = [
        {"name": "M = 0", "panel": "M", "set": {"federico.neighbors": 0}},
        {"name": "M = 2", "panel": "M"},
        {"name": "ε = 1", "panel": "ε", "set": {"federico.epsilon": 1.0}},
    ]
    found = play(tiny(ONE | {"rows": rows, "figure": {"draw": "curves"}}, seeds=[0]))
    figure = picture(found.study, found.folder, found.result)
    assert figure is not None
    labels = [[line.get_label() for line in axes.lines] for axes in figure.axes]
    assert labels == [["M = 0", "M = 2"], ["ε = 1"]]
