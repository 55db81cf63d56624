"""Measure all workloads, each in fresh processes, and print medians with their spread.

Usage: python benchmarks/run.py [workload ...] [--repeats N] [--json FILE]
Everything in a row comes from the same processes: ratios hold on a noisy machine, seconds alone do not.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

from measure import PHASES
from rich.console import Console
from rich.table import Table
from workloads import WORKLOADS

HERE = Path(__file__).parent
RATIOS = {
    "of_matmul": "E+M step, part of matmul rate",
    "bare_over_ours": "bare loop / ours",
    "plain_over_ours_training": "plain loop / ours, training",
    "plain_over_ours_round": "plain loop / ours, round",
    "not_e_or_m": "part not E or M step",
    "peak_gib": "peak memory (GiB)",
}


def measured(name: str, repeats: int) -> list[dict[str, Any]]:
    """The results of so many fresh processes."""
    command = [sys.executable, str(HERE / "measure.py"), name]
    outputs = [subprocess.run(command, check=True, capture_output=True, text=True).stdout for _ in range(repeats)]
    return [json.loads(output) for output in outputs]


def spread(values: list[float]) -> str:
    """The median, and the range if there is one."""
    middle = f"{median(values):.3g}"
    return middle if len(values) == 1 else f"{middle} ({min(values):.3g} to {max(values):.3g})"


def tables(results: dict[str, list[dict[str, Any]]]) -> list[Table]:
    """Seconds per phase, and ratios."""
    phases = Table("seconds per round", "matmul Gflop/s", *PHASES)
    ratios = Table("ratio", *(WORKLOADS[name].title for name in results))
    for name, runs in results.items():
        cells = [f"{median(run['seconds'][phase] for run in runs):.4f}" for phase in PHASES]
        phases.add_row(WORKLOADS[name].title, f"{median(run['matmul_gflops'] for run in runs):.0f}", *cells)
    for key, title in RATIOS.items():
        ratios.add_row(title, *(spread([run[key] for run in runs]) for runs in results.values()))
    return [phases, ratios]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="*", help=f"of {list(WORKLOADS)}; all if none is named")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--json", type=Path, help="also write all measurements to this file")
    arguments = parser.parse_args()
    results = {name: measured(name, arguments.repeats) for name in arguments.workloads or WORKLOADS}
    for table in tables(results):
        Console(width=140).print(table)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
