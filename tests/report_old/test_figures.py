from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from federico.report.old import figures
from federico.report.old.figures import GALLERY
from federico.report.old.posteriors import MOST_PANELS
from federico.report.old.summary import Summary, summarize
from federico.runs.layout import RunDir


def drawn(figure: Figure) -> bool:
    """Whether the picture holds more than one colour."""
    figure.set_dpi(40)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()  # type: ignore[no-untyped-call]
    pixels = np.asarray(canvas.buffer_rgba())  # type: ignore[no-untyped-call]
    return bool(pixels[..., :3].std() > 1)


def draw_all(summary: Summary) -> dict[str, bool]:
    return {
        picture.name: drawn(picture.draw(summary))
        for picture in GALLERY
        if picture.applies(summary)
    }


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for axes in figure.axes for text in axes.texts]


@pytest.fixture(scope="module")
def summary(simulated: Path) -> Summary:
    return summarize(RunDir(simulated))


def test_a_real_run_has_all_pictures(summary: Summary) -> None:
    assert draw_all(summary) == dict.fromkeys(
        ["overview", "rounds", "clients", "collaboration", "partition", "traffic"], True
    )


def test_the_overview_shows_methods_and_posteriors(summary: Summary) -> None:
    figure = figures.overview(summary)
    bars, heat = figure.axes
    assert [label.get_text() for label in bars.get_yticklabels()] == ["FedeRiCo", "Local", "FedAvg"]
    values = heat.images[0].get_array()
    assert values is not None
    assert np.asarray(values).sum(axis=1) == pytest.approx(np.ones(4))
    groups = summary.first.distribution
    assert groups is not None
    order = [summary.first.clients.index(label.get_text()) for label in heat.get_yticklabels()]
    assert [groups[client] for client in order] == sorted(groups)


def test_the_traffic_ends_at_the_total(summary: Summary) -> None:
    line = figures.traffic(summary).axes[0].lines[0]
    assert np.asarray(line.get_ydata())[-1] == pytest.approx(summary.methods[0].bytes_moved / 1e6)


def test_the_partition_shows_the_counts(tmp_path: Path, write_cell: Callable[..., None]) -> None:
    write_cell({})
    figure = figures.partition(summarize(RunDir(tmp_path)))
    assert sorted(filter(None, texts(figure))) == ["1", "3", "6"]


def test_a_band_never_goes_below_nothing(tmp_path: Path, write_cell: Callable[..., None]) -> None:
    write_cell({"accuracy": [0.0] * 3}, seed=0)
    write_cell({"accuracy": [0.4] * 3}, seed=1)
    band = figures.rounds(summarize(RunDir(tmp_path))).axes[0].collections[0]
    assert band.get_paths()[0].vertices[:, 1].min() == 0  # type: ignore[index, union-attr]


def chain(count: int) -> dict[str, Any]:
    """A cell of so many clients, in four distributions."""
    return {
        "clients": [f"hospital number {i}" for i in range(count)],
        "distribution": [i % 4 for i in range(count)],
        "train_samples": [5] * count,
        "test_samples": [5] * count,
        "label_names": [f"label {i}" for i in range(100)],
        "label_counts": [[1] * 100] * count,
    }


def many(count: int, **changes: Any) -> Any:
    names = [f"hospital number {i}" for i in range(count)]
    posterior = [{name: 0.5, names[(i + 4) % count]: 0.5} for i, name in enumerate(names)]
    return dict(
        accuracy=[0.5] * count,
        posterior=posterior,
        sent=[0] * count,
        received=[0] * count,
        **changes,
    )


@pytest.mark.parametrize("count", [64, 4096])
def test_many_clients_are_drawn_in_part_and_it_is_said(
    tmp_path: Path, write_cell: Callable[..., None], count: int
) -> None:
    write_cell(many(count), **chain(count))
    found = summarize(RunDir(tmp_path))
    panels = figures.collaboration(found)
    assert len(panels.axes) == MOST_PANELS
    assert (
        panels.get_suptitle() == f"How each client finds its collaborators, 12 of {count} clients"
    )
    heat = figures.overview(found).axes[1]
    assert heat.images[0].get_size() == (min(count, figures.MOST_HEAT),) * 2
    assert len(heat.texts) == 0, "too small to read"
    assert figures.partition(found).axes[0].images[0].get_size() == (
        min(count, figures.MOST_HEAT),
        100,
    )
    assert len(figures.clients(found).axes[0].get_yticks()) == figures.MOST_ROWS


def test_a_single_client(tmp_path: Path, write_cell: Callable[..., None]) -> None:
    one = {
        "clients": ["a"],
        "distribution": [0],
        "train_samples": [5],
        "test_samples": [5],
        "label_counts": [[2, 3]],
    }
    write_cell({"accuracy": [0.5], "posterior": [{"a": 1.0}], "sent": [0], "received": [0]}, **one)
    pictures = draw_all(summarize(RunDir(tmp_path)))
    assert all(pictures.values())
    assert "collaboration" not in pictures


def test_no_known_distribution(tmp_path: Path, write_cell: Callable[..., None]) -> None:
    write_cell(
        {"accuracy": [0.5] * 3, "posterior": [{"a": 1.0}, {"b": 1.0}, {"c": 1.0}]},
        distribution=None,
    )
    assert all(draw_all(summarize(RunDir(tmp_path))).values())


def test_a_regression_of_which_one_method_diverged(
    tmp_path: Path, write_cell: Callable[..., None]
) -> None:
    plain: dict[str, Any] = {"task": "regression", "label_names": [], "label_counts": []}
    write_cell(
        {"loss": [0.1, 0.2, 0.3], "posterior": [{"a": 1.0}, {"b": 1.0}, {"c": 1.0}]}, **plain
    )
    write_cell({"loss": [None, None, None]}, method="local", **plain)
    found = summarize(RunDir(tmp_path))
    assert all(draw_all(found).values())
    assert "diverged" in texts(figures.overview(found))


def test_before_the_first_evaluation_and_without_federico(
    tmp_path: Path, write_cell: Callable[..., None]
) -> None:
    write_cell(finished=False, method="local")
    assert all(draw_all(summarize(RunDir(tmp_path))).values())
