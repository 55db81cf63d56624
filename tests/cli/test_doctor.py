import json
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from federico.cli import doctor

Command = Callable[..., Any]


def test_machine_is_described(federico: Command) -> None:
    answer = federico("doctor", "--json")
    assert answer.code == 0
    facts = json.loads(answer.out)
    assert {"python", "torch", "federico", "device", "cores", "memory free", "data folder"} <= facts.keys()
    assert float(facts["memory free"].removesuffix(" GiB")) > 0


def test_experiment_is_weighed(federico: Command, tiny: Path) -> None:
    facts = json.loads(federico("doctor", tiny, "--json", "--set", "model.hidden=[20000]").out)
    sizes = {name: float(value.removesuffix(" GiB")) for name, value in facts.items() if name.startswith("memory ")}
    parts = [value for name, value in sizes.items() if name.startswith("memory for ")]
    assert len(parts) == 6
    assert sizes["memory for models"] > 0
    assert sizes["memory needed at the peak, about"] == pytest.approx(sum(parts), abs=0.03)


def test_table_says_the_same(federico: Command, tiny: Path) -> None:
    answer = federico("doctor", tiny)
    assert answer.code == 0
    for words in ("torch", "memory free", "memory for updates", "threads used by torch"):
        assert words in answer.out


def test_wrong_experiment_is_refused(federico: Command, tiny: Path, tmp_path: Path) -> None:
    answer = federico("doctor", tiny, "--set", "federico.neighbors=7")
    assert answer.code == 2
    assert answer.err.startswith("error: federico.neighbors = 7")
    assert not (tmp_path / "runs").exists(), "nothing was run"


def test_models_that_fit_alone_but_not_together_are_refused(
    federico: Command, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "available_bytes", lambda: 300 << 20)
    answer = federico("doctor", tiny)
    assert answer.code == 2
    assert "needs about 0.44 GiB, only 0.29 GiB is free; use fewer clients or neighbors" in answer.err


LIMITED = """
import resource
import torch
from federico.cli.main import main
import federico.cli.doctor
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 30), used + (1 << 30)))
main()
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux to count its own memory")
def test_model_that_cannot_fit_is_refused_without_being_made(tiny: Path) -> None:
    """In a process that may take a gigabyte: making the model would be the end of it."""
    command = [sys.executable, "-c", LIMITED, "doctor", str(tiny), "--set", "model.hidden=[200000, 200000]"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("error: model: one alone takes 149.")
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 4 << 20, "in kilobytes"
