"""What hostile members of eight cost the honest ones, as real peers at their own pace.

    python -m benchmarks.hostile_peers --seeds 0 1 2 --save benchmarks/hostile_peers.json
    python -m benchmarks.hostile_peers --count 3 --tricks absent "turned round" --save FILE
    python -m benchmarks.hostile_peers --show benchmarks/hostile_peers.json

Digits, three distributions; the members that may be hostile, two unless `--count` says otherwise,
are honest, absent, or send one of the updates of `tests/system/peers.py`. Runs that the file holds
are not repeated, whichever code they are of: each says which. Begin a new file for another code.
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
from federico.runs.provenance import provenance

PEERS = Path(__file__).parents[1] / "tests" / "system"
HONEST = "honest"
ABSENT = "absent"

Run = dict[str, str | int | float]
"""What how many did, the seed, what the others reached (0 to 1), the seconds, and the commit.

The first runs were of two members, and do not say of which commit.
"""


def measure(file: Path, seeds: Sequence[int], tricks: Sequence[str], count: int) -> None:
    """All of these that the file does not hold yet, seed by seed; no tricks mean all."""
    sys.path.insert(0, str(PEERS))
    peers = importlib.import_module("peers")
    chosen = tricks or (HONEST, ABSENT, *peers.POISONED)
    runs = read(file)
    done = {(run["trick"], run["seed"], run["count"]) for run in runs}
    commit = provenance("", {}).commit
    for seed in seeds:
        for trick in chosen:
            if (trick, seed, count) in done:
                continue
            began = time.monotonic()
            with tempfile.TemporaryDirectory() as folder:
                accuracy = peers.honest_beside(Path(folder) / "federation", trick, seed, count)
            run: Run = {
                "trick": trick,
                "count": count,
                "seed": seed,
                "accuracy": accuracy,
                "seconds": round(time.monotonic() - began, 1),
                "commit": commit,
            }
            runs.append(run)
            publish_text(file, json.dumps(runs, indent=1) + "\n")


def read(file: Path) -> list[Run]:
    """The runs that the file holds."""
    if not file.exists():
        return []
    runs: list[Run] = json.loads(file.read_text())
    return runs


def table(runs: Sequence[Run]) -> str:
    """What each trick costs in points of accuracy, against members that are absent and honest."""
    by_trick: dict[tuple[int, str], dict[int, float]] = {}
    for run in runs:
        reached = by_trick.setdefault((int(run["count"]), str(run["trick"])), {})
        reached[int(run["seed"])] = 100 * float(run["accuracy"])

    lines = [
        "| of eight | they are | the others reach | lost to absent | lost to honest | seeds |",
        "|---|---|---|---|---|---|",
    ]
    for (count, trick), reached in by_trick.items():
        absent = by_trick.get((count, ABSENT), {})
        honest = by_trick.get((count, HONEST), {})
        mean = np.mean(list(reached.values()))
        costs = f"{cost(absent, reached)} | {cost(honest, reached)}"
        lines.append(f"| {count} | {trick} | {mean:.1f} | {costs} | {len(reached)} |")
    commits = sorted({str(run["commit"]) or "unknown" for run in runs})
    return "\n".join([*lines, "", f"Commits: {', '.join(commits)}"])


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
    parser.add_argument("--count", type=int, choices=(1, 2, 3), default=2, help="of eight")
    parser.add_argument("--tricks", nargs="+", default=[], help="what they do; all if not given")
    parser.add_argument("--save", type=Path, help="measure, and keep the runs in this file")
    parser.add_argument("--show", type=Path, help="only print what this file holds")
    chosen = parser.parse_args()
    if chosen.save is not None:
        measure(chosen.save, chosen.seeds, chosen.tricks, chosen.count)
    shown = chosen.show or chosen.save
    if shown is None:
        parser.error("say --save or --show")
    print(table(read(shown)))


if __name__ == "__main__":
    main()
