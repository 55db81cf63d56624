"""The peak memory of a simulation by the number of clients, with a large frozen base and without.

Usage: python benchmarks/base_memory.py > benchmarks/base-memory.json

A model of a million frozen numbers and a head of 10,000 is trained by FedeRiCo for two rounds. With
`shared = "trainable"` the base is held once, so a further client costs a few heads; with
`shared = "all"` it costs a few whole models.
"""

import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable

import numpy as np
from torch import nn

import federico

CLIENTS = (2, 4, 8)
WIDTH = 1000


def with_base() -> nn.Module:
    """A frozen layer of a million numbers, and a head to learn."""
    base = nn.Linear(WIDTH, WIDTH).requires_grad_(False)
    return nn.Sequential(nn.Linear(8, WIDTH).requires_grad_(False), base, nn.Linear(WIDTH, 10))


def peak(shared: str, count: int, model: Callable[[], nn.Module] = with_base) -> int:
    """The most memory that this process has taken once it has trained so many clients, in bytes."""
    random = np.random.default_rng(0)
    clients = {}
    for client in range(count):
        x = random.normal(size=(40, 8)).astype(np.float32)
        clients[f"site {client}"] = (x, random.integers(0, 10, 40))
    with tempfile.TemporaryDirectory() as folder:
        federico.run(
            clients=clients,
            model=model,
            directory=folder,
            rounds=2,
            methods=["federico"],
            training={"shared": shared},
            progress=False,
        )
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def main() -> None:
    """Measure each in a process of its own: a peak never falls."""
    if len(sys.argv) == 3:
        print(peak(sys.argv[1], int(sys.argv[2])))
        return
    found: dict[str, dict[int, int]] = {}
    for shared in ("trainable", "all"):
        for count in CLIENTS:
            command = [sys.executable, __file__, shared, str(count)]
            told = subprocess.run(command, check=True, capture_output=True, text=True)
            found.setdefault(shared, {})[count] = int(told.stdout.splitlines()[-1]) >> 20
    print(json.dumps({"command": "python benchmarks/base_memory.py", "peak_mib": found}, indent=1))


if __name__ == "__main__":
    main()
