import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks import run
from benchmarks.run import Suite, compare
from benchmarks.store import Results, Unfinished

Make = Callable[..., dict[str, Any]]


class Processes:
    """Stands in for fresh processes; answers each measurement with its number."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.missing: set[str] = set()
        self.stop_at = 1000

    def run(self, command: list[str], **_: Any) -> "subprocess.CompletedProcess[str]":
        row, *options = command[3:]
        if row in self.missing:
            return subprocess.CompletedProcess(
                command, 3, "", "cifar: not found: set FEDERICO_DATA"
            )
        if options:
            return subprocess.CompletedProcess(command, 0, "", "")
        if len(self.started) == self.stop_at:
            raise KeyboardInterrupt
        self.started.append(row)
        return subprocess.CompletedProcess(
            command, 0, json.dumps({"number": len(self.started)}) + "\n", ""
        )


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Processes:
    processes = Processes()
    monkeypatch.setattr(subprocess, "run", processes.run)
    monkeypatch.setattr(run, "Unfinished", lambda: Unfinished(tmp_path))
    return processes


def test_rows_take_turns(processes: Processes) -> None:
    measured = Suite(["mlp", "cnn2"], 3).run()
    assert processes.started == ["mlp", "cnn2"] * 3
    assert [one["number"] for one in measured["cnn2"]] == [2, 4, 6]


def test_one_long_measurement_is_enough_where_the_row_says_so(processes: Processes) -> None:
    Suite(["linear", "endurance"], 3).run()
    assert processes.started.count("endurance") == 1
    assert processes.started.count("linear") == 3


def test_stopped_suite_goes_on(processes: Processes) -> None:
    processes.stop_at = 3
    with pytest.raises(KeyboardInterrupt):
        Suite(["mlp", "cnn2"], 3).run()
    processes.stop_at = 1000
    measured = Suite(["mlp", "cnn2"], 3).run()
    assert processes.started == ["mlp", "cnn2", "mlp", "cnn2", "mlp", "cnn2"]
    assert all(len(measurements) == 3 for measurements in measured.values())


def test_suite_that_is_done_begins_anew(processes: Processes) -> None:
    for _ in range(2):
        suite = Suite(["mlp"], 1)
        suite.run()
        suite.done()
    assert processes.started == ["mlp", "mlp"]


def test_row_without_data_is_left_out_and_said(
    processes: Processes, capsys: pytest.CaptureFixture[str]
) -> None:
    processes.missing = {"cnn2"}
    assert list(Suite(["linear", "cnn2"], 1).run()) == ["linear"]
    assert "cnn2: left out: cifar: not found: set FEDERICO_DATA" in capsys.readouterr().out


def test_regression_is_named_and_ends_with_1(
    model_measurement: Make,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    results = Results(tmp_path)
    results.write("mlp", {}, [model_measurement()] * 5)
    monkeypatch.setattr(run, "Results", lambda: results)
    assert compare({"mlp": [model_measurement(1.02)]}) == 0
    assert compare({"mlp": [model_measurement(0.5)]}) == 1
    assert "REGRESSION: mlp: training: plain twin / federico" in " ".join(
        capsys.readouterr().out.split()
    )
    assert compare({"cnn2": [model_measurement()]}) == 0, "nothing is stored"


def test_unknown_row_is_refused_with_those_there_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["run", "mpl"])
    with pytest.raises(SystemExit):
        run.main()
    assert "no row mpl; there are linear, mlp" in " ".join(capsys.readouterr().err.split())


def test_list_measures_nothing(
    monkeypatch: pytest.MonkeyPatch, processes: Processes, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["run", "--list"])
    assert run.main() == 0
    assert "growth-clients" in capsys.readouterr().out
    assert processes.started == []
