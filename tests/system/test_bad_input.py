"""What cannot work is refused before the first round: one line, its exit code, nothing left."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

CONFIG, DATA, RUN = 2, 3, 4


def table(label: str = "y") -> str:
    rows = [f"{site},{value},{value % 2}" for site in ("a", "b", "c") for value in range(8)]
    return "\n".join([f"site,v,{label}", *rows]) + "\n"


NPZ = ["data={kind='npz', path='mine.npz'}", "split={}"]
OWNED = [*NPZ, "data.client=who", "partition={kind='natural'}", "federico.neighbors=1"]
TABLE = [
    "data={kind='table', path='people.csv', label='y', client='site'}",
    "partition={kind='natural'}",
    "split={}",
]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of data, with a table that is fine."""
    monkeypatch.setenv("FEDERICO_DATA", str(tmp_path))
    (tmp_path / "people.csv").write_text(table())
    return tmp_path


def arrays(**changes: Any) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    plain = {"x": rng.random((24, 3)), "y": np.arange(24) % 3, "who": np.repeat(["a", "b", "c"], 8)}
    return plain | changes


def with_nan() -> Any:
    x = arrays()["x"]
    x[5, 1] = np.nan
    return x


def settings(*overrides: str) -> list[str]:
    return [part for override in overrides for part in ("--set", override)]


@pytest.fixture
def refused(federico: Callable[..., Any], small: Path, files: Path) -> Callable[..., str]:
    """The one line of a run that is refused as it should be."""

    def run(code: int, *overrides: str, file: Path = small) -> str:
        answer = federico("run", file, *settings(*overrides))
        assert answer.code == code, answer.err
        assert answer.out == ""
        assert "Traceback" not in answer.err
        line, *more = answer.err.splitlines()
        assert more == []
        assert line.startswith("error: ")
        assert not list(files.glob("runs/*/*")), "nothing half-made is left"
        return line

    return run


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (
            ["federico.neighbours=2"],
            "small.toml: federico.neighbours: there is no such key (did you mean 'neighbors'?)",
        ),
        (
            ["federico.neighbors=4"],
            "federico.neighbors = 4: with 4 clients a peer has 3 to visit; set it to 3 or less",
        ),
        (
            ["federico.epsilon=1.1"],
            "federico.epsilon = 1.1: Input should be less than or equal to 1",
        ),
        (
            ["federico.epsilon=-0.1"],
            "federico.epsilon = -0.1: Input should be greater than or equal to 0",
        ),
        (["federico.momentum=0"], "federico.momentum = 0: Input should be greater than 0"),
        (
            ["federico.momentum=1.5"],
            "federico.momentum = 1.5: Input should be less than or equal to 1",
        ),
        (
            ["methods=['federica']"],
            "'federica' is not a method (did you mean 'federico'?); allowed: federico, local",
        ),
        (["rounds"], "--set 'rounds': write it as key=value"),
        (["rounds.of=2"], "--set 'rounds.of=2': 'rounds' is a value, not a table"),
        (["rounds=soon"], "rounds = 'soon': Input should be a valid integer"),
        (["system.device=gpu7"], "system.device = 'gpu7': not available here"),
        (
            ["model={kind='cnn2'}"],
            "model: cnn2 needs images (channels, height, width), the data has inputs of shape",
        ),
        (
            ["model={kind='import', path='nowhere.py:Net'}"],
            "nowhere.py:Net' cannot be imported: No such file",
        ),
        (["model={kind='mlp', hidden=[300000, 300000]}"], "model: one alone takes"),
        (["data={kind='python'}"], "data: it was given in Python and is not stored"),
        (["model={kind='python'}"], "model: it was made in Python and is not stored"),
        (["split.samples=1000000"], "samples = 1000000: the data holds 1797"),
        (
            ["partition.groups=11", "partition.clients=12"],
            "groups = 11: the data has only 10 different labels",
        ),
        (
            ["partition={kind='natural'}"],
            "kind = natural: the data does not say who owns each sample",
        ),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_wrong_setting_names_its_key(
    refused: Callable[..., str], overrides: list[str], said: str
) -> None:
    assert said in refused(CONFIG, *overrides)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"x": with_nan()}, "mine.npz: the inputs hold infinite or missing values"),
        ({"y": np.arange(24) - 1}, "mine.npz: labels run from -1 to 22"),
        ({"y": np.arange(23) % 3}, "mine.npz: holds 24 inputs but 23 targets"),
        (
            {"x": np.zeros((0, 3)), "y": np.zeros(0, int), "who": np.zeros(0, "U1")},
            "mine.npz: holds no samples",
        ),
        ({"who": np.array(["a"] * 23 + ["b"])}, "client 'b' has 1 samples: it needs at least 2"),
        ({"x": np.array([["text"]] * 24)}, "mine.npz: inputs must be numbers"),
        ({"x": np.array([[{}]] * 24)}, "mine.npz: not a readable npz file"),
    ],
    ids=["nan", "negative labels", "fewer labels", "no samples", "one sample", "text", "objects"],
)
def test_wrong_array_names_its_file(
    refused: Callable[..., str], files: Path, changes: dict[str, Any], said: str
) -> None:
    np.savez(files / "mine.npz", **arrays(**changes))
    assert said in refused(DATA, *OWNED)


def test_label_beyond_the_named_classes_names_the_file(
    refused: Callable[..., str], files: Path
) -> None:
    np.savez(files / "mine.npz", **arrays(names=np.array(["x", "y"])))
    assert "mine.npz: labels run from 0 to 2: they must lie in 0..1" in refused(
        DATA, *OWNED, "data.labels=names"
    )


@pytest.mark.parametrize("key", ["x", "client"])
def test_array_that_is_not_in_the_file_is_named_with_those_that_are(
    refused: Callable[..., str], files: Path, key: str
) -> None:
    np.savez(files / "mine.npz", **arrays())
    line = refused(DATA, *OWNED, f"data.{key}=nothing")
    assert "mine.npz: no array named 'nothing': it holds x, y, who" in line


@pytest.mark.parametrize("kind", ["npz", "cifar10", "image-folder"])
def test_missing_file_is_named(refused: Callable[..., str], files: Path, kind: str) -> None:
    line = refused(DATA, f"data={{kind='{kind}', path='not-there'}}")
    assert f"{files}/not-there: not found: " in line


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut off", b"hello"])
def test_damaged_file_is_named(refused: Callable[..., str], files: Path, content: bytes) -> None:
    (files / "mine.npz").write_bytes(content)
    assert "mine.npz: not a readable npz file" in refused(DATA, *NPZ)


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["data.label=sick"], "people.csv: no column named 'sick': it holds site, v, y"),
        (["data.client=house"], "people.csv: no column named 'house'"),
        (["data.categorical=['w']"], "people.csv: no column named 'w'"),
        (["data.path='other.csv'"], "other.csv: not found"),
        (["data.names=['a', 'b']"], "people.csv: holds 3 columns but 'names' lists 2"),
        (
            ["data.client='v'", "data.label='y'", "data.ignore=['site']"],
            "no column is left to learn from",
        ),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_wrong_column_names_the_file(
    refused: Callable[..., str], overrides: list[str], said: str
) -> None:
    assert said in refused(DATA, *TABLE, *overrides)


def test_model_for_images_is_refused_on_a_table(refused: Callable[..., str]) -> None:
    assert "cnn2 needs images" in refused(CONFIG, *TABLE, "model={kind='cnn2'}")


def test_two_files_of_one_name_would_be_two_clients_of_one_name(
    refused: Callable[..., str], files: Path
) -> None:
    for folder in ("one", "two"):
        (files / folder).mkdir()
        (files / folder / "ward.csv").write_text(table())
    data = "data={kind='table', path=['one/ward.csv', 'two/ward.csv'], label='y', ignore=['site']}"
    assert "two files are named ward" in refused(DATA, data, "partition={kind='natural'}")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rounds = \n", "bad.toml: not a readable TOML file"),
        ("round = 3\n", "bad.toml: round: there is no such key (did you mean 'rounds'?)"),
        (
            "[data]\nkind = 'digitz'\n",
            "bad.toml: data.kind = 'digitz': there is no such kind (did you mean 'digits'?)",
        ),
    ],
)
def test_wrong_file_is_named(
    refused: Callable[..., str], files: Path, text: str, said: str
) -> None:
    (files / "bad.toml").write_text(text)
    assert said in refused(CONFIG, file=files / "bad.toml")


def test_missing_experiment_is_named(refused: Callable[..., str], files: Path) -> None:
    assert "gone.toml: there is no such experiment file" in refused(
        CONFIG, file=files / "gone.toml"
    )


def test_every_wrong_key_has_its_own_line(federico: Callable[..., Any], small: Path) -> None:
    answer = federico("run", small, *settings("federico.epsilon=3", "colour=red", "rounds=0"))
    lines = answer.err.splitlines()
    assert answer.code == CONFIG
    assert len(lines) == 3
    assert all(line.startswith("error: ") for line in lines)


def test_fewer_samples_than_classes_are_allowed_and_warned_of(
    federico: Callable[..., Any], small: Path
) -> None:
    short = settings("split={samples=60, test_fraction=0.5}", "rounds=1", "methods=['local']")
    answer = federico("run", small, *short)
    assert answer.code == 0
    assert "training samples for 10 classes" in " ".join(answer.err.split())
    quiet = federico("run", small, *short, "-q", "--name", "quiet")
    assert quiet.out == ""
    assert "training samples for 10 classes" in quiet.err


def test_run_directory_that_is_a_file_is_named(
    federico: Callable[..., Any], small: Path, tmp_path: Path
) -> None:
    (tmp_path / "runs").write_text("in the way")
    answer = federico("run", small)
    assert answer.code == RUN
    assert answer.err.startswith("error: runs/small: cannot be written")


def test_wrong_option_of_the_command_itself_has_the_same_code(
    federico: Callable[..., Any], small: Path
) -> None:
    answer = federico("run", small, "--rounds", "3")
    assert answer.code == CONFIG
    assert "--rounds" in answer.err


def test_real_process_refuses_in_one_line_too(small: Path, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "federico",
        "run",
        str(small),
        "--set",
        "federico.neighbors=9",
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == CONFIG
    assert done.stdout == ""
    assert done.stderr.startswith("error: federico.neighbors = 9: with 4 clients")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
