"""A run whose models do not fit into memory: it stays within bounds and ends the same."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="needs Linux to bound memory alone"
)

WIDE = """
methods = ["federico"]
rounds = 3
split = { samples = 240 }
partition = { kind = "label-groups", clients = 8, groups = 2 }
model = { kind = "mlp", hidden = [8000] }
federico = { neighbors = 3 }
system = { threads = 1, checkpoint_every = 1 }
"""
"""Models of 2.3 MiB, with updates, moments and a checkpoint 450 MiB in all; 45 MiB of work on one
at a time."""

BOUNDED = """
import re, resource, sys
import sklearn.datasets, torch
import federico.cli.run, federico.experiment.runner
from federico.cli.main import main
used = int(re.search(r"VmData:\\s+(\\d+)", open("/proc/self/status").read())[1]) << 10
bound = used + (int(sys.argv.pop(1)) << 20)
resource.setrlimit(resource.RLIMIT_DATA, (bound, bound))
main()
"""
"""Bounds memory of its own, and not the maps of files: what lies on the disk does not count."""


PEAK = """
import atexit
from pathlib import Path
from federico.cli.main import main

def say_peak():
    # The accounts of the system count what the process was before it became this program, too.
    print(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])

atexit.register(say_peak)
main()
"""
"""The command line, which at last says how many kilobytes its process has held at most."""

PLANNED = """
import sys
from pathlib import Path
from federico.experiment.build import prepare
from federico.experiment.config import load
from federico.experiment.memory_plan import plan_simulation
file, *settings = sys.argv[1:]
print(plan_simulation(prepare(load(Path(file), settings), 0)).total)
"""
"""What is planned, by a process of its own: the plan begins with what the process holds already."""


def run(folder: Path, name: str, bound: int, *settings: str) -> "subprocess.CompletedProcess[str]":
    (folder / "wide.toml").write_text(WIDE)
    chosen = [word for setting in settings for word in ("--set", setting)]
    command = [
        sys.executable,
        "-c",
        BOUNDED,
        str(bound),
        "run",
        "wide.toml",
        "--name",
        name,
        "-q",
        *chosen,
    ]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )


def test_models_that_do_not_fit_take_no_memory_and_change_no_byte(
    tmp_path: Path, outcome_of: Callable[[Path], dict[str, bytes]]
) -> None:
    assert run(tmp_path, "free", bound=8000).returncode == 0
    assert run(tmp_path, "crash", bound=200).returncode != 0, "the bound is one"
    bounded = run(tmp_path, "bounded", 200, "system.memory=700MiB")
    assert bounded.returncode == 0, bounded.stderr
    assert "are kept on disk" in bounded.stderr
    assert outcome_of(tmp_path / "runs" / "bounded") == outcome_of(tmp_path / "runs" / "free")


@pytest.mark.parametrize("hidden", [8, 8000], ids=["small models", "large models"])
def test_a_run_takes_no_more_memory_than_is_planned(tmp_path: Path, hidden: int) -> None:
    (tmp_path / "wide.toml").write_text(WIDE)
    setting = f"model.hidden=[{hidden}]"
    command = [sys.executable, "-c", PEAK, "run", "wide.toml", "-q", "--set", setting]
    ended = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert ended.returncode == 0, ended.stderr
    peak = int(ended.stdout.split()[-1]) * 1024

    command = [sys.executable, "-c", PLANNED, "wide.toml", setting]
    told = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=True
    )
    planned = int(told.stdout)
    assert planned >= peak
    assert planned <= 2 * peak, "what is planned keeps no run from starting that would fit"
