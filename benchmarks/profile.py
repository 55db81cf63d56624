"""Where the time of a round goes, operation by operation, on one thread.

Usage: python -m benchmarks.profile [WORKLOAD]
"""

import sys

from torch.profiler import ProfilerActivity, profile

from benchmarks.workloads import WORKLOADS
from federico import compat
from federico.experiment.build import prepare
from federico.methods.method import Method

TOP = 12


def share_of_operations(method: Method, rounds: int) -> list[tuple[str, float]]:
    """Part of the seconds of the last of so many rounds that each operation itself takes, the
    largest first.
    """
    for index in range(1, rounds):
        method.round(index)
    with profile(activities=[ProfilerActivity.CPU]) as watched:
        method.round(rounds)
    found = {event.key: event.self_cpu_time_total for event in watched.key_averages()}
    total = sum(found.values())
    return sorted(
        ((name, seconds / total) for name, seconds in found.items()), key=lambda row: -row[1]
    )


def main() -> None:
    work = WORKLOADS[sys.argv[1] if len(sys.argv) > 1 else "mlp"]
    compat.keep_freed_memory()
    compat.use_threads(1)
    method = prepare(work.load(1, "federico.solo_rounds=0"), 0).method("federico")
    for name, share in share_of_operations(method, 3)[:TOP]:
        print(f"{share:6.1%}  {name}")


if __name__ == "__main__":
    main()
