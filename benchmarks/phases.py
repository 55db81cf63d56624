"""Seconds per phase of a FedeRiCo round, beside the machine's matrix-multiply rate in the same run.

Usage: python benchmarks/phases.py [workload ...] [--rounds N]
"""

import argparse
from collections import defaultdict
from statistics import median

import torch
from machine import matmul_rate
from rich.console import Console
from rich.table import Table
from workloads import WORKLOADS, Workload

PHASES = ("sample", "pull", "e_step", "m_step", "push", "update", "evaluate")


def measure(work: Workload, rounds: int) -> dict[str, float]:
    """Median seconds of each phase over `rounds` rounds, after one to warm up."""
    method = work.setup().method("federico")
    seconds = defaultdict(list)
    for index in range(1, rounds + 2):
        method.round(index)
        with method.federation.clock("evaluate"):
            mixtures = method.mixtures(index)
            method.learner.score(mixtures.bank, mixtures.visits, mixtures.weights)
        taken = method.federation.clock.take()
        for phase in PHASES if index > 1 else ():
            seconds[phase].append(taken[phase])
    return {phase: median(values) for phase, values in seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workloads", nargs="*", help=f"of {list(WORKLOADS)}; all if none is named")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    table = Table("seconds", *PHASES, "round", title=f"{torch.get_num_threads()} threads")
    for name in arguments.workloads or WORKLOADS:
        before = matmul_rate()
        seconds = measure(WORKLOADS[name], arguments.rounds)
        rate = (before + matmul_rate()) / 2
        title = f"{WORKLOADS[name].title} (matmul {rate / 1e9:.0f} Gflop/s)"
        table.add_row(title, *(f"{seconds[phase]:.4f}" for phase in PHASES), f"{sum(seconds.values()):.3f}")
    Console(width=150).print(table)


if __name__ == "__main__":
    main()
