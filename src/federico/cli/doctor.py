"""`federico doctor`."""

import importlib.metadata
import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from federico.cli.console import out, print_json
from federico.cli.options import Json, Overrides, Trust

if TYPE_CHECKING:
    from federico.experiment.memory_plan import MemoryPlan

PACKAGES = ("federico", "torch", "numpy", "scikit-learn", "pydantic", "safetensors")

UNUSED_CUDA = (
    "this torch is a build for CUDA, but there is no GPU; a build for CPUs saves gigabytes: choose "
    "CPU at https://pytorch.org/get-started/locally and add --force-reinstall to its pip line"
)
"""What is said where gigabytes of CUDA libraries lie idle."""


def doctor(
    file: Annotated[Path | None, typer.Argument(help="Experiment file to check.")] = None,
    overrides: Overrides = [],  # noqa: B006 (typer copies it)
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Check this machine, and whether an experiment is valid and fits into its memory."""
    facts = _machine()
    if file is None:
        _show(facts, as_json=json)
        return

    from federico.experiment.memory_plan import scratch_folder
    from federico.own_code import trust_if, trusting

    with trusting(trust_if(trust)):
        needed, limit = _heaviest(file, overrides)
    facts["experiment"] = f"{file} is valid"
    _show(facts | _needs(needed, limit), as_json=json)
    scratch_folder(needed, limit, Path("runs"))  # too little memory for anything is an error


def _machine() -> dict[str, str]:
    """What this machine has."""
    from federico import compat
    from federico.data.files import data_folder
    from federico.experiment.build import device
    from federico.experiment.machine_memory import available_bytes, gib

    facts = {"python": platform.python_version()}
    for name in PACKAGES:
        facts[name] = importlib.metadata.version(name)
    facts["device"] = str(device("auto"))
    if compat.built_for_cuda() and facts["device"] == "cpu":
        facts["note"] = UNUSED_CUDA
    facts["cores"] = str(os.cpu_count())
    facts["memory free"] = gib(available_bytes())
    folder = data_folder()
    facts["data folder"] = f"{folder} ({'there' if folder.exists() else 'not there'})"
    return facts


def _heaviest(file: Path, overrides: list[str]) -> tuple["MemoryPlan", int]:
    """The memory plan of the cell that needs most, and how much it may take."""
    from federico.experiment.grid import load_grid
    from federico.experiment.memory_plan import memory_limit, plan_simulation
    from federico.experiment.problems import ProblemCache

    grid = load_grid(file, overrides)
    problems = ProblemCache()
    plans = []
    for row, column in grid.places():
        cell = grid.cells(row, column, "given")[0]
        setup = problems.setup(cell)
        plans.append((plan_simulation(setup), memory_limit(setup)))
    return max(plans, key=lambda planned: planned[0].total)


def _needs(needed: "MemoryPlan", limit: int) -> dict[str, str]:
    """What the experiment needs, in words."""
    from federico.experiment.machine_memory import gib

    facts = {f"memory for {name}": gib(size) for name, size in needed.parts.items()}
    facts["memory needed at the peak, about"] = gib(needed.total)
    facts["memory it may take"] = gib(limit)
    facts["models and optimizers are kept"] = "in memory" if needed.total <= limit else "on disk"
    return facts


def _show(facts: dict[str, str], *, as_json: bool) -> None:
    from federico import compat

    if as_json:
        print_json(facts)
        return
    table = Table(show_header=False, box=None)
    for name, value in facts.items():
        table.add_row(name, value)
    out.print(table)
    out.print(f"threads used by torch: {compat.thread_count()}", highlight=False)
