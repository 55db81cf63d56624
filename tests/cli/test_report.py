import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.sites import write_site

Command = Callable[..., Any]


def test_report_is_written_where_it_says(federico: Command, run: Path) -> None:
    answer = federico("report", run)
    assert answer.code == 0
    assert f"Report: {run}/report.html" in answer.out
    assert "FedeRiCo" in (run / "report.html").read_text(encoding="utf-8")
    assert list((run / "figures").glob("*.png"))


def test_report_as_json_is_nothing_else(federico: Command, run: Path) -> None:
    entries = json.loads(federico("report", run, "--json").out)["entries"]
    assert [entry["row"] for entry in entries] == ["federico", "local"]
    assert (run / "report.html").exists()


def test_quiet_report_says_nothing(federico: Command, run: Path) -> None:
    answer = federico("report", run, "-q")
    assert (answer.code, answer.out, answer.err) == (0, "", "")


REPORT_AND_NAME_WHAT_WAS_LOADED = """
import sys
from federico.cli.main import main
try:
    main()
finally:
    slow = ("torch", "pandas", "pyarrow", "sklearn", "federico.experiment")
    sys.stderr.write(" ".join(name for name in slow if name in sys.modules))
"""


def test_report_does_not_wait_for_packages_that_it_does_not_need(run: Path) -> None:
    command = [sys.executable, "-c", REPORT_AND_NAME_WHAT_WAS_LOADED, "report", str(run)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "FedeRiCo" in done.stdout
    assert done.stderr == ""


def test_folder_that_is_no_run_is_named(federico: Command, tmp_path: Path) -> None:
    answer = federico("report", tmp_path / "nothing")
    assert answer.code == 4
    assert answer.err.startswith(f"error: {tmp_path}/nothing: ")
    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_a_site_is_answered_with_its_state_folder(
    federico: Command, tmp_path: Path
) -> None:
    state = write_site(tmp_path, "north", {})
    answer = federico("report", state.parent)
    assert answer.code == 4
    assert f"that of the site in it is {state}" in answer.err


def test_an_experiment_file_is_answered_with_the_run_directory(
    federico: Command, tmp_path: Path
) -> None:
    file = tmp_path / "digits.toml"
    file.write_text("rounds = 2\n")
    answer = federico("report", file)
    assert answer.code == 4
    assert f"{file}: not a site file" in answer.err
    assert "runs/digits" in answer.err
