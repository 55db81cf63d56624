"""`federico doctor`."""

import importlib.metadata
import os
import platform
from pathlib import Path

from rich.table import Table

from federico import compat
from federico.cli.console import out, print_json
from federico.data.files import data_folder
from federico.experiment.build import device, prepare
from federico.experiment.config import load
from federico.experiment.machine_memory import available_bytes, gib
from federico.experiment.memory_plan import (
    MemoryPlan,
    memory_limit,
    plan_simulation,
    scratch_folder,
)

PACKAGES = ("federico", "torch", "numpy", "scikit-learn", "pydantic", "safetensors")


def examine(file: Path | None, overrides: list[str], *, as_json: bool) -> None:
    """Print what this machine has and, for an experiment, what it needs; too little memory is an error."""
    facts, show = _machine(), print_json if as_json else _print
    if file is None:
        show(facts)
        return
    experiment = load(file, overrides)
    setup = prepare(experiment, experiment.seeds[0])
    needed, limit = plan_simulation(setup), memory_limit(setup)
    show(facts | {"experiment": f"{file} is valid", **_needs(needed, limit)})
    scratch_folder(needed, limit, Path("runs"))


def _machine() -> dict[str, str]:
    packages = {name: importlib.metadata.version(name) for name in PACKAGES}
    return {
        "python": platform.python_version(),
        **packages,
        "device": str(device("auto")),
        "cores": str(os.cpu_count()),
        "memory free": gib(available_bytes()),
        "data folder": f"{data_folder()} ({'there' if data_folder().exists() else 'not there'})",
    }


def _needs(needed: MemoryPlan, limit: int) -> dict[str, str]:
    parts = {f"memory for {name}": gib(size) for name, size in needed.parts.items()}
    peak = {"memory needed at the peak, about": gib(needed.total), "memory it may take": gib(limit)}
    return {
        **parts,
        **peak,
        "models and optimizers lie": "in memory" if needed.total <= limit else "on the disk",
    }


def _print(facts: dict[str, str]) -> None:
    table = Table(show_header=False, box=None)
    for name, value in facts.items():
        table.add_row(name, value)
    out.print(table)
    out.print(f"threads used by torch: {compat.thread_count()}", highlight=False)
