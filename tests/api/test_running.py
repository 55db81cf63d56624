import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import Tensor, nn

import federico
from federico.data.from_python import dataset_from_clients
from federico.errors import ConfigError, DataError, RunError
from federico.experiment.build import prepare
from federico.experiment.config import load
from federico.runs.bundle import open_folder
from federico.runs.comparison import sureness_in_words
from federico.types import Array, FloatArray

People = dict[str, tuple[Array, Array]]


def make_people(names: str = "abcd", seed: int = 0) -> People:
    """Clients a and c label one way, b and d the other."""
    rng = np.random.default_rng(seed)
    people = {}
    for place, name in enumerate(names):
        x = rng.normal(size=(40, 3))
        people[name] = x, (x[:, 0] * (-1) ** place > 0).astype(int)
    return people


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., federico.Run]:
    """`federico.run` on four clients and a small model, below `tmp_path`."""

    def call(**changes: Any) -> federico.Run:
        plain = {"clients": make_people(), "model": net, "rounds": 2, "federico": {"neighbors": 2}}
        return federico.run(directory=tmp_path, **(plain | changes))

    return call


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> federico.Run:
    """Long enough for the clients to find each other."""
    return federico.run(
        clients=make_people(),
        model=net,
        label_names=["no", "yes"],
        rounds=25,
        methods=["federico"],
        training={"optimizer": {"kind": "adam", "learning_rate": 0.03}, "batch_size": 10},
        federico={"neighbors": 2},
        directory=tmp_path_factory.mktemp("trained"),
    )


def test_arrays_and_a_module_give_personal_models(trained: federico.Run) -> None:
    assert trained.clients == ["a", "b", "c", "d"]
    for name, (x, y) in make_people(seed=9).items():
        right = trained.client(name).predict(x) == np.where(y, "yes", "no")
        assert right.mean() > 0.85, (
            "each client's own labels, of which a pair contradicts the other"
        )


def test_collaborators_are_those_with_the_same_labels(trained: federico.Run) -> None:
    assert trained.client("a").collaborators(0.05) == ["c"]
    assert trained.client("d").collaborators(0.05) == ["b"]
    assert sum(trained.client("a").posterior.values()) == pytest.approx(1)


def test_a_client_says_what_it_is_alone_and_together(trained: federico.Run, tmp_path: Path) -> None:
    client = trained.client("b")
    comparison = client.comparison
    assert comparison is not None
    last = trained.records()[-1]
    assert last.alone is not None
    assert last.together_share is not None
    assert comparison.alone["accuracy"] == last.alone["accuracy"][1]
    assert comparison.together_share == last.together_share[1]
    assert last.together_chance is not None
    assert comparison.together_chance == last.together_chance[1]
    assert comparison.together_chance is not None
    assert comparison.used.keys() == comparison.alone.keys() == comparison.together.keys()
    assert "with collaborators" in repr(client)
    assert sureness_in_words(comparison.together_chance) in repr(comparison)
    assert client.posterior["b (alone)"] == pytest.approx(1 - comparison.together_share, abs=1e-3)

    client.save(tmp_path / "moved")
    assert open_folder(tmp_path / "moved").comparison == comparison


def test_a_saved_personal_model_is_opened_by_a_function_of_its_own(
    trained: federico.Run, tmp_path: Path
) -> None:
    x = np.zeros((2, 3))
    client = trained.client("a")
    client.save(tmp_path / "moved")
    moved = federico.load_client(tmp_path / "moved", net)
    assert moved.probabilities(x).tolist() == client.probabilities(x).tolist()
    with pytest.raises(RunError, match=r"open it with federico\.load_client"):
        federico.load(tmp_path / "moved")
    with pytest.raises(RunError, match="is no folder of one personal model"):
        federico.load_client(trained.path)


def test_the_private_model_is_nobodys_collaborator(trained: federico.Run) -> None:
    for name in trained.clients:
        client = trained.client(name)
        assert f"{name} (alone)" in client.posterior
        assert set(client.collaborators(0.0)) <= set(trained.clients) - {name}


def test_a_method_without_private_models_compares_nothing(run: Callable[..., federico.Run]) -> None:
    client = run(methods=["local"]).client("a", method="local")
    assert client.comparison is None
    assert repr(client) == "Bundle('a', local: 1 model)"


def test_loaded_run_predicts_the_same(trained: federico.Run) -> None:
    x = make_people(seed=5)["a"][0]
    loaded = federico.load(trained.path, model=net).client("a")
    np.testing.assert_array_equal(loaded.probabilities(x), trained.client("a").probabilities(x))
    assert loaded.posterior == trained.client("a").posterior


def test_records_of_every_round_are_there(trained: federico.Run) -> None:
    assert [record.round for record in trained.records()] == list(range(1, 26))


def test_module_instead_of_a_function_is_refused_with_the_remedy(
    run: Callable[..., federico.Run],
) -> None:
    with pytest.raises(
        ConfigError, match=r"model: give a function that makes a new module .*, not one"
    ):
        run(model=net())


def test_model_may_be_the_table_of_an_experiment_file(run: Callable[..., federico.Run]) -> None:
    found = run(model={"kind": "mlp", "hidden": [3]}, methods=["local"], name="table")
    model = federico.load(found.path).client("a", method="local").header.model
    assert (model.kind, model.hidden) == ("mlp", (3,))


def test_model_that_is_nothing_of_the_kind_is_refused(run: Callable[..., federico.Run]) -> None:
    with pytest.raises(ConfigError, match=r"model: give a function .*, or a table .*, not 'mlp'"):
        run(model="mlp")


def test_function_that_makes_no_module_is_refused(run: Callable[..., federico.Run]) -> None:
    with pytest.raises(
        ConfigError, match=r"model: expected a function that returns a torch\.nn\.Module, got str"
    ):
        run(model=lambda: "net")


def test_model_made_in_python_must_be_given_to_load(trained: federico.Run) -> None:
    with pytest.raises(ConfigError, match=r"pass it: federico\.load\(run, model=\.\.\.\)"):
        federico.load(trained.path).client("a").predict(np.zeros((1, 3)))


def test_unknown_client_is_answered_with_the_known(trained: federico.Run) -> None:
    with pytest.raises(
        ConfigError, match=r"client 'e': there is none of that name in .*; it has a, b, c, d"
    ):
        trained.client("e")


def test_unknown_method_or_seed_is_answered_with_what_is_there(trained: federico.Run) -> None:
    with pytest.raises(ConfigError, match=r"holds no run of 'local' .* it has federico \(seed 0\)"):
        trained.client("a", method="local")
    with pytest.raises(ConfigError, match=r"it has federico \(seed 0\)"):
        trained.records(seed=3)


def test_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="is not a run directory"):
        federico.load(tmp_path)


def test_unfinished_run_says_so(
    trained: federico.Run, tmp_path: Path, run: Callable[..., federico.Run]
) -> None:
    begun = run(methods=["federico"])
    (begun.path / "federico-0" / "clients").rename(tmp_path / "away")
    with pytest.raises(RunError, match="not finished yet; `federico run` it again"):
        begun.client("a")


def test_client_may_be_named_by_number(run: Callable[..., federico.Run]) -> None:
    people = dict(enumerate(make_people().values()))
    assert run(clients=people).client(2).header.client == "2"


def test_seed_and_method_choose_the_model(run: Callable[..., federico.Run]) -> None:
    found = run(seeds=[4, 3], methods=["federico", "local"])
    assert found.client("a").header.seed == 3
    assert found.client("a", seed=4).header.seed == 4
    assert found.client("a", method="local").posterior == {"a": 1.0}


def test_same_call_again_only_loads(run: Callable[..., federico.Run]) -> None:
    first = run()
    before = {path: path.stat().st_mtime_ns for path in first.path.rglob("*/records.jsonl")}
    second = run()
    assert {
        path: path.stat().st_mtime_ns for path in second.path.rglob("*/records.jsonl")
    } == before


def test_more_rounds_go_on(run: Callable[..., federico.Run]) -> None:
    run()
    assert len(run(rounds=3).records()) == 3


def test_floats_as_targets_mean_regression(run: Callable[..., federico.Run]) -> None:
    rng = np.random.default_rng(0)
    lines = {}
    for slope, name in enumerate("abc"):
        x = rng.normal(size=(30, 2))
        lines[name] = x, slope * x[:, 0] - 1
    found = run(
        clients=lines,
        model=lambda: nn.Linear(2, 1),
        rounds=40,
        methods=["federico"],
        training={"optimizer": {"kind": "adam", "learning_rate": 0.1}},
        federico={"neighbors": 1},
    )
    x, y = lines["c"]
    assert found.client("c").predict(x).shape == (30, 1)
    assert np.abs(found.client("c").predict(x)[:, 0] - y).mean() < 0.3
    assert found.records()[-1].figures.keys() == {"loss", "rmse", "mae", "r2", "skill"}


def test_many_whole_numbers_as_targets_are_worth_a_hint(
    run: Callable[..., federico.Run], capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    ages = {name: (rng.normal(size=(60, 2)), rng.integers(0, 80, 60)) for name in "ab"}
    plain = {"clients": ages, "rounds": 1, "methods": ["local"]}

    found = run(name="classes", model=lambda: nn.Linear(2, 79), **plain)
    assert 'set task = "regression"' in capsys.readouterr().err
    assert "accuracy" in (found.records("local")[-1].figures or {})

    found = run(name="values", model=lambda: nn.Linear(2, 1), task="regression", **plain)
    assert "set task" not in capsys.readouterr().err
    assert "r2" in (found.records("local")[-1].figures or {})


def test_models_that_are_worse_than_the_mean_are_warned_of(
    run: Callable[..., federico.Run], capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    noise = {name: (rng.normal(size=(30, 8)), rng.normal(size=30)) for name in "abcd"}
    settings = {"clients": noise, "rounds": 40, "methods": ["local"], "name": "noise"}
    run(model=lambda: nn.Linear(8, 1), **settings)
    said = capsys.readouterr().err
    assert "(Local) have a model worse than the mean of their own training targets." in said

    run(model=lambda: nn.Linear(8, 1), **settings)
    assert "worse than the mean" not in capsys.readouterr().err, "it is only loaded"


def lines_in(unit: float, zero: float) -> dict[str, tuple[FloatArray, FloatArray]]:
    """Three clients, each with a line of its own, in other units and from another zero."""
    rng = np.random.default_rng(0)
    clients = {}
    for slope, name in enumerate("abc", start=1):
        x = rng.normal(size=(30, 2))
        clients[name] = x, unit * (slope * x[:, 0] - 1) + zero
    return clients


LINES: dict[str, Any] = {
    "model": lambda: nn.Linear(2, 1),
    "rounds": 5,
    "methods": ["federico", "local"],
    "federico": {"neighbors": 1},
    "system": {"dtype": "float64"},
}


def test_regression_does_not_depend_on_the_units_of_its_targets(
    run: Callable[..., federico.Run],
) -> None:
    plain = run(clients=lines_in(1.0, 0.0), name="plain", **LINES)
    metres = run(clients=lines_in(1000.0, 5000.0), name="metres", **LINES)

    x, _ = lines_in(1.0, 0.0)["b"]
    for method in ("federico", "local"):
        one = plain.records(method)[-1].figures
        other = metres.records(method)[-1].figures
        assert one is not None
        assert other is not None
        assert other["r2"] == pytest.approx(one["r2"], rel=1e-6)
        assert other["mae"] == pytest.approx([1000 * each for each in one["mae"] or []], rel=1e-6)
        predicted = plain.client("b", method=method).predict(x)
        assert metres.client("b", method=method).predict(x) == pytest.approx(
            1000 * predicted + 5000, rel=1e-6
        )


def test_models_are_not_judged_on_targets_of_any_scale(run: Callable[..., federico.Run]) -> None:
    raw = {"standardize_targets": False}
    with pytest.raises(ConfigError, match=r"standardize_targets = false: .*preset = 'paper'"):
        run(clients=lines_in(10.0, 50.0), training=raw, **LINES)


@pytest.mark.parametrize("standardize", [True, False])
def test_a_client_predicts_in_the_units_in_which_it_was_scored(
    run: Callable[..., federico.Run], tmp_path: Path, standardize: bool
) -> None:
    clients = lines_in(10.0, 50.0)
    settings = {**LINES, "methods": ["local"]}
    found = run(clients=clients, training={"standardize_targets": standardize}, **settings)

    figures = found.records("local")[-1].figures
    assert figures is not None
    config = load(found.path / "config.toml")
    dataset = dataset_from_clients(clients)
    for place, client in enumerate(
        prepare(config, 0, dataset=dataset, factory=LINES["model"]).clients
    ):
        bundle = found.client(client.id, method="local")
        errors = bundle.predict(client.test.x) - client.test.y
        assert (errors**2).mean() == pytest.approx(figures["loss"][place])
        assert (bundle.header.target_scale is not None) == standardize

        bundle.save(tmp_path / client.id)
        moved = open_folder(tmp_path / client.id, LINES["model"])
        assert np.array_equal(moved.predict(client.test.x), bundle.predict(client.test.x))


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        (
            {"round": 3},
            ConfigError,
            r"federico\.run: round: there is no such key \(did you mean 'rounds'\?\)",
        ),
        ({"federico": {"neighbors": 4}}, ConfigError, r"federico\.neighbors = 4: with 4 clients"),
        ({"clients": {}}, DataError, "clients: there are none"),
        (
            {"clients": {"a": (np.zeros((3, 2)), np.zeros(2, int))}},
            DataError,
            "client 'a': 3 inputs but 2 targets",
        ),
        (
            {"clients": {"a": (np.full((3, 2), np.nan), np.zeros(3, int))}},
            DataError,
            "infinite or missing values",
        ),
        ({"label_names": ["only"]}, DataError, r"labels run from 0 to 1: they must lie in 0\.\.0"),
    ],
    ids=["key", "neighbors", "nobody", "lengths", "nan", "labels"],
)
def test_what_is_wrong_is_said_before_anything_is_written(
    run: Callable[..., federico.Run],
    tmp_path: Path,
    changes: dict[str, Any],
    error: type[Exception],
    said: str,
) -> None:
    with pytest.raises(error, match=said):
        run(**changes)
    assert list(tmp_path.iterdir()) == []


def test_experiment_file_with_changes(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        'rounds = 9\nmethods = ["local"]\n[split]\nsamples = 200\n[model]\nkind = "linear"\n'
    )
    found = federico.run(file, rounds=1, directory=tmp_path / "runs")
    assert found.path == tmp_path / "runs" / "mine"
    assert len(found.records("local")) == 1
    assert found.client("0", method="local").predict(np.zeros((2, 64))).shape == (2,)


OWN_MODULE = """
from torch import nn


class Net(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, width), nn.Tanh(), nn.Linear(width, 10))

    def forward(self, x):
        return self.layers(x)
"""


def test_own_module_by_import_path_needs_nothing_but_its_file_and_a_yes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("nets.py").write_text(OWN_MODULE)
    Path("own.toml").write_text(
        'rounds = 2\nmethods = ["federico"]\n[split]\nsamples = 200\n'
        '[partition]\nkind = "iid"\nclients = 4\n'
        '[model]\nkind = "import"\npath = "nets.py:Net"\narguments = { width = 5 }\n'
    )
    federico.run("own.toml", trust=True)
    client = federico.load("runs/own", trust=True).client("1")
    found = client.probabilities(np.random.default_rng(0).random((6, 64)))
    np.testing.assert_allclose(found.sum(1), 1)
    assert client.header.model.kind == "import"


class Scaled(nn.Module):
    """Statistics besides its weights."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(3)
        self.head = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.norm(x))


def test_class_serves_as_the_function_and_buffers_are_kept(
    run: Callable[..., federico.Run],
) -> None:
    found = run(model=Scaled, training={"batch_size": 16})
    client = found.client("a")
    x = make_people()["a"][0]
    # Were they not, the statistics of five samples would be others than those of forty.
    np.testing.assert_allclose(client.probabilities(x[:5]), client.probabilities(x)[:5], atol=1e-6)


def test_warnings_go_to_standard_error(
    run: Callable[..., federico.Run], capsys: pytest.CaptureFixture[str]
) -> None:
    people = {name: (x[:3], np.array([0, 1, 2])) for name, (x, _) in make_people().items()}
    run(clients=people, model=lambda: nn.Linear(3, 3))
    captured = capsys.readouterr()
    assert captured.out == ""
    told = "federico: 4 of 4 clients have only 2 training samples for 3 classes: 'a', 'b', 'c', 'd'"
    assert told in captured.err


def test_settings_change_tables_of_a_file_key_by_key(tmp_path: Path) -> None:
    file = tmp_path / "small.toml"
    file.write_text(
        'rounds = 1\nmethods = ["federico"]\nsplit = { max_train = 9 }\n'
        "training = { batch_size = 3 }\n"
        'federico = { neighbors = 2, epsilon = 0.1 }\nmodel = { kind = "mlp", hidden = [4] }\n'
    )
    federico.run(file, directory=tmp_path, federico={"neighbors": 1}, model=None, split={"seed": 5})
    options = json.loads((tmp_path / "small" / "federico-0" / "cell.json").read_text())["options"]
    assert (options["federico"]["neighbors"], options["federico"]["epsilon"]) == (1, 0.1)
    assert (options["split"]["max_train"], options["split"]["seed"]) == (9, 5)


def test_clients_whose_names_look_alike_are_refused() -> None:
    samples = (np.zeros((4, 2)), np.array([0, 1, 0, 1]))
    with pytest.raises(DataError, match="2 clients are named '1'"):
        federico.run(clients={1: samples, "1": samples})  # type: ignore[dict-item]


def test_bytes_that_are_no_images_predict_as_they_were_trained(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    clients = {
        name: (draw.integers(0, 9, (30, 3), dtype=np.uint8), draw.integers(0, 2, 30))
        for name in "ab"
    }
    run = federico.run(
        clients=clients, rounds=2, directory=tmp_path, name="bytes", model=lambda: nn.Linear(3, 2)
    )
    x = clients["a"][0]
    np.testing.assert_allclose(
        run.client("a").probabilities(x), run.client("a").probabilities(x.astype(np.float32))
    )


def test_a_preset_is_replaced_whole(tmp_path: Path) -> None:
    file = tmp_path / "literal.toml"
    file.write_text(
        'rounds = 1\nmethods = ["federico"]\nfederico = { preset = "literal" }\n'
        "split = { max_train = 9 }\n"
    )
    federico.run(file, directory=tmp_path, federico={"preset": "federico"})
    options = json.loads((tmp_path / "literal" / "federico-0" / "cell.json").read_text())["options"]
    assert (options["federico"]["loss"], options["federico"]["m_step"]) == ("mean", "epochs")
