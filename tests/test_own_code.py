"""Code that a file names runs only where somebody has said yes."""

import hashlib
import os
import py_compile
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import federico as package
from federico.errors import UntrustedCodeError

Command = Callable[..., Any]
EXPERIMENT = """
rounds = 1
methods = ["local"]
[split]
samples = 100
[partition]
kind = "iid"
clients = 2
[model]
kind = "import"
path = "net.py:Net"
[system]
threads = 1
"""
NET = """
from pathlib import Path
from torch import nn

ran = Path(__file__).with_name("ran")
ran.write_text(str(len(ran.read_text()) if ran.exists() else 0))

class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(64, 10))
"""


def has_run(folder: Path) -> bool:
    """Whether the code has left its trace since it was last looked for."""
    trace = folder / "ran"
    there = trace.exists()
    trace.unlink(missing_ok=True)
    return there


def changed(code: Path) -> None:
    """Another content, so that nothing that was imported before is used again."""
    code.write_text(code.read_text() + "\n# changed\n")


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A folder with an experiment and the code that it names."""
    (tmp_path / "net.py").write_text(NET)
    (tmp_path / "mine.toml").write_text(EXPERIMENT)
    return tmp_path


@pytest.fixture
def left(mine: Path) -> Path:
    """What a run of it has left; the code has not run since."""
    package.run(mine / "mine.toml", directory=mine / "runs", trust=True)
    assert has_run(mine)
    changed(mine / "net.py")
    return mine / "runs" / "mine"


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's own folder, in which nothing is noted yet."""
    folder = tmp_path / "config"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))
    return folder


def at_a_terminal(answer: str, *command: str | Path) -> tuple[int, str]:
    """The exit code of a command, and what a terminal has shown, where this is typed."""
    ours, its = os.openpty()
    typed = [sys.executable, "-m", "federico", *map(str, command)]
    running = subprocess.Popen(typed, stdin=its, stdout=its, stderr=its)
    os.close(its)
    os.write(ours, f"{answer}\n".encode())
    shown = b""
    try:
        while part := os.read(ours, 4096):
            shown += part
    except OSError:  # how a terminal says that nobody writes to it any more
        pass
    os.close(ours)
    return running.wait(), " ".join(shown.decode().split())


@pytest.mark.skipif(sys.platform == "win32", reason="has other terminals")
def test_a_terminal_asks_once_for_each_content(federico: Command, mine: Path, config: Path) -> None:
    command = ["run", mine / "mine.toml", "-q"]
    code, shown = at_a_terminal("n", *command)
    assert code == 2
    assert "mine.toml runs the code in" in shown
    assert "--trust" in shown
    assert not has_run(mine)

    code, _ = at_a_terminal("y", *command)
    assert code == 0
    assert has_run(mine)
    (note,) = (config / "federico").iterdir()
    assert note.stat().st_mode & 0o077 == 0
    digest = hashlib.sha256((mine / "net.py").read_bytes()).hexdigest()
    assert note.read_text().startswith(digest)

    # From now on nobody has to be there, until the code changes.
    assert federico(*command, "--name", "again").code == 0
    changed(mine / "net.py")
    has_run(mine)
    assert federico(*command, "--name", "changed").code == 2
    assert not has_run(mine)


@pytest.mark.parametrize("command", [["run", "--dry-run"], ["doctor"], ["data", "show"]])
def test_looking_at_an_experiment_neither_asks_nor_runs_its_code(
    federico: Command, mine: Path, config: Path, command: list[str]
) -> None:
    loss = ["--set", "training.loss=net.py:Net"]
    method = ["--set", 'methods=["net.py:Net"]']
    for setting in ([], loss, method):
        answer = federico(*command, mine / "mine.toml", *setting)
        assert answer.code in (0, 2)
        assert not has_run(mine)
    assert not config.exists()


def test_without_a_terminal_code_needs_a_yes(federico: Command, mine: Path, config: Path) -> None:
    answer = federico("run", mine / "mine.toml", "-q")
    assert answer.code == 2
    assert "--trust" in answer.err
    assert "net.py:Net" in answer.err
    assert not has_run(mine)
    with pytest.raises(UntrustedCodeError, match="trust=True"):
        package.run(mine / "mine.toml")
    assert not has_run(mine)
    assert federico("run", mine / "mine.toml", "-q", "--trust").code == 0
    assert has_run(mine)
    assert not config.exists(), "it was for this command"


def test_a_note_that_others_may_have_written_counts_for_nothing(
    federico: Command, mine: Path, config: Path
) -> None:
    digest = hashlib.sha256((mine / "net.py").read_bytes()).hexdigest()
    note = config / "federico" / "trusted-code.txt"
    note.parent.mkdir(parents=True)
    note.write_text(f"{digest} 'net.py'\n")
    note.chmod(0o666)
    assert federico("run", mine / "mine.toml", "-q").code == 2
    assert not has_run(mine)
    note.chmod(0o600)
    assert federico("run", mine / "mine.toml", "-q").code == 0


def test_bytecode_beside_trusted_code_does_not_run(federico: Command, mine: Path) -> None:
    harmless = (mine / "net.py").read_text()
    (mine / "net.py").write_text(harmless + "\nPath(__file__).with_name('evil').touch()\n")
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(mine / "net.py"), invalidation_mode=unchecked)
    (mine / "net.py").write_text(harmless)
    assert federico("run", mine / "mine.toml", "-q", "--trust").code == 0
    assert has_run(mine)
    assert not (mine / "evil").exists()


def test_a_module_is_code_elsewhere(federico: Command, mine: Path) -> None:
    answer = federico("run", mine / "mine.toml", "--set", "model.path=this:Net")
    assert answer.code == 2
    assert "'this:Net' is Python code" in answer.err


def test_a_run_directory_of_a_stranger_runs_no_code(federico: Command, left: Path) -> None:
    """Neither its experiment nor its bundles, with the code beside them or elsewhere."""
    samples = left.parent / "new.npz"
    np.savez(samples, x=np.zeros((3, 64)))
    bundle = left.parent / "bundle"
    package.load(left, trust=True).client("0", method="local").save(bundle)
    home = left.parents[1]
    assert has_run(home)
    changed(home / "net.py")
    (left / "net.py").write_text(NET)
    config = (left / "config.toml").read_text().replace(str(home), str(left))
    (left / "config.toml").write_text(config)

    for command in (
        ["run", left / "config.toml", "--directory", home / "again"],
        ["doctor", left / "config.toml"],
        ["predict", left, samples, "--client", "0", "--method", "local"],
        ["predict", bundle, samples, "--overwrite"],
    ):
        answer = federico(*command)
        assert answer.code == 2, command
        assert "--trust" in answer.err
        assert not has_run(home)
        assert not has_run(left)
        assert federico(*command, "--trust").code == 0, command
        assert has_run(home) or has_run(left)
        changed(home / "net.py")
        changed(left / "net.py")

    federico("report", left)
    with pytest.raises(UntrustedCodeError, match="trust=True"):
        package.load(left).client("0", method="local").predict(np.zeros((1, 64)))
    assert not has_run(home)


def test_a_federation_file_of_a_stranger_runs_no_code(federico: Command, mine: Path) -> None:
    federico("pki", "init", "ca")
    federico("pki", "request", "north", "--address", "127.0.0.1")
    federico("pki", "approve", "keys/north.csr", "--yes")
    labels = ", ".join(f'"{label}"' for label in range(10))
    (mine / "federation.toml").write_text(
        'name = "two"\nmembers = ["north", "south"]\nrounds = 1\n'
        f"[sample]\ninput_shape = [64]\nlabels = [{labels}]\n"
        '[model]\nkind = "import"\npath = "net.py:Net"\n'
    )
    (mine / "north.toml").write_text(
        'name = "north"\nfederation = "federation.toml"\nlisten = ["127.0.0.1:1"]\n'
        '[data]\nkind = "digits"\n'
    )
    for command in ("check", "run"):
        answer = federico("peer", command, "north.toml")
        assert answer.code == 2, answer.err
        assert "--trust" in answer.out + answer.err
        assert not has_run(mine)
    federico("peer", "check", "north.toml", "--trust")
    assert has_run(mine)
