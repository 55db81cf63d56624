"""One process, one workload: the machine's limit, the plain twin, the bare loop and federico, in one run.

Usage: python benchmarks/measure.py WORKLOAD [--rounds N]   prints one JSON line
"""

import argparse
import json
import resource
from statistics import median
from typing import Any

import numpy as np
import torch
from machine import matmul_rate
from twins import bare_round, plain_evaluate, plain_train
from workloads import WORKLOADS, Workload

from federico.methods.base import Method

PHASES = ("sample", "pull", "e_step", "m_step", "push", "update", "evaluate")


def forward_flops(method: Method) -> float:
    """Multiplications and additions of one sample through the model, counted by torch."""
    from torch.utils.flop_counter import FlopCounterMode

    sample = method.learner.boards["train"].first()[None]
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        method.learner.blueprint.template.eval()(sample)
    return float(counter.get_total_flops())


def backward_flops(method: Method) -> float:
    """The same for the gradient: torch leaves out what nobody needs, the gradient of the input."""
    from torch.utils.flop_counter import FlopCounterMode

    sample = (
        method.learner.boards["train"].first()[None].repeat(2, *[1] * (method.learner.boards["train"].first().dim()))
    )
    with FlopCounterMode(display=False) as counter:
        method.learner.blueprint.template.train()(sample).sum().backward()
    return float(counter.get_total_flops()) / 2 - forward_flops(method)


def play(method: Method, index: int) -> dict[str, float]:
    """Seconds per phase of a round with evaluation of every client."""
    method.round(index)
    with method.federation.clock("evaluate"):
        mixtures = method.mixtures(index)
        method.learner.score(mixtures.bank, mixtures.visits, mixtures.weights)
    return method.federation.clock.take()


def measure(work: Workload, rounds: int) -> dict[str, Any]:
    """Everything about one workload."""
    threads = torch.get_num_threads()
    method = work.setup().method("federico")
    play(method, 1)
    before = matmul_rate()
    taken = [play(method, index) for index in range(2, rounds + 2)]
    seconds = {phase: median(one.get(phase, 0.0) for one in taken) for phase in PHASES}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    torch.set_num_threads(threads)
    rate = (before + matmul_rate()) / 2
    visits = method.pull(method.sample(rounds + 2))  # type: ignore[attr-defined]
    mixed = method.mixtures(rounds + 1).visits
    states = [method.learner.blueprint.named(row) for row in method.bank.rows]
    samples = float(method.learner.samples[visits.clients].sum())
    forward, backward = forward_flops(method), backward_flops(method)
    bare_e, bare_m = bare_round(method.learner, visits)
    plain_m = plain_train(method.learner, visits, states)
    plain_e = plain_evaluate(method.learner, visits, states)
    plain_score = plain_evaluate(method.learner, mixed, states, "test")
    useful = samples * (2 * forward + backward)
    work_seconds = seconds["e_step"] + seconds["m_step"]
    whole = sum(seconds.values())
    return {
        "workload": work.name,
        "matmul_gflops": rate / 1e9,
        "seconds": seconds,
        "of_matmul": useful / work_seconds / rate,
        "bare_over_ours": (bare_e + bare_m) / work_seconds,
        "plain_over_ours_training": plain_m / seconds["m_step"],
        "plain_over_ours_round": (plain_e + plain_m + plain_score) / whole,
        "not_e_or_m": 1 - work_seconds / whole,
        "peak_gib": peak / 2**30,
        "threads": threads,
        "visits": len(visits),
        "samples": int(np.sum(method.learner.samples)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload", choices=list(WORKLOADS))
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    print(json.dumps(measure(WORKLOADS[arguments.workload], arguments.rounds)))


if __name__ == "__main__":
    main()
