import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import federico.cli.main  # noqa: F401 (brings in every option class there is)
from federico.errors import ConfigError
from federico.experiment.config import Experiment, cell_options, load, validate
from federico.experiment.grid import Grid
from federico.experiment.training_options import Training
from federico.methods.federico_options import FedericoOptions
from federico.options import Options
from federico.runs.table import CommandSeconds, StoredStudy, TableDescription, TableRow

pytestmark = pytest.mark.usefixtures("trusted")

EXPERIMENTS = sorted((Path(__file__).parents[2] / "experiments").glob("*.toml"))


@pytest.mark.parametrize(
    ("raw", "path", "near", "allowed"),
    [
        ({"round": 3}, "round", "rounds", "name, methods, seeds, rounds, data"),
        (
            {"federico": {"neighbours": 2}},
            "federico.neighbours",
            "neighbors",
            "preset, neighbors, evidence, trust",
        ),
        ({"data": {"kind": "digits", "nois": 0.1}}, "data.nois", "noise", "kind, noise"),
        (
            {"training": {"optimizer": {"kind": "adam", "lerning_rate": 1}}},
            "training.optimizer.lerning_rate",
            "learning_rate",
            "kind, learning_rate, beta1, beta2, eps",
        ),
        ({"model": {"kind": "mlp", "hiden": [3]}}, "model.hiden", "hidden", "kind, hidden"),
        ({"system": {"thread": 1}}, "system.thread", "threads", "device, dtype, threads"),
    ],
)
def test_unknown_key_says_its_path_the_nearest_key_and_all_allowed_ones(
    raw: dict[str, Any], path: str, near: str, allowed: str
) -> None:
    with pytest.raises(ConfigError) as error:
        validate(raw, "mine.toml")
    line = str(error.value)
    assert line.startswith(
        f"mine.toml: {path}: there is no such key (did you mean '{near}'?); allowed: {allowed}"
    )
    assert "\n" not in line


def test_key_that_resembles_nothing_suggests_nothing() -> None:
    with pytest.raises(
        ConfigError, match=r"^experiment: zzzz: there is no such key; allowed: name, "
    ):
        validate({"zzzz": 1})


def test_all_errors_come_at_once() -> None:
    raw = {
        "rounds": 0,
        "colour": "red",
        "data": {"kind": "digits", "nois": 1},
        "federico": {"epsilon": 1.5, "momentum": 0},
        "training": {"optimizer": {"kind": "sgd", "momentum": 1}},
    }
    with pytest.raises(ConfigError) as error:
        validate(raw, "e.toml")
    lines = str(error.value).splitlines()
    named = {line.removeprefix("e.toml: ").split(" = ")[0].split(":")[0] for line in lines}
    wrong = {
        "rounds",
        "colour",
        "data.nois",
        "federico.epsilon",
        "federico.momentum",
        "training.optimizer.momentum",
    }
    assert named == wrong
    assert len(lines) == len(wrong)


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (
            {"federico": {"epsilon": 1.5}},
            "federico.epsilon = 1.5: Input should be less than or equal to 1",
        ),
        (
            {"federico": {"epsilon": -0.1}},
            "federico.epsilon = -0.1: Input should be greater than or equal to 0",
        ),
        ({"federico": {"momentum": 0}}, "federico.momentum = 0: Input should be greater than 0"),
        (
            {"federico": {"momentum": 1.01}},
            "federico.momentum = 1.01: Input should be less than or equal to 1",
        ),
        (
            {"federico": {"epsilon": float("nan")}},
            "federico.epsilon = nan: Input should be a finite number",
        ),
        ({"federico": {"sampler": "greedy"}}, "'epsilon_greedy', 'uniform' or 'everyone'"),
        (
            {"split": {"test_fraction": 1.0}},
            "split.test_fraction = 1.0: Input should be less than 1",
        ),
        (
            {"model": {"kind": "mlp", "hidden": [64, 0]}},
            "model.hidden.1 = 0: Input should be greater than 0",
        ),
        ({"seeds": 1}, "seeds = 1: must be a list; write seeds = [1]"),
        ({"methods": "local"}, "methods = 'local': must be a list; write methods = [\"local\"]"),
        ({"seeds": {"a": 1}}, "seeds = {'a': 1}: must be a list"),
        (
            {"training": {"schedule": "cosine"}},
            "training.schedule = 'cosine': must be a table; write schedule = { kind = \"cosine\" }",
        ),
        ({"model": "tree"}, "model = 'tree': must be a table with a kind; allowed: linear, mlp,"),
        ({"training": 3}, "training = 3: must be a table"),
        ({"seeds": [-1]}, "seeds.0 = -1: Input should be greater than or equal to 0"),
        ({"seeds": [1, 1]}, "seeds = [1, 1]: needs at least one entry, and each only once"),
        ({"methods": []}, "methods = []: needs at least one entry"),
        ({"name": "../up"}, "name = '../up': String should match pattern"),
        (
            {"partition": {"kind": "label-groups", "groups": 9}},
            "groups = 9 is more than clients = 8: lower it",
        ),
        (
            {"data": {"kind": "table", "path": 3, "label": "y"}},
            "data.path = 3: Input is not a valid path",
        ),
        ({"data": {"kind": "npz"}}, "data.path: Field required"),
    ],
)
def test_wrong_value_is_shown_with_its_key_and_what_is_allowed(
    raw: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError) as error:
        validate(raw)
    assert said in str(error.value)


def test_a_word_that_is_neither_known_nor_a_list_is_one_fault() -> None:
    with pytest.raises(ConfigError) as failed:
        validate({"training": {"shared": "trainble"}})
    assert str(failed.value) == (
        "experiment: training.shared = 'trainble': Input should be 'all', 'trainable', 'body' or "
        "'head', or a list (did you mean 'trainable'?)"
    )


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (
            {"data": {"kind": "digitz"}},
            "data.kind = 'digitz': there is no such kind (did you mean 'digits'?); allowed",
        ),
        (
            {"training": {"optimizer": {"kind": "adm"}}},
            "kind = 'adm': there is no such kind (did you mean 'adam'?)",
        ),
        (
            {"model": {"hidden": [3]}},
            "model.kind: missing; allowed: linear, mlp, cnn2, resnet18, import",
        ),
        (
            {"methods": ["fedavgg"]},
            "'fedavgg' is not a method (did you mean 'fedavg'?); allowed: federico, local",
        ),
    ],
)
def test_unknown_kind_or_method_names_the_nearest_and_the_allowed(
    raw: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError) as error:
        validate(raw)
    assert said in str(error.value)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text("rounds = 3\n[federico]\nneighbors = 2\n")
    return path


def test_file_is_named_after_itself_unless_it_says_otherwise(file: Path) -> None:
    assert load(file).name == "mine"
    assert load(file, ['name="other"']).name == "other"


def test_override_is_a_toml_value_at_a_dotted_key(file: Path) -> None:
    chosen = load(
        file,
        [
            "federico.epsilon=0.1",
            "seeds=[4, 5]",
            "data.kind=sine",
            "training.optimizer.kind=sgd",
            " rounds = 7 ",
        ],
    )
    assert chosen.federico.epsilon == 0.1
    assert chosen.federico.neighbors == 2, "the rest of the table stays"
    assert chosen.seeds == (4, 5)
    assert chosen.data.kind == "sine"
    assert chosen.training.optimizer.kind == "sgd"
    assert chosen.rounds == 7


def test_later_override_wins(file: Path) -> None:
    assert load(file, ["rounds=5", "rounds=6"]).rounds == 6


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("rounds", "--set 'rounds': write it as key=value"),
        ("=3", "--set '=3': write it as key=value"),
        ("rounds.x=3", "--set 'rounds.x=3': 'rounds' is a value, not a table"),
        ("federico.epsilon=2", "federico.epsilon = 2: Input should be less than or equal to 1"),
        (
            "federico.epsilom=0.2",
            "federico.epsilom: there is no such key (did you mean 'epsilon'?)",
        ),
        ("rounds=many", "rounds = 'many': Input should be a valid integer"),
    ],
)
def test_wrong_override_is_explained(file: Path, override: str, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        load(file, [override])
    assert said in str(error.value)


def test_syntax_error_names_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text("rounds = 3\nseeds = [0]\nmethods = local\n")
    with pytest.raises(ConfigError, match=r"bad\.toml: not a readable TOML file: .*line 3"):
        load(path)


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", None])
def test_file_that_is_no_text_or_is_not_there_is_named(
    tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "odd.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"odd\.toml: "):
        load(path)


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.stem)
def test_shipped_experiment_survives_being_written_with_all_defaults(
    path: Path, tmp_path: Path
) -> None:
    experiment = load(path)
    copy = tmp_path / "copy.toml"
    copy.write_text(Grid(experiment).to_toml(), encoding="utf-8")
    assert load(copy) == experiment


def test_there_are_experiments_to_read() -> None:
    assert {path.stem for path in EXPERIMENTS} >= {
        "digits",
        "sine",
        "heart",
        "office-home",
        "cifar10",
        "cifar100",
    }


def test_preset_survives_being_written(tmp_path: Path) -> None:
    experiment = validate({"federico": {"preset": "literal", "w_min": 0.5}})
    copy = tmp_path / "copy.toml"
    copy.write_text(Grid(experiment).to_toml(), encoding="utf-8")
    assert load(copy, ['name="experiment"']) == experiment
    assert experiment.federico.loss == "sum"
    assert experiment.federico.w_min == 0.5


def _option_classes(base: type[BaseModel] = Options) -> Iterator[type[BaseModel]]:
    for cls in base.__subclasses__():
        if cls.__module__.startswith("federico."):
            yield cls
        yield from _option_classes(cls)


NO_OPTIONS = (TableRow, TableDescription, StoredStudy, CommandSeconds)
"""What files of results hold, and nobody sets."""


def test_every_option_has_its_sentence() -> None:
    silent = [
        f"{cls.__name__}.{name}"
        for cls in _option_classes()
        for name, field in cls.model_fields.items()
        if not field.description and name != "kind" and cls not in NO_OPTIONS
    ]
    assert silent == []
    assert len(list(_option_classes())) > 20, "the classes were found"


def test_experiment_cannot_be_changed_after_it_was_checked() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Experiment().rounds = 3  # type: ignore[misc]


OWN_METHOD = '''
from federico.methods.local import Local
from federico.options import Options


class MineOptions(Options):
    """Options of Mine."""

    strength: float = 0.5
    """How strong it is."""


class Mine(Local):
    """Training alone under another name."""

    name = "mine"
    title = "Mine"
    summary = "Nothing new."
    options = MineOptions


class Local2(Local):
    name = "local"


class Nameless(Local):
    name = "data"


class NotAMethod:
    name = "mine"
'''


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """An experiment file beside a method of one's own."""
    (tmp_path / "mine.py").write_text(OWN_METHOD)
    path = tmp_path / "own.toml"
    path.write_text('methods = ["local", "mine.py:Mine"]\n[mine]\nstrength = 2\n')
    return path


def test_a_method_of_ones_own_is_found_beside_the_experiment_file(own: Path) -> None:
    experiment = load(own)
    assert experiment.methods == ("local", "mine")
    assert experiment.method("mine").title == "Mine"
    assert experiment.method_options("mine").model_dump() == {"strength": 2.0}


def test_options_of_ones_own_method_are_checked_like_all_others(own: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"mine\.strenth: there is no such key \(did you mean 'st"
    ):
        load(own, ["mine.strenth=1"])
    with pytest.raises(ConfigError, match=r"mine\.strength = 'much': Input should be a valid num"):
        load(own, ["mine.strength=much"])


def test_a_table_of_a_method_that_is_not_listed_is_no_key(own: Path) -> None:
    with pytest.raises(ConfigError, match="mine: there is no such key"):
        load(own, ["methods=['local']"])


def test_an_experiment_with_ones_own_method_can_be_written_and_read_elsewhere(
    own: Path, tmp_path: Path
) -> None:
    experiment = load(own)
    copy = tmp_path / "runs" / "own.toml"
    copy.parent.mkdir()
    copy.write_text(Grid(experiment).to_toml(), encoding="utf-8")
    assert load(copy) == experiment


def test_an_experiment_with_ones_own_method_reaches_other_processes(own: Path) -> None:
    experiment = load(own)
    of_one_method = experiment.model_copy(update={"methods": ("local",)})
    for chosen in (experiment, of_one_method):
        sent = pickle.dumps(chosen)
        assert pickle.loads(sent) == chosen  # noqa: S301 (our own)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("mine.py:Local2", "is called 'local' like a built-in method; give it another `name`"),
        ("mine.py:Nameless", "is called 'data' like a key of an experiment file"),
        ("mine.py:NotAMethod", r"is not a class derived from federico\.methods\.method\.Method"),
        ("mine.py:Missing", "cannot be imported: .* has no attribute 'Missing'"),
        ("other.py:Mine", "cannot be imported: .*No such file"),
        ("python:Mine", r"pass it again: federico\.run\(\.\.\., methods=\[Mine\]\)"),
    ],
)
def test_what_cannot_be_a_method_is_refused(own: Path, entry: str, said: str) -> None:
    own.write_text(f'methods = ["{entry}"]\n')
    with pytest.raises(ConfigError, match=rf"own\.toml: methods: .*{said}"):
        load(own)


def test_two_methods_of_one_name_are_refused(own: Path, tmp_path: Path) -> None:
    (tmp_path / "again.py").write_text(OWN_METHOD)
    own.write_text('methods = ["mine.py:Mine", "again.py:Mine"]\n')
    with pytest.raises(ConfigError, match=r"mine\.py:Mine' and .*again\.py:Mine' are both called"):
        load(own)


def test_a_changed_file_is_another_experiment(own: Path, tmp_path: Path) -> None:
    before = cell_options(load(own), "mine")
    assert cell_options(load(own), "mine") == before
    assert "strength" in before["mine"]
    (tmp_path / "mine.py").write_text(OWN_METHOD + "# changed\n")
    after = cell_options(load(own), "mine")
    assert after["source of the method"] != before["source of the method"]
    assert after["source of the method"].startswith("mine.py ")


def test_every_option_is_part_of_the_key_with_its_default_too() -> None:
    options = cell_options(validate({}), "federico")
    assert options["federico"].keys() == FedericoOptions.model_fields.keys()
    assert options["training"].keys() == Training.model_fields.keys()


def test_the_privacy_floor_is_part_of_the_key_of_who_sends_anything() -> None:
    plain = validate({})
    lowered = validate({"privacy": {"least_samples": 1}})
    assert cell_options(plain, "federico") != cell_options(lowered, "federico")
    assert cell_options(plain, "fedavg")["privacy"] == {"least_samples": 10, "least_batches": 1}
    assert cell_options(plain, "local") == cell_options(lowered, "local")
