import json
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from federico.experiment import machine_memory

Command = Callable[..., Any]


def test_machine_is_described(federico: Command) -> None:
    answer = federico("doctor", "--json")
    assert answer.code == 0
    facts = json.loads(answer.out)
    assert {
        "python",
        "torch",
        "federico",
        "device",
        "cores",
        "memory free",
        "data folder",
    } <= facts.keys()
    assert float(facts["memory free"].removesuffix(" GiB")) > 0


def test_a_device_that_is_not_there_is_not_named(
    federico: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))
    assert json.loads(federico("doctor", "--json").out)["device"] == "cpu"


def test_experiment_is_weighed(federico: Command, tiny: Path) -> None:
    facts = json.loads(federico("doctor", tiny, "--json", "--set", "model.hidden=[20000]").out)
    sizes = {
        name: float(value.removesuffix(" GiB"))
        for name, value in facts.items()
        if name.startswith("memory ")
    }
    parts = [value for name, value in sizes.items() if name.startswith("memory for ")]
    assert len(parts) == 9
    assert sizes["memory for models"] > 0
    assert sizes["memory needed at the peak, about"] == pytest.approx(sum(parts), abs=0.08)
    assert facts["models and optimizers are kept"] == "in memory"


def test_models_that_do_not_fit_are_told_to_lie_on_the_disk(
    federico: Command, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_memory, "resident_bytes", lambda: 0)
    wide = ["--set", "model.hidden=[200000]"]  # hundreds of megabytes for every model
    answer = federico("doctor", tiny, "--json", "--set", "system.memory=1GiB", *wide)
    assert answer.code == 0
    assert json.loads(answer.out)["memory it may take"] == "1.00 GiB"
    assert json.loads(answer.out)["models and optimizers are kept"] == "on disk"


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


@pytest.mark.parametrize("command", ["doctor", "run"])
def test_what_cannot_fit_is_refused_with_its_size(
    federico: Command, tiny: Path, command: str, tmp_path: Path
) -> None:
    answer = federico(command, tiny, "--set", "system.memory=10MiB")
    assert answer.code == 2
    assert (
        "even with all models on the disk; there is 0.01 GiB; use fewer clients or neighbors"
        in answer.err
    )
    assert not (tmp_path / "runs").exists()


LIMITED = """
import resource
import torch
from federico.cli.main import main
import federico.cli.doctor
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 30), used + (1 << 30)))
main()
"""


@pytest.mark.skipif(
    not Path("/proc/self/statm").exists(), reason="needs Linux to count its own memory"
)
def test_model_that_cannot_fit_is_refused_without_being_made(tiny: Path) -> None:
    """In a process that may take a gigabyte: making the model would be the end of it."""
    command = [
        sys.executable,
        "-c",
        LIMITED,
        "doctor",
        str(tiny),
        "--set",
        "model.hidden=[200000, 200000]",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("error: model: one alone takes 149.")
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 4 << 20, "in kilobytes"


def test_cuda_without_a_gpu_is_told_how_to_get_rid_of_it(
    federico: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plain `pip install torch` has no +cu in its version; only torch itself knows."""
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", "12.6")
    facts = json.loads(federico("doctor", "--json").out)
    assert "build for CPUs" in facts["note"]

    monkeypatch.undo()
    assert "note" not in json.loads(federico("doctor", "--json").out)
