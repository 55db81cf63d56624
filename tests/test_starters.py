"""`federico init` writes experiments that run as they are."""

import os
import py_compile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from federico.starters import EXAMPLES, STARTERS

Command = Callable[..., Any]


def test_every_starting_point_has_a_folder_and_a_line() -> None:
    assert {folder.name for folder in EXAMPLES.iterdir()} == set(STARTERS)


@pytest.mark.parametrize(
    ("kind", "file"),
    [
        ("digits", "digits.toml"),
        ("table", "patients.toml"),
        ("images", "images.toml"),
        ("model", "own-model.toml"),
        ("sine", "sine.toml"),
    ],
)
def test_what_is_written_runs_from_any_folder(
    federico: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, file: str
) -> None:
    """Files that the experiment names lie beside it, wherever the command is started."""
    monkeypatch.chdir(tmp_path)
    answer = federico("init", kind, "--directory", "mine")
    assert answer.code == 0
    assert f"federico run {file}" in answer.out
    short = ["--set", "rounds=1", "--set", "seeds=[0]", "--set", 'methods=["federico"]']
    answer = federico("run", f"mine/{file}", "--quiet", *short)
    assert answer.code == 0, answer.err


@pytest.mark.parametrize(
    ("kind", "needs", "small"),
    [
        ("cifar10", "cifar-10-batches-bin", ["split.samples=160"]),
        ("cifar100", "cifar-100-binary", ["split.samples=160", 'model.kind="cnn2"']),
        ("heart", "heart-disease", []),
        ("office-home", "office-home", ["model.hidden=[8]"]),
    ],
)
def test_what_needs_data_runs_with_it_and_without_says_what_is_missing(
    federico: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    needs: str,
    small: list[str],
) -> None:
    data = os.environ.get("FEDERICO_DATA")
    monkeypatch.delenv("FEDERICO_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    assert federico("init", kind).code == 0
    changes = ["rounds=1", "seeds=[0]", 'methods=["federico"]', *small]
    command = ["run", f"{kind}.toml", "--quiet"]
    for change in changes:
        command += ["--set", change]

    missing = federico(*command)
    assert missing.code == 3
    assert needs in missing.err
    assert str(tmp_path.resolve()) in missing.err

    if data is None or not (Path(data) / needs).exists():
        pytest.skip(f"FEDERICO_DATA has no {needs}")
    monkeypatch.setenv("FEDERICO_DATA", data)
    answer = federico(*command)
    assert answer.code == 0, answer.err


def test_what_an_installer_compiled_is_not_copied(federico: Command, tmp_path: Path) -> None:
    """pip compiles the modules among the examples too, into a folder beside them."""
    compiled = py_compile.compile(str(EXAMPLES / "model" / "nets.py"), doraise=True)
    assert Path(compiled).parent.parent == EXAMPLES / "model"
    assert federico("init", "model", "--directory", tmp_path).code == 0
    assert {path.name for path in tmp_path.iterdir()} == {"nets.py", "own-model.toml"}


def test_nothing_is_overwritten(federico: Command, tmp_path: Path) -> None:
    mine = tmp_path / "new-patients.csv"
    mine.write_text("mine")
    answer = federico("init", "table", "--directory", tmp_path)
    assert answer.code == 2
    assert str(mine) in answer.err
    assert mine.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [mine]


def test_ids_of_the_table_are_carried_through(federico: Command, tmp_path: Path) -> None:
    federico("init", "table")
    quick = ["--set", "rounds=1", "--set", "seeds=[0]", "--set", 'methods=["local"]', "-q"]
    assert federico("run", "patients.toml", *quick).code == 0
    new = ["runs/patients", "new-patients.csv", "--client", "north", "--method", "local"]
    assert federico("predict", *new).code == 0
    first = (tmp_path / "new-patients-predictions.csv").read_text().splitlines()[:2]
    assert first[0].startswith("patient,returned,p(no),p(yes)")
    assert first[1].startswith("p0900,")


def test_the_next_step_names_nothing_that_is_not_installed(federico: Command) -> None:
    """The extra `notebook` runs notebooks, and has no program to show them."""
    answer = federico("init", "notebook")
    assert "pip install jupyterlab" in answer.out


def test_a_folder_that_cannot_be_written_is_named(federico: Command, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    answer = federico("init", "digits", "--directory", tmp_path / "file" / "mine")
    assert answer.code == 4
    assert f"{tmp_path / 'file' / 'mine'}: cannot be written" in answer.err


def test_a_kind_that_is_not_there_is_answered_with_those_that_are(federico: Command) -> None:
    answer = federico("init", "tabel")
    assert answer.code == 2
    assert "did you mean 'table'?" in answer.err


def test_a_missing_file_is_named_with_the_folders_that_were_searched(
    federico: Command, tmp_path: Path
) -> None:
    federico("init", "table", "--directory", tmp_path)
    answer = federico("run", tmp_path / "patients.toml", "--set", "data.path=gone.csv")
    assert answer.code == 3
    assert str(Path("data/gone.csv").absolute()) in answer.err or "FEDERICO_DATA" in answer.err
    assert f"beside the experiment file, in {tmp_path.resolve()}" in answer.err


def test_a_missing_module_is_named_by_its_absolute_path(federico: Command, tmp_path: Path) -> None:
    federico("init", "model", "--directory", tmp_path)
    (tmp_path / "nets.py").unlink()
    answer = federico("run", tmp_path / "own-model.toml")
    assert answer.code == 2
    assert str(tmp_path.resolve() / "nets.py") in answer.err


@pytest.mark.parametrize("command", [["run", "gone"], ["report", "gone"], ["ui", "gone"]])
def test_what_is_not_there_is_named_by_its_absolute_path(
    federico: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = federico(*command)
    assert answer.code != 0
    assert str(tmp_path.resolve() / "gone") in answer.err
