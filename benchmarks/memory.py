"""The memory that `federico doctor` plans for an experiment, against what `federico run` then
takes.

Usage: python benchmarks/memory.py FILE [key=value ...]
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FEDERICO = (sys.executable, "-m", "federico")


def planned(file: str, settings: list[str]) -> dict[str, str]:
    told = subprocess.run(
        [*FEDERICO, "doctor", file, "--json", *settings], check=True, capture_output=True
    )
    plan: dict[str, str] = json.loads(told.stdout)
    return plan


def measured(file: str, settings: list[str]) -> tuple[int, int]:
    """(peak, peak without the maps of files) in bytes; the second is looked at a hundred times a
    second.
    """
    with tempfile.TemporaryDirectory(dir=".") as folder:
        child = subprocess.Popen([*FEDERICO, "run", file, "-q", "--directory", folder, *settings])
        own, ended = 0, 0
        while not ended:
            own = max(own, own_bytes(child.pid))
            time.sleep(0.01)
            ended, status, usage = os.wait4(child.pid, os.WNOHANG)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            sys.exit(child.returncode)
    return usage.ru_maxrss << 10, own


def own_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon")), 0)


def main() -> None:
    file, *changes = sys.argv[1:]
    settings = [word for change in changes for word in ("--set", change)]
    plan = planned(file, settings)
    peak, own = measured(file, settings)
    total = float(plan["memory needed at the peak, about"].removesuffix(" GiB"))
    where = plan["models and optimizers are kept"]
    print(f"models and optimizers are kept {where}, of {plan['memory it may take']}")

    taken = peak / 2**30
    print(f"planned {total:.2f} GiB, measured {taken:.2f} GiB: {total / taken:.2f} times as much")
    print(f"without maps of files {own / 2**30:.2f} GiB")


if __name__ == "__main__":
    main()
