"""What two hostile members of eight cost the honest ones, as real peers at their own pace.

    python -m benchmarks.hostile_peers --seeds 0 1 2 --save benchmarks/hostile_peers.json
    python -m benchmarks.hostile_peers --two absent "turned round" --save FILE
    python -m benchmarks.hostile_peers --show benchmarks/hostile_peers.json

Digits, three distributions; the two members that may be hostile are honest, absent, or send one of
the updates of `tests/system/peers.py`. Runs that the file holds are not repeated.
"""

import argparse
import importlib
import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from federico.runs.atomic import publish_text

PEERS = Path(__file__).parents[1] / "tests" / "system"
HONEST = "honest"
ABSENT = "absent"

Run = dict[str, str | int | float]
"""What the two did, the seed, what the six others reached (0 to 1), and the seconds it took."""


def measure(file: Path, seeds: Sequence[int], tricks: Sequence[str]) -> None:
    """All of these that the file does not hold yet, seed by seed; no tricks mean all."""
    sys.path.insert(0, str(PEERS))
    peers = importlib.import_module("peers")
    chosen = tricks or (HONEST, ABSENT, *peers.POISONED)
    runs = read(file)
    done = {(run["two"], run["seed"]) for run in runs}
    for seed in seeds:
        for two in chosen:
            if (two, seed) in done:
                continue
            began = time.monotonic()
            with tempfile.TemporaryDirectory() as folder:
                accuracy = peers.honest_beside(Path(folder) / "federation", two, seed)
            seconds = round(time.monotonic() - began, 1)
            runs.append({"two": two, "seed": seed, "accuracy": accuracy, "seconds": seconds})
            publish_text(file, json.dumps(runs, indent=1) + "\n")


def read(file: Path) -> list[Run]:
    """The runs that the file holds."""
    if not file.exists():
        return []
    runs: list[Run] = json.loads(file.read_text())
    return runs


def table(runs: Sequence[Run]) -> str:
    """What each trick costs in points of accuracy, against two absent and two honest ones."""
    by_trick: dict[str, dict[int, float]] = {}
    for run in runs:
        by_trick.setdefault(str(run["two"]), {})[int(run["seed"])] = 100 * float(run["accuracy"])

    lines = [
        "| the two | accuracy of the six | lost to two absent | lost to two honest | seeds |",
        "|---|---|---|---|---|",
    ]
    absent = by_trick.get(ABSENT, {})
    honest = by_trick.get(HONEST, {})
    for trick, reached in by_trick.items():
        mean = np.mean(list(reached.values()))
        costs = f"{cost(absent, reached)} | {cost(honest, reached)}"
        lines.append(f"| {trick} | {mean:.1f} | {costs} | {len(reached)} |")
    return "\n".join(lines)


def cost(better: Mapping[int, float], reached: Mapping[int, float]) -> str:
    """The mean loss over the seeds that both have, and its standard error."""
    both = sorted(better.keys() & reached.keys())
    lost = np.array([better[seed] - reached[seed] for seed in both])
    if len(lost) == 0 or not lost.any():
        return ""
    error = lost.std(ddof=1) / len(lost) ** 0.5 if len(lost) > 1 else np.nan
    return f"{lost.mean():.1f} ± {error:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--two", nargs="+", default=[], help="what the two do; all if not given")
    parser.add_argument("--save", type=Path, help="measure, and keep the runs in this file")
    parser.add_argument("--show", type=Path, help="only print what this file holds")
    chosen = parser.parse_args()
    if chosen.save is not None:
        measure(chosen.save, chosen.seeds, chosen.two)
    shown = chosen.show or chosen.save
    if shown is None:
        parser.error("say --save or --show")
    print(table(read(shown)))


if __name__ == "__main__":
    main()
