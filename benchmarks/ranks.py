"""Two ranks with one thread each against one process with two threads, on the same rounds of CNN2.

Usage: mpiexec -n R python -m benchmarks.ranks ROOT    goes on with the warm run in ROOT, prints
seconds per round
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.pace import Pace, Plan, scratch
from benchmarks.store import CACHE, ROOT
from benchmarks.workloads import WORKLOADS
from federico.exchange.mpi import team
from federico.experiment.runner import simulate

WORK, PLAN, RANKS = WORKLOADS["cnn2"], Plan(1, 1), 2


def measure() -> dict[str, Any]:
    """Both, one after the other, from copies of one warm run."""
    alone = [sys.executable, "-m", __name__]
    together = ["mpiexec", "-n", str(RANKS), *alone]
    return {"one": _seconds(alone), "ranks": _seconds(together)}


def _seconds(command: list[str]) -> float:
    beside = Path(sys.executable).parent  # where the wheel of mpich puts mpiexec
    environment = {**os.environ, "PATH": f"{beside}{os.pathsep}{os.environ.get('PATH', '')}"}
    with scratch(CACHE / "warm" / WORK.name) as root:
        command = [*command, str(root)]
        done = subprocess.run(
            command, check=True, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT
        )
    return float(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    members, pace = team(), Pace(PLAN)
    threads = f"system.threads={RANKS // members.ranks}"
    simulate(WORK.load(WORK.warm + PLAN.rounds, threads), Path(sys.argv[1]), pace, team=members)
    if members.rank == 0:
        print(json.dumps(median(measured.whole for measured in pace.rounds)))


if __name__ == "__main__":
    main()
