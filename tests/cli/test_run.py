import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from federico.experiment.config import load
from federico.runs.layout import RunDir

Command = Callable[..., Any]
EXPERIMENTS = Path(__file__).parents[2] / "experiments"


def stamps(run: Path) -> dict[Path, tuple[int, bytes]]:
    """When every file was last written, and what it holds."""
    return {
        path: (path.stat().st_mtime_ns, path.read_bytes())
        for path in run.rglob("*")
        if path.is_file()
    }


def test_run_prints_its_table_and_what_comes_next(federico: Command, tiny: Path) -> None:
    answer = federico("run", tiny)
    assert answer.code == 0
    assert "FedeRiCo" in answer.out
    assert "Local" in answer.out
    assert answer.out.rstrip().endswith("Next: federico report runs/tiny")
    assert "Local, seed 0" in answer.err
    assert "against Local" in answer.err


def test_json_is_all_there_is_on_standard_output(federico: Command, tiny: Path) -> None:
    answer = federico("run", tiny, "--json")
    result = json.loads(answer.out)
    assert result["rounds"] == 2
    assert result["finished"] is True
    assert [entry["row"] for entry in result["entries"]] == ["federico", "local"]
    assert all(0 <= entry["mean"] <= 1 for entry in result["entries"])
    assert answer.err == ""


def test_quiet_says_nothing(federico: Command, tiny: Path, tmp_path: Path) -> None:
    answer = federico("run", tiny, "--quiet")
    assert (answer.code, answer.out, answer.err) == (0, "", "")
    assert (tmp_path / "runs" / "tiny" / "federico-0" / "done.json").exists()


def test_finished_run_says_so_and_changes_nothing(federico: Command, tiny: Path, run: Path) -> None:
    before = stamps(run)
    answer = federico("run", tiny)
    assert answer.code == 0
    assert "runs/tiny: finished already, nothing to do" in answer.err
    assert "FedeRiCo" in answer.out
    assert stamps(run) == before
    again = federico("run", tiny, "-q")
    assert (again.out, again.err) == ("", "")


def test_finished_run_of_another_experiment_is_refused_not_shown(
    federico: Command, tiny: Path, run: Path
) -> None:
    before = stamps(run)
    answer = federico("run", tiny, "--set", "federico.epsilon=0.9")
    assert answer.code == 4
    assert answer.out == ""
    assert (
        "holds another experiment (federico.epsilon was 0.3, now 0.9). Choose another name, or"
        in answer.err
    )
    left = stamps(run)
    assert {path: left[path] for path in before if path.name != ".lock"} == {
        path: before[path] for path in before if path.name != ".lock"
    }


def test_finished_run_is_refused_fewer_rounds(federico: Command, tiny: Path, run: Path) -> None:
    answer = federico("run", tiny, "--set", "rounds=1")
    assert answer.code == 4
    assert "already has 2 rounds, 1 were asked for" in answer.err


def test_more_rounds_go_on(federico: Command, tiny: Path, run: Path) -> None:
    assert federico("run", tiny, "--set", "rounds=4", "-q").code == 0
    assert [len(cell.records) for cell in RunDir(run).cells()] == [4, 4]


def test_name_and_directory_say_where(federico: Command, tiny: Path, tmp_path: Path) -> None:
    federico("run", tiny, "--name", "other", "--directory", tmp_path / "deep" / "er", "-q")
    assert load(tmp_path / "deep" / "er" / "other" / "config.toml").name == "other"
    about = RunDir(tmp_path / "deep" / "er" / "other").cells()[0].description
    assert about.command == f"federico run {tiny} --name other", (
        "what changes no number is left out"
    )


def test_bad_name_is_refused(federico: Command, tiny: Path, tmp_path: Path) -> None:
    answer = federico("run", tiny, "--name", "../up")
    assert answer.code == 2
    assert "name = '../up'" in answer.err
    assert not (tmp_path / "runs").exists()


def test_regression_is_told_as_r2(federico: Command) -> None:
    short = ["--set", "rounds=2", "--set", "seeds=[0]"]
    answer = federico("run", EXPERIMENTS / "sine.toml", *short)
    assert answer.code == 0
    assert "R2" in answer.err
    assert "accuracy" not in answer.out
    assert federico("run", EXPERIMENTS / "sine.toml", *short, "--json").code == 0


@pytest.mark.parametrize(
    ("file", "needs", "changes"),
    [
        ("heart.toml", "heart-disease", []),
        (
            "office-home.toml",
            "office-home",
            ["model.hidden=[16]", "split.samples=1500", "system.threads=1"],
        ),
    ],
)
def test_shipped_experiment_runs_on_its_real_data(
    federico: Command, real_data: Callable[[str], Path], file: str, needs: str, changes: list[str]
) -> None:
    real_data(needs)
    settings = [
        part for change in ["rounds=2", "seeds=[0]", *changes] for part in ("--set", change)
    ]
    answer = federico("run", EXPERIMENTS / file, *settings, "--json")
    assert answer.code == 0
    for entry in json.loads(answer.out)["entries"]:
        assert math.isfinite(entry["mean"])


def test_the_data_is_shown_before_anything_trains(federico: Command, tiny: Path) -> None:
    answer = federico("run", tiny)
    first = answer.err.splitlines()[0]
    assert first.startswith("data: "), answer.err
    assert " clients (" in first
    shown = json.loads(federico("data", "show", tiny, "--json").out)
    assert first == f"data: {shown['data']}"
    again = federico("run", tiny)
    assert "data: " not in again.err, "nothing is left to train"
