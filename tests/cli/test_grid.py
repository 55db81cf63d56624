"""`federico run` on a file with a grid, and `federico reproduce`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from federico.cli.run import perform
from federico.cli.run_options import RunOptions
from federico.exchange.processes import SingleProcess
from federico.experiment.grid import load_grid
from federico.runs.results import read_results
from federico.runs.table import read_table

Command = Callable[..., Any]
GRID = """
[grid]
title = "Tiny table"
columns = [{ name = "two" }, { name = "four", set = { "partition.groups" = 4 } }]

[paper]
rounds = 100
values = { local = { two = [50.0, 1.0] } }
"""
TUNING = 'grid={rates=["best"],tuning={rates=[0.01,0.1],rounds=1},columns=[{name="two"}]}'


@pytest.fixture
def study(tiny: Path) -> Path:
    """The tiny experiment, in two columns."""
    file = tiny.with_name("study.toml")
    file.write_text(tiny.read_text() + GRID)
    return file


def test_a_grid_prints_its_tables(federico: Command, study: Path, tmp_path: Path) -> None:
    answer = federico("run", study)
    assert answer.code == 0
    assert "Accuracy (%), learning rate 0.01" in answer.out
    assert "50.0 ± 1.0" in answer.out
    assert "Not as in the paper: 2 rounds; the paper has 100." in answer.out
    assert answer.out.rstrip().endswith("Next: federico report runs/study")
    assert len([line for line in answer.err.splitlines() if "seed 0:" in line]) == 4
    assert not (tmp_path / "results").exists()
    again = federico("run", study)
    assert again.out == answer.out
    assert again.err == "runs/study: finished already, nothing to do\n"


def test_json_is_all_there_is(federico: Command, study: Path) -> None:
    part = ["--row", "local", "--column", "four", "--set", "rounds=1"]
    answer = federico("run", study, "--json", *part)
    assert answer.err == ""
    found = json.loads(answer.out)
    assert (found["rounds"], found["unfinished"]) == (1, 3)
    (entry,) = found["entries"]
    assert (entry["row"], entry["column"], entry["rate_kind"]) == ("local", "four", "given")
    assert entry["mean"] == pytest.approx(entry["by_seed"]["0"])


def test_save_keeps_results_and_the_command_without_places(
    federico: Command, study: Path, tmp_path: Path
) -> None:
    where = ["--directory", tmp_path / "elsewhere", "--set", "rounds=1"]
    answer = federico("run", "study.toml", "--save", *where)
    assert "Saved: results/study" in answer.out
    cells, stored = read_results(tmp_path / "results" / "study")
    assert (len(cells), stored) == (4, [])
    assert {cell.provenance.command for cell in cells} == {
        "federico run study.toml --set rounds=1 --save"
    }
    assert str(tmp_path) not in (tmp_path / "results" / "study" / "results.jsonl").read_text()
    assert read_table(tmp_path / "results" / "study").title == "Tiny table"


def test_a_result_grows_over_run_directories_and_rates_are_tuned_once(
    federico: Command, study: Path
) -> None:
    for row in ("local", "federico"):
        answer = federico(
            "run", "study.toml", "--save", "--set", TUNING, "--row", row, "--directory", row
        )
        assert answer.code == 0
    assert "FedeRiCo" in answer.out
    assert "Local" in answer.out, "a row that was run elsewhere is shown too"
    cells, _ = read_results(Path("results/study"))
    best = {cell.row: cell.rate for cell in cells if cell.rate_kind == "best"}
    assert best.keys() == {"local", "federico"}

    again = federico("run", "study.toml", "--set", TUNING, "--directory", "anew", "--quiet")
    assert again.err == (
        "note: best learning rates from results/study, not tuned again: "
        f"federico, two: {best['federico']:g}; local, two: {best['local']:g}\n"
    )
    assert len(list(Path("anew/study").glob("*-0-*"))) == 2, "no tuning runs"


def test_results_of_other_settings_are_not_mixed(federico: Command, study: Path) -> None:
    federico("run", "study.toml", "--save", "--quiet", "--row", "local")
    other = ["--set", "training.batch_size=7", "--directory", "elsewhere"]
    answer = federico("run", "study.toml", "--save", "--quiet", "--row", "local", *other)
    assert answer.code == 4
    assert "results/study: holds results of other settings (row 'local', column 'two'" in answer.err
    assert not Path("elsewhere").exists(), "refused before anything was run"
    named = federico("run", "study.toml", "--save", "--name", "mine", "--row", "local", *other)
    assert named.code == 0
    assert Path("results/mine/results.jsonl").exists()


def test_a_damaged_result_stops_only_what_would_add_to_it(federico: Command, study: Path) -> None:
    Path("results/study").mkdir(parents=True)
    Path("results/study/results.jsonl").write_text("{}\n")
    for words in ([], ["--dry-run"]):
        answer = federico("run", "study.toml", "--quiet", *words)
        assert answer.code == 0
        assert "note: no learning rates are known from before: results/study" in answer.err
    Path("runs").rename("finished")
    assert federico("run", "study.toml", "--save").code != 0
    assert not Path("runs").exists()
    assert Path("results/study/results.jsonl").read_text() == "{}\n"


@pytest.mark.parametrize("rank", [0, 1])
def test_only_the_first_process_of_a_team_talks(
    study: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, rank: int
) -> None:
    monkeypatch.chdir(study.parent)
    Path("results/study").mkdir(parents=True)
    Path("results/study/results.jsonl").write_text("{}\n")
    team = SingleProcess()
    team.rank = rank
    perform(load_grid(study), RunOptions(dry_run=True), ["run", "study.toml"], team)
    said = capsys.readouterr()
    assert ("note: no learning rates" in said.err) == (rank == 0)
    assert ("0 finished" in said.out) == (rank == 0)


def test_dry_run_counts_and_runs_nothing(federico: Command, study: Path, tmp_path: Path) -> None:
    answer = federico("run", study, "--dry-run", "--jobs", "2")
    assert answer.code == 0
    assert "4 runs (tuning included), 0 finished; about 0:00:0" in answer.out
    assert not (tmp_path / "runs").exists()
    found = json.loads(federico("run", study, "--dry-run", "--json").out)
    assert {row: (entry["runs"], entry["finished"]) for row, entry in found["rows"].items()} == {
        "federico": (2, 0),
        "local": (2, 0),
    }


def test_reproduce_runs_a_preset_at_a_scale_and_says_so(federico: Command) -> None:
    answer = federico("reproduce", "figure1", "--scale", "0.01", "--save")
    assert answer.code == 0
    text = " ".join(answer.out.split())
    assert "10 clients, 4 rounds, 1 seed" in text
    assert "Run at --scale 0.01: 4 of 400 rounds, 1 of 10 seeds." in text
    assert "Saved: results/figure1" in answer.out
    cells, _ = read_results(Path("results/figure1"))
    command = "federico reproduce figure1 --scale 0.01 --save"
    assert {cell.provenance.command for cell in cells} == {command}


def test_a_client_of_a_cell_in_a_grid_predicts(federico: Command, study: Path) -> None:
    import numpy as np

    federico("run", study, "--quiet")
    np.savez("new.npz", x=np.zeros((2, 64)))
    where = ["runs/study", "new.npz", "--client", "3", "--method", "local", "--column", "four"]
    assert federico("predict", *where).code == 0
    answer = federico("predict", *where, "--overwrite", "--row", "nobody")
    assert answer.code == 2
    assert "holds no run of 'local'" in answer.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["reproduce", "table9"],
            "table9: there is nothing of that name to reproduce; there is digits",
        ),
        (
            ["reproduce", "figure1", "--scale", "2"],
            "--scale 2: give a number above 0 and at most 1",
        ),
        (
            ["reproduce", "figure1", "--column", "five"],
            "figure1 has none of that name; it has no names to choose from",
        ),
        (["run", "study.toml", "--jobs", "0"], "--jobs 0: at least one process must do the work"),
        (["run", "study.toml", "--row", "nobody"], "--row nobody: study has none of that name"),
        (["run", "study.toml", "--set", "grid.rates=[1]"], "grid.rates.0 = 1"),
        (["run", "none.toml"], "none.toml: there is no such experiment file"),
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
