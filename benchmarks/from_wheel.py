"""What a user without the repository does, in a clean virtual environment, timed step by step.

The wheel is built and installed, with the version of torch that the package is tested with and
whatever else pip finds. Then an experiment is written, run and reported, one client predicts and
its model is exported to ONNX and compared with the prediction in onnxruntime, and the notebooks are
written and executed. Everything but building the wheel happens in a folder of its own, and Python
is told not to look anywhere else: the repository is not used any more.

Usage: python -m benchmarks.from_wheel
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import copyfile, copytree, ignore_patterns
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
CLIENT = "north"
INSTALLING = 4
"""The first steps, until the package is there."""

CHECK_ONNX = f"""
import numpy as np
import onnxruntime

import federico

assert "site-packages" in federico.__file__, federico.__file__
client = federico.load("runs/patients").client("{CLIENT}")
x = client.read("new-patients.csv")
session = onnxruntime.InferenceSession("{CLIENT}.onnx")
(probabilities,) = session.run(None, {{"x": x}})
difference = np.abs(probabilities - client.probabilities(x)).max()
assert difference < 1e-5, difference
print(f"{{len(x)}} rows, largest difference {{difference:.1e}}")
"""


@dataclass(frozen=True)
class Step:
    """One step and the seconds it took."""

    name: str
    seconds: float
    said: str
    """The last line that it printed."""


def steps(folder: Path) -> list[Step]:
    """Do all of it below this empty folder; the first command that fails is raised."""
    environment = folder / "venv"
    python = environment / "bin" / "python"
    federico = environment / "bin" / "federico"
    work = folder / "work"
    work.mkdir()
    done = []

    def step(name: str, *command: str | Path) -> None:
        start = time.perf_counter()
        said = _run(command, work)
        done.append(Step(name, time.perf_counter() - start, said))

    # From a copy: what an earlier build has left beside the sources must not get into the wheel.
    source = folder / "source"
    copytree(ROOT / "src", source / "src", ignore=ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        copyfile(ROOT / name, source / name)
    build = (sys.executable, "-m", "build", "--wheel", "--no-isolation")
    step("build", *build, "--outdir", folder, source)
    step("make a virtual environment", sys.executable, "-m", "venv", environment)
    (wheel,) = folder.glob("federico-*.whl")
    # As the README says: torch first, so that the build for CPUs is the one that pip keeps.
    pip = (python, "-m", "pip", "install", "-q", "--disable-pip-version-check")
    step("install torch", *pip, f"torch=={_tested_torch()}")
    step("install the wheel", *pip, f"{wheel}[onnx,notebook]")

    run = "runs/patients"
    step("init", federico, "init", "table")
    step("run", federico, "run", "patients.toml")
    step("report", federico, "report", run)
    step("predict", federico, "predict", run, "new-patients.csv", "--client", CLIENT)
    step("export to ONNX", federico, "export", run, "--client", CLIENT, "--to", "onnx")
    step("compare in onnxruntime", python, "-c", CHECK_ONNX)

    step("init notebook", federico, "init", "notebook")
    jupyter = environment / "bin" / "jupyter"
    for notebook in sorted(work.glob("*.ipynb")):
        step(f"notebook {notebook.stem}", jupyter, "execute", notebook.name)
    return done


def _tested_torch() -> str:
    """The version of torch that the package is tested with."""
    tested = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    (version,) = re.findall(r"^torch==(.+)$", tested, re.MULTILINE)
    return str(version)


def _run(command: Sequence[str | Path], folder: Path) -> str:
    """The last line that a command prints; it sees nothing of the repository."""
    hidden = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "FEDERICO_DATA"}
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    finished = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if finished.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{finished.stdout}\n{finished.stderr}")
    lines = finished.stdout.strip().splitlines()
    return lines[-1] if lines else ""


def main() -> None:
    """Print what each step took."""
    with TemporaryDirectory() as folder:
        done = steps(Path(folder))
    for step in done:
        print(f"{step.seconds:7.1f} s  {step.name:42} {step.said[:70]}")
    in_all = sum(step.seconds for step in done)
    after_install = sum(step.seconds for step in done[INSTALLING:])
    print(f"{in_all:7.1f} s  in all, {after_install:.1f} s of it after the installation")


if __name__ == "__main__":
    main()
