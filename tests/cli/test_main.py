import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from federico.errors import ConfigError, DataError, FedericoError, MissingDependencyError, RunError

Command = Callable[..., Any]
HEAVY = ("torch", "pandas", "sklearn", "matplotlib", "pyarrow", "numpy")
COMMANDS: list[list[str]] = [
    [],
    ["run"],
    ["report"],
    ["predict"],
    ["methods"],
    ["data"],
    ["data", "list"],
    ["data", "get"],
    ["doctor"],
    ["reproduce"],
    ["export"],
    ["init"],
    ["launch"],
    ["peer"],
    ["peer", "run"],
    ["peer", "status"],
    ["pki"],
    ["relay"],
    ["ui"],
]

PROBE = f"""
import sys
from federico.cli.main import main
try:
    main()
finally:
    sys.stderr.write(" ".join(name for name in {HEAVY} if name in sys.modules))
"""


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_is_quick_and_loads_nothing_heavy(command: list[str]) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", PROBE, *command, "--help"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        out, loaded = process.communicate()
    assert process.returncode == 0
    assert "Usage" in out
    assert loaded == ""


def test_python_m_federico_is_federico() -> None:
    command = [sys.executable, "-m", "federico", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("federico ")


def test_help_takes_less_than_half_a_second_of_cpu() -> None:
    def seconds() -> float:
        process = subprocess.Popen(
            [sys.executable, "-m", "federico", "--help"], stdout=subprocess.DEVNULL
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        return used.ru_utime + used.ru_stime

    assert min(seconds() for _ in range(3)) < 0.5


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_has_help(federico: Command, command: list[str]) -> None:
    for flag in ("--help", "-h"):
        answer = federico(*command, flag)
        assert answer.code == 0
        assert "Usage" in answer.out
        assert "bool" not in answer.out, "a flag takes no value"


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("re", ["reproduce", "report", "relay"]),
        ("run --dr", ["--dry-run"]),
        ("init ta", ["table"]),
        ("reproduce table1", ["table1-cifar10", "table1-cifar100", "table1-office-home"]),
    ],
)
def test_the_shell_completes_what_is_typed(
    federico: Command, monkeypatch: pytest.MonkeyPatch, typed: str, offered: list[str]
) -> None:
    """As bash asks, with the script of `federico --install-completion`."""
    monkeypatch.setenv("COMP_WORDS", f"federico {typed}")
    monkeypatch.setenv("COMP_CWORD", str(len(typed.split())))
    monkeypatch.setenv("_FEDERICO_COMPLETE", "complete_bash")
    assert federico().out.split() == offered


def test_line_breaks_of_the_source_are_not_those_of_the_help(
    federico: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "500")
    lines = federico("peer", "status", "--help").out.splitlines()
    about_health = [line for line in lines if "Suitable for a health check" in line]
    assert about_health[0].rstrip().endswith("has died or hangs.")


def test_exit_codes_are_in_the_help(federico: Command) -> None:
    text = " ".join(federico("--help").out.split())
    for words in (
        "0 success",
        "1 unexpected error",
        "2 invalid option",
        "3 invalid data",
        "4 unusable run directory",
        "130 interrupted",
    ):
        assert words in text


def test_exit_codes_stay_what_they_are() -> None:
    codes = {
        kind: kind.exit_code
        for kind in (FedericoError, ConfigError, DataError, RunError, MissingDependencyError)
    }
    assert list(codes.values()) == [1, 2, 3, 4, 5]


def test_nothing_said_shows_help(federico: Command) -> None:
    answer = federico()
    assert "Usage" in answer.out + answer.err


@pytest.mark.parametrize(
    "arguments", [["rnu"], ["run"], ["methods", "--jsn"], ["data", "fetch"]], ids=" ".join
)
def test_wrong_command_leaves_with_2(federico: Command, arguments: list[str]) -> None:
    answer = federico(*arguments)
    assert answer.code == 2
    assert answer.out == ""
    assert answer.err


def test_error_beyond_a_users_control_keeps_its_traceback(
    federico: Command, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("federico.experiment.runner.run_grid", broken)
    with pytest.raises(ZeroDivisionError):
        federico("run", tiny)


def test_every_line_of_an_error_is_marked(federico: Command, tiny: Path) -> None:
    answer = federico("run", tiny, "--set", "rounds=0", "--set", "seeds=[]")
    assert [line[:7] for line in answer.err.splitlines()] == ["error: "] * 2


def test_an_error_that_quotes_a_file_is_no_order_to_the_terminal(
    federico: Command, tmp_path: Path
) -> None:
    file = tmp_path / "experiment.toml"
    file.write_text('"\\u001b[2Jclear" = 1\n')
    answer = federico("run", file)
    assert "clear: there is no such key" in answer.err
    assert "\x1b" not in answer.err


@pytest.mark.parametrize("arguments", [["data", "list"], ["data", "list", "--json"]])
def test_closed_pipe_ends_a_command_quietly(tmp_path: Path, arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    # In a process of its own: what could not be written stays in the console's memory, and would
    # be written by the next command.
    command = [sys.executable, "-m", "federico", *arguments]
    with os.fdopen(writing, "w") as nobody_reads:
        done = subprocess.run(
            command, cwd=tmp_path, stdout=nobody_reads, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 128 + signal.SIGPIPE
    assert done.stderr == b""


def test_ctrl_c_speaks_of_checkpoints_only_where_there_are_some(
    federico: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(as_json: bool) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("federico.cli.data.show_sources", interrupted)
    answer = federico("data", "list")
    assert (answer.code, answer.err) == (130, "stopped\n")


def test_ctrl_c_says_how_to_resume_and_leaves_with_130(tiny: Path, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "federico",
        "run",
        str(tiny),
        "--set",
        "rounds=1000000",
    ]
    records = tmp_path / "runs" / "tiny" / "local-0" / "records.jsonl"
    # Where the tests run in the background of a shell they are deaf to it, and so would be what
    # they start.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        while not records.exists() and process.poll() is None:
            time.sleep(0.005)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    finally:
        signal.signal(signal.SIGINT, before)
        process.kill()
    assert process.returncode == 130
    last_line = err.splitlines()[-1]
    assert last_line == "stopped; start the same command again to resume from the last checkpoint"
    assert "Traceback" not in err
