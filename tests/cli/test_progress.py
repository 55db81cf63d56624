import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from federico.cli.progress import LiveProgress
from federico.experiment.grid import load_grid
from federico.experiment.runner import run_grid
from federico.runs.layout import CellDir
from federico.runs.metric import ACCURACY


@pytest.fixture
def shown(tiny: Path, tmp_path: Path) -> Callable[..., str]:
    """What a console shows of a run."""

    def run(terminal: bool, overrides: list[str] | None = None, say: str = "") -> str:
        text = io.StringIO()
        console = Console(file=text, force_terminal=terminal, width=110, color_system=None)
        grid = load_grid(tiny, overrides or [])
        with LiveProgress(console, grid.table()) as progress:
            run_grid(grid, tmp_path, progress)
            if say:
                progress.say(say)
        return text.getvalue()

    return run


def test_log_has_one_line_per_cell(shown: Callable[..., str]) -> None:
    lines = shown(terminal=False, overrides=["seeds=[0, 1]"]).splitlines()
    about_data = [line.split(":")[0] for line in lines[:3]]
    assert about_data == ["data", "target", "inputs"]
    lines = lines[3:]
    assert [line.split(":")[0] for line in lines] == [
        "Local, seed 0", "FedeRiCo, seed 0", "Local, seed 1", "FedeRiCo, seed 1",
    ]  # fmt: skip
    alone = re.search(r" (\d+\.\d) % accuracy$", lines[0])
    together = re.search(r" (\d+\.\d) % accuracy \(alone (\S+)\), (\S+) against Local$", lines[1])
    assert alone
    assert together
    assert together[2] == alone[1], "its private models are trained as Local's"
    difference = float(together[3].replace("\N{MINUS SIGN}", "-"))
    assert difference == pytest.approx(float(together[1]) - float(alone[1]), abs=0.2)


def test_terminal_has_bars_that_end_full(shown: Callable[..., str]) -> None:
    text = shown(terminal=True)
    assert "all runs, rounds" in text
    assert "4/4" in text


def test_terminal_has_the_table_as_it_fills_in(shown: Callable[..., str]) -> None:
    text = shown(terminal=True, overrides=["seeds=[0, 1]"])
    assert "accuracy (%)" in text
    assert "FedeRiCo" in text
    assert "±" in text, "mean and spread; how often it is drawn depends on the clock"


def test_hostile_clients_are_in_no_mean(shown: Callable[..., str], tmp_path: Path) -> None:
    attack = "attack={kind='noise', members=['1']}"
    text = shown(terminal=False, overrides=[attack, "methods=['federico']"])
    (path,) = tmp_path.glob("*/federico-0")
    cell = CellDir(path)
    about = cell.description
    last = cell.records[-1]
    assert last.figures is not None
    assert last.alone is not None
    honest = ACCURACY.bare(about.mean(ACCURACY, last.figures))
    alone = ACCURACY.bare(about.mean(ACCURACY, last.alone))
    assert f"FedeRiCo, seed 0: {honest} % accuracy (alone {alone})" in text

    samples = [sum(pair) for pair in zip(about.train_samples, about.test_samples, strict=True)]
    of_all = (ACCURACY.mean(last.figures, samples), ACCURACY.mean(last.alone, samples))
    assert [honest, alone] != [ACCURACY.bare(mean) for mean in of_all], "it would show"


def test_brackets_in_names_are_no_markup(shown: Callable[..., str]) -> None:
    rows = ['grid={rows=[{name="[bold]one"}]}']
    assert "[bold]one, seed 0: " in shown(terminal=False, overrides=rows)
    assert "[bold]one" in shown(terminal=True, overrides=[*rows, "rounds=3"])


def test_resumed_run_counts_what_was_there(shown: Callable[..., str]) -> None:
    shown(terminal=False)
    text = shown(terminal=True, overrides=["rounds=3"])
    assert "6/6" in text


def test_log_says_what_resumes_and_from_where(shown: Callable[..., str], tmp_path: Path) -> None:
    shown(terminal=False)
    lines = shown(terminal=False, overrides=["rounds=3"]).splitlines()
    resumed = [line for line in lines if "resuming" in line]
    folder = next(tmp_path.glob("*/local-0"))
    assert resumed[0] == f"Local, seed 0: resuming after round 2 from the checkpoint in {folder}"
    assert len(resumed) == 2
    finished = [line for line in lines if " % accuracy" in line]
    assert len(finished) == 2


def test_remark_is_shown_as_it_is(shown: Callable[..., str]) -> None:
    long = "client '[/b] x' " + "has few samples " * 10
    assert f"note: {long}" in shown(terminal=False, say=long)


def test_regression_shows_r2(shown: Callable[..., str]) -> None:
    sine: list[Any] = [
        "data={kind='sine', clients=4}",
        "partition={kind='natural'}",
        "split={}",
        "model={kind='linear'}",
    ]
    assert re.search(r"Local, seed 0: R2 \S?\d\S*\n", shown(terminal=False, overrides=sine))
