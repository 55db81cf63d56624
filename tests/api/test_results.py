"""What a run gives in Python."""

import re
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from torch import Tensor, nn

import federico
from federico.errors import ConfigError, RunError
from federico.report import summarize
from federico.types import Array

matplotlib.use("Agg")


def people(seed: int = 0) -> dict[str, tuple[Array, Array]]:
    rng = np.random.default_rng(seed)
    found = {}
    for place, name in enumerate("abcd"):
        x = rng.normal(size=(40, 3))
        found[name] = x, (x[:, 0] * (-1) ** place > 0).astype(int)
    return found


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))


def other_net() -> nn.Module:
    """As many numbers under the same names, but another function."""
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))


class Bent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x).relu()


def bent_otherwise() -> nn.Module:
    """The same layers, tensors and names, but other code."""

    class Bent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x).tanh()

    return Bent()


def start(folder: Path, **changes: object) -> federico.Run:
    settings: dict[str, object] = {"clients": people(), "model": net, "rounds": 3, "name": "mine"}
    return federico.run(directory=folder, **(settings | changes))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> federico.Run:
    return start(tmp_path_factory.mktemp("run"), seeds=[0, 1])


def test_the_frame_has_every_metric_of_every_client_and_round(run: federico.Run) -> None:
    frame = run.frame()
    assert len(frame) == 2 * 2 * 4 * 3, "methods, seeds, clients, rounds"
    record = run.records("federico", 1)[1]
    assert record.figures is not None
    line = frame.query("method == 'federico' and seed == 1 and client == 'c' and round == 2")
    for metric, by_client in record.figures.items():
        value = by_client[2]
        assert line[metric].item() == pytest.approx(np.nan if value is None else value, nan_ok=True)
    assert record.together_share is not None
    assert line["together_share"].item() == record.together_share[2]
    assert record.together_chance is not None
    chance = record.together_chance[2]
    expected = np.nan if chance is None else chance
    assert line["together_chance"].item() == pytest.approx(expected, nan_ok=True)


def test_the_summary_has_a_line_for_each_method_and_seed(run: federico.Run) -> None:
    summary = run.summary()
    assert list(zip(summary.method, summary.seed, strict=True)) == [
        ("federico", 0),
        ("federico", 1),
        ("local", 0),
        ("local", 1),
    ]
    last = run.frame(last=True).query("method == 'local' and seed == 0")
    assert summary.accuracy[2] == pytest.approx(last.accuracy.mean()), "of clients of one size"
    assert summary.worst[2] == last.accuracy.min()


def test_figures_of_the_summary_are_those_of_the_report(tmp_path: Path) -> None:
    clients = people()
    x, y = clients["a"]
    clients["a"] = x[:10], y[:10]
    run = start(tmp_path, clients=clients, methods=["local"])
    (entry,) = summarize(run.path).entries
    last = run.frame(last=True)
    assert run.summary().accuracy.item() == pytest.approx(entry.seeds[0].figure[-1])
    assert run.summary().accuracy.item() != pytest.approx(last.accuracy.mean())


def test_the_posterior_is_labelled_and_of_the_asked_round(run: federico.Run) -> None:
    posterior = run.posterior(seed=1, round_index=2)
    assert list(posterior.index) == run.clients
    assert posterior.sum(axis=1).to_numpy() == pytest.approx(1, abs=1e-3)
    weights = run.records("federico", 1)[1].posterior[0]
    for owner, weight in weights.items():
        assert posterior.loc["a", owner] == weight
    with pytest.raises(ConfigError, match=r"round_index = 9: .* has rounds 1 to 3"):
        run.posterior(round_index=9)


def test_pictures_are_axes_and_drawn_where_asked(run: federico.Run) -> None:
    from matplotlib import pyplot

    _, grid = pyplot.subplots(2, 2)
    assert run.plot.accuracy(ax=grid[0, 0]) is grid[0, 0]
    assert run.plot.posterior(ax=grid[0, 1]) is grid[0, 1]
    assert run.plot.collaborators("a", ax=grid[1, 0]) is grid[1, 0]
    assert run.plot.clients(ax=grid[1, 1]) is grid[1, 1]
    assert len(grid[0, 0].lines) == 2, "a line for each method"
    names = [text.get_text() for text in grid[1, 0].get_legend().get_texts()]
    posterior = run.posterior().loc["a"].drop("a")
    assert names[0] == "a (own model)"
    assert names[1] == posterior.idxmax(), "the heaviest of the others"
    assert run.plot.accuracy().get_xlabel() == "round"
    assert ".posterior()" in repr(run.plot)
    of_each = run.plot.collaborators()
    assert len(of_each) == 4
    assert [axes.get_legend() is not None for axes in of_each] == [True] * 4
    with pytest.raises(ConfigError, match="is for one client; say which"):
        run.plot.collaborators(ax=grid[0, 0])  # type: ignore[call-overload]
    pyplot.close("all")
    assert dir(run.plot) == ["accuracy", "clients", "collaborators", "posterior"]


def test_the_report_is_a_page(run: federico.Run) -> None:
    assert run.report().read_text().startswith("<!")


def test_a_run_says_whether_it_was_trained_or_loaded(tmp_path: Path) -> None:
    assert start(tmp_path).trained
    again = start(tmp_path)
    assert not again.trained
    assert "loaded, not trained now" in repr(again)
    assert "4 clients, federico, local, 1 seed" in repr(federico.load(tmp_path / "mine"))
    shown = again._repr_html_()
    assert "worst client" in shown
    assert "NaN" not in shown
    assert "a (alone)" in again.client("a")._repr_html_()


def test_another_model_of_the_same_size_is_refused_unless_overwritten(tmp_path: Path) -> None:
    start(tmp_path)
    with pytest.raises(RunError, match=r"the model has other layers.*overwrite=True"):
        start(tmp_path, model=other_net)
    assert start(tmp_path, model=other_net, overwrite=True).trained


def test_a_personal_model_of_a_run_that_was_trained_again_has_to_be_opened_again(
    tmp_path: Path,
) -> None:
    opened = start(tmp_path).client("a")
    again = start(tmp_path, overwrite=True, rounds=4)
    with pytest.raises(RunError, match="trained again since this personal model was opened"):
        opened.predict(np.zeros((1, 3)))
    again.client("a").predict(np.zeros((1, 3)))


def test_another_calculation_with_the_same_layers_is_refused(tmp_path: Path) -> None:
    start(tmp_path, model=Bent, rounds=1)
    assert not start(tmp_path, model=Bent, rounds=1).trained
    with pytest.raises(RunError, match=r"other layers, tensors or code"):
        start(tmp_path, model=bent_otherwise, rounds=1)
    with pytest.raises(RunError, match=r"was trained with a model of other .* code"):
        federico.load(tmp_path / "mine", model=bent_otherwise).client("a")
    federico.load(tmp_path / "mine", model=Bent).client("a")


def test_overwrite_deletes_nothing_but_runs(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    with pytest.raises(RunError, match="deletes run directories only"):
        start(tmp_path, overwrite=True)
    (tmp_path / "mine" / "config.toml").write_text("title = 'a site of mine'")
    with pytest.raises(RunError, match="deletes run directories only"):
        start(tmp_path, overwrite=True)
    assert (tmp_path / "mine" / "thesis.tex").exists()


def test_progress_is_shown_on_request_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start(tmp_path, progress=False)
    assert capsys.readouterr().err == ""
    start(tmp_path, overwrite=True)
    said = capsys.readouterr().err
    assert re.search(r"federico: data: \d+ samples of 4 clients \(a: .*\); \d+ to train on", said)
    assert "3/3" not in said
    start(tmp_path, overwrite=True, progress=True)
    assert "3/3" in capsys.readouterr().err


@pytest.mark.parametrize("progress", [None, True], ids=["lines", "bars"])
def test_no_name_of_a_client_is_an_order_to_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], progress: bool | None
) -> None:
    named = {"north\x1b]0;mine\x9b2J": people()["a"], "south": people()["b"]}
    start(tmp_path, clients=named, progress=progress)
    said = capsys.readouterr().err
    assert "north" in said
    assert "\x1b]" not in said
    assert "\x9b" not in said


@pytest.fixture(scope="module")
def two_columns(tmp_path_factory: pytest.TempPathFactory) -> federico.Run:
    """Two columns whose difference means something to FedeRiCo and nothing to Local."""
    names = ["wide", "narrow"]
    columns = []
    for neighbors, name in zip((3, 1), names, strict=True):
        columns.append({"name": name, "set": {"federico.neighbors": neighbors}})
    return start(tmp_path_factory.mktemp("columns"), seeds=[0, 1], grid={"columns": columns})


def test_without_a_column_everything_is_of_the_first_of_the_file(
    two_columns: federico.Run,
) -> None:
    summary = two_columns.summary().query("method == 'federico'")
    assert list(summary.column) == ["wide", "wide", "narrow", "narrow"]
    wide = two_columns.posterior(column="wide")
    narrow = two_columns.posterior(column="narrow")
    assert two_columns.posterior().equals(wide)
    assert not wide.equals(narrow)
    assert (
        two_columns.records(column="narrow")[-1].posterior[0]
        != two_columns.records()[-1].posterior[0]
    )
    assert two_columns.posterior(column="narrow", row="federico").equals(narrow)
    assert two_columns.client("a").posterior == two_columns.client("a", column="wide").posterior


def test_a_method_that_is_the_same_in_two_columns_is_found_in_both(
    two_columns: federico.Run,
) -> None:
    x = people()["a"][0]
    alone = two_columns.client("a", method="local", column="wide")
    again = two_columns.client("a", method="local", column="narrow")
    assert (alone.probabilities(x) == again.probabilities(x)).all()


def test_a_column_that_is_not_there_is_named_with_those_that_are(
    two_columns: federico.Run, run: federico.Run
) -> None:
    with pytest.raises(ConfigError, match=r"column 'wdie'; .* the columns wide, narrow$"):
        two_columns.posterior(column="wdie")
    with pytest.raises(ConfigError, match=r"row 'x'; it has the rows federico and a single column"):
        run.records(row="x")
    with pytest.raises(ConfigError, match="column 'wdie': there is none of that name"):
        two_columns.plot.accuracy(column="wdie")


def test_pictures_can_be_of_any_column(two_columns: federico.Run) -> None:
    from matplotlib import pyplot

    assert two_columns.plot.accuracy().get_title(loc="left") == "wide"
    assert two_columns.plot.accuracy(column="narrow").get_title(loc="left") == "narrow"
    first = two_columns.plot.posterior().images[0].get_array()
    second = two_columns.plot.posterior(column="narrow").images[0].get_array()
    assert first is not None
    assert second is not None
    assert not np.array_equal(first, second)
    two_columns.plot.collaborators("a", column="narrow")
    assert len(two_columns.plot.collaborators(column="narrow")) == 4
    pyplot.close("all")
