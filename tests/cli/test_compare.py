import fcntl
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from federico.compare.run import run_study
from federico.compare.saved import LOCK, read_saved, write_saved

Command = Callable[..., Any]
COMPARE = """
[compare]
title = "Tiny table"
columns = [{ name = "two" }, { name = "four", set = { "partition.groups" = 4 } }]
paper = { rounds = 100, values = { local = { two = [50.0, 1.0] } } }
"""


@pytest.fixture
def study(tiny: Path) -> Path:
    """The tiny experiment, in two columns."""
    file = tiny.with_name("study.toml")
    file.write_text(tiny.read_text() + COMPARE)
    return file


def test_compare_prints_tables_and_writes_a_report(
    federico: Command, study: Path, tmp_path: Path
) -> None:
    answer = federico("compare", study)
    assert answer.code == 0
    assert "FedeRiCo is best in" in answer.out
    assert "Accuracy (%), learning rate 0.01" in answer.out
    assert "50.0 ± 1.0" in answer.out
    assert "Not as in the paper: 2 rounds; the paper has 100." in answer.out
    assert answer.out.rstrip().endswith("Report: runs/study/comparison/report.html")
    assert len([line for line in answer.err.splitlines() if "seed 0:" in line]) == 4
    assert (tmp_path / "runs" / "study" / "comparison" / "figures" / "cost.png").exists()
    assert not (tmp_path / "results").exists()
    again = federico("compare", study)
    assert again.out == answer.out
    assert again.err == ""


def test_json_is_all_there_is(federico: Command, study: Path) -> None:
    answer = federico(
        "compare", study, "--json", "--row", "local", "--column", "four", "--set", "rounds=1"
    )
    assert answer.err == ""
    found = json.loads(answer.out)
    assert (found["rounds"], found["unfinished"]) == (1, 3)
    (entry,) = found["entries"]
    assert (entry["row"], entry["column"], entry["at"]) == ("local", "four", "given")
    assert entry["mean"] == pytest.approx(entry["by_seed"]["0"])


def test_save_keeps_result_figures_and_the_command_without_places(
    federico: Command, study: Path, tmp_path: Path
) -> None:
    answer = federico(
        "compare",
        "study.toml",
        "--save",
        "--directory",
        tmp_path / "elsewhere",
        "--set",
        "rounds=1",
    )
    assert "Saved: results/study.json" in answer.out
    saved = read_saved(tmp_path / "results" / "study.json")
    assert saved.saves[0].command == "federico compare study.toml --set rounds=1 --save"
    assert saved.figures == ["study-overview.png", "study-cost.png"]
    assert all((tmp_path / "results" / name).exists() for name in saved.figures)
    assert str(tmp_path) not in (tmp_path / "results" / "study.json").read_text()


def test_a_result_grows_over_run_directories_and_rates_are_tuned_once(
    federico: Command, study: Path, tmp_path: Path
) -> None:
    tuning = 'compare={at=["best"],tuning={rates=[0.01,0.1],rounds=1},columns=[{name="two"}]}'
    for row in ("local", "federico"):
        answer = federico(
            "compare", "study.toml", "--save", "--set", tuning, "--row", row, "--directory", row
        )
        assert answer.code == 0
    saved = read_saved(tmp_path / "results" / "study.json")
    assert [(entry.row, entry.saves) for entry in saved.result.entries] == [
        ("federico", (1,)),
        ("local", (0,)),
    ]
    assert [save.command.partition("--row ")[2] for save in saved.saves] == [
        "local --save",
        "federico --save",
    ]
    assert saved.result.unfinished == 0
    assert saved.result.entries[0].versus is not None, "against a row that was run elsewhere"
    page = (tmp_path / "federico" / "study" / "comparison" / "report.html").read_text()
    assert "--row local --save</code>" in page
    assert "--row federico --save</code>" in page
    again = federico("compare", "study.toml", "--set", tuning, "--directory", "anew", "--quiet")
    rates = {each.row: f"{each.rate:g}" for each in saved.result.tuned}
    assert again.err == (
        "note: best learning rates from results/study.json, not tuned again: "
        f"FedeRiCo, two: {rates['federico']}; Local, two: {rates['local']}\n"
    )
    assert len(list(Path("anew/study").glob("*-0-*"))) == 2, "no tuning runs"
    dropped = federico("compare", "study.toml", "--save", "--quiet", "--row", "local")
    assert "note: results/study.json: FedeRiCo, two, best rate, 2 rounds: dropped" in dropped.err


def test_what_another_command_saves_during_the_runs_is_not_lost(
    federico: Command, study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    federico("compare", "study.toml", "--save", "--row", "federico", "--directory", "elsewhere")
    file, away = Path("results/study.json"), Path("away.json")
    file.rename(away)

    def run_and_be_overtaken(*given: Any, **named: Any) -> None:
        run_study(*given, **named)
        away.rename(file)

    def write_alone(*given: Any) -> Path:
        with (file.parent / LOCK).open() as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return write_saved(*given)

    monkeypatch.setattr("federico.cli.compare.run_study", run_and_be_overtaken)
    monkeypatch.setattr("federico.cli.compare.write_saved", write_alone)
    assert federico("compare", "study.toml", "--save", "--row", "local").code == 0
    assert {entry.row for entry in read_saved(file).result.entries} == {"federico", "local"}


def test_a_damaged_result_stops_only_what_would_add_to_it(federico: Command, study: Path) -> None:
    Path("results").mkdir()
    Path("results/study.json").write_text("{}")
    for words in ([], ["--dry-run"]):
        answer = federico("compare", "study.toml", "--quiet", *words)
        assert answer.code == 0
        assert (
            "note: no learning rates are known from before: results/study.json: not a saved result"
            in answer.err
        )
    Path("runs").rename("finished")
    assert federico("compare", "study.toml", "--save").code != 0
    assert not Path("runs").exists()
    assert Path("results/study.json").read_text() == "{}"


def test_compare_leaves_what_run_has_written(federico: Command, study: Path) -> None:
    federico("run", "tiny.toml", "--name", "study")
    federico("report", "runs/study")
    before = {path: path.read_bytes() for path in Path("runs/study").rglob("*") if path.is_file()}
    assert Path("runs/study/report.html") in before
    federico("compare", "study.toml", "--quiet")
    assert {path: path.read_bytes() for path in before} == before


def test_dry_run_counts_and_runs_nothing(federico: Command, study: Path, tmp_path: Path) -> None:
    answer = federico("compare", study, "--dry-run", "--jobs", "2")
    assert answer.code == 0
    assert "4 runs (tuning included), 0 finished; about 0:00:0" in answer.out
    assert not (tmp_path / "runs").exists()
    found = json.loads(federico("compare", study, "--dry-run", "--json").out)
    assert {row: (entry["runs"], entry["finished"]) for row, entry in found["rows"].items()} == {
        "federico": (2, 0),
        "local": (2, 0),
    }


def test_reproduce_runs_a_preset_at_a_scale_and_says_so(federico: Command) -> None:
    answer = federico("reproduce", "figure1", "--scale", "0.01", "--save")
    assert answer.code == 0
    assert "10 clients, 4 rounds, 1 seed" in answer.out
    assert "Not as in the paper: Run at --scale 0.01: 4 of 400 rounds, 1 of 10 seeds." in " ".join(
        answer.out.split()
    )
    assert "Saved: results/figure1.json" in answer.out
    assert (
        read_saved(Path("results/figure1.json")).saves[0].command
        == "federico reproduce figure1 --scale 0.01 --save"
    )
    assert Path("results/figure1-figure.png").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["reproduce", "table9"],
            "table9: there is nothing of that name to reproduce; there is ablation-digits",
        ),
        (
            ["reproduce", "figure1", "--scale", "2"],
            "--scale 2: give a number above 0 and at most 1",
        ),
        (
            ["reproduce", "figure1", "--column", "five"],
            "figure1 has none of that name; it has no names to choose from",
        ),
        (
            ["compare", "study.toml", "--jobs", "0"],
            "--jobs 0: at least one process must do the work",
        ),
        (["compare", "study.toml", "--row", "nobody"], "--row nobody: study has none of that name"),
        (["compare", "study.toml", "--set", "compare.at=[1]"], "compare.at.0 = 1"),
        (["compare", "none.toml"], "none.toml: there is no such experiment file"),
        (
            ["run", "study.toml"],
            "study.toml: has a [compare] table, it is not one run: `federico compare study.toml`",
        ),
    ],
)
def test_what_cannot_be_is_one_line(
    federico: Command, study: Path, words: list[str], said: str
) -> None:
    answer = federico(*words)
    assert answer.code == 2
    assert said in answer.err
    assert "Traceback" not in answer.err
    assert not Path("runs").exists()
