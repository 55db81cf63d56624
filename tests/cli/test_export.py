import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open

from federico import load

Command = Callable[..., Any]


def weights(file: Path) -> list[float]:
    with safe_open(file, framework="np") as opened:
        found: list[float] = opened.get_tensor("weights").tolist()
        return found


def test_the_file_is_named_after_the_client(
    federico: Command, digits_run: Path, tmp_path: Path
) -> None:
    answer = federico("export", digits_run, "--client", "1", "--to", "safetensors")
    assert answer.code == 0
    assert answer.out == "1.safetensors: takes samples of shape (64,), any number at a time\n"
    posterior = load(digits_run).client("1").posterior
    np.testing.assert_array_equal(weights(tmp_path / "1.safetensors"), list(posterior.values()))


def test_json_says_what_goes_in_and_what_comes_out(federico: Command, hospitals: Path) -> None:
    answer = federico(
        "export", hospitals, "--client", "North", "--to", "safetensors", "--json",
    )  # fmt: skip
    about = json.loads(answer.out)
    assert about["file"] == "North.safetensors"
    assert [column["name"] for column in about["columns"]] == ["age", "pressure"]
    assert about["columns"][0]["categories"] is None
    assert about["labels"] == ["no", "yes"]
    assert about["input_shape"] == [2]
    assert about["target"] == "sick"


def test_the_columns_that_go_in_are_named(federico: Command, hospitals: Path) -> None:
    answer = federico("export", hospitals, "--client", "North", "--to", "safetensors")
    assert answer.out == (
        "North.safetensors: takes samples of 2 columns, in this order: age, pressure, "
        "any number at a time\n"
    )


@pytest.mark.parametrize("command", ["export", "predict"])
def test_the_shell_completes_the_names_of_clients(
    federico: Command, digits_run: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    words = f"federico {command} {digits_run} --client 1"
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
    monkeypatch.setenv("_FEDERICO_COMPLETE", "complete_bash")
    assert federico().out.split() == ["1"]
    monkeypatch.setenv("COMP_WORDS", words.replace(str(digits_run), "nowhere"))
    assert federico().out.split() == []


@pytest.mark.parametrize("place", ["bundle", "state/clients/North"])
def test_a_sites_folder_is_enough(
    federico: Command, hospitals: Path, tmp_path: Path, place: str
) -> None:
    load(hospitals).client("North").save(tmp_path / place)
    named = Path(place).parts[0]
    answer = federico("export", named, "--to", "safetensors", "--output", "out.safetensors")
    assert answer.code == 0
    assert weights(tmp_path / "out.safetensors")
    other = federico("export", named, "--to", "safetensors", "--client", "South")
    assert other.code == 2
    assert "is the personal model of North" in other.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--to", "onnx"], "--client: say whose model; "),
        (["--to", "onnx", "--client", "0", "--output", "a.txt"], "a.txt: must end in .onnx"),
        (["--to", "module", "--client", "0", "--output", "b.onnx"], "b.onnx: must end in .pt2"),
        (["--to", "module", "--client", "0"], "0.pt2: exists already; name another file"),
    ],
)
def test_what_cannot_be_exported_is_named(
    federico: Command, digits_run: Path, tmp_path: Path, arguments: list[str], said: str
) -> None:
    (tmp_path / "0.pt2").write_text("precious")
    answer = federico("export", digits_run, *arguments)
    assert answer.code == 2
    assert said in answer.err
    assert [file.name for file in tmp_path.iterdir()] == ["0.pt2"]
    assert (tmp_path / "0.pt2").read_text() == "precious"
