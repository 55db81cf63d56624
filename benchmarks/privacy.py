"""What an attacker learns of a client's samples, and what protection costs in accuracy.

    python -m benchmarks.privacy inversion membership accuracy --save benchmarks/privacy.json

The attacker is a member that follows the protocol: an owner that looks at the update it is sent, or
anybody that looks at the model it has pulled. Figures go into docs/explanation-privacy.md.
"""

import argparse
import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.metrics import roc_auc_score, roc_curve
from torch import Tensor

import federico
from federico import presets
from federico.experiment.build import Setup, prepare
from federico.experiment.config import read, validate
from federico.experiment.grid import make_grid
from federico.experiment.observer import Several
from federico.experiment.runner import run_grid
from federico.learning.visits import Visits

EPSILONS: tuple[float | None, ...] = (None, 8.0, 3.0, 1.0)
"""None is without differential privacy."""
RECOGNISABLE = 20.0
"""From this PSNR on, in dB, a reconstructed digit is hardly told from the original."""


def digits(**changes: Any) -> dict[str, Any]:
    """The tables of the study of digits, changed."""
    tables = read(presets.preset("digits"))
    del tables["grid"]
    return tables | changes


def with_epsilon(epsilon: float | None, **privacy: Any) -> dict[str, Any]:
    """The table `[privacy]`."""
    return privacy if epsilon is None else {"epsilon": epsilon, **privacy}


# Inversion: an owner looks at an update of its model.


def inversion() -> list[dict[str, Any]]:
    """How well the owner of a model sees the samples that it was trained on for one epoch."""
    lines = []
    everything: dict[str, Any] = {"least_samples": 1}
    cases: list[tuple[int, int, list[dict[str, Any]]]] = []
    for samples in (1, 8, 60):
        cases.append((samples, 10, [{}, everything, {**everything, "epsilon": 8.0}]))
    for samples in (10, 20, 30, 40, 100):
        cases.append((samples, 10, [{}, everything]))
    for samples in (10, 20, 30, 40, 60, 100):
        cases.append((samples, 50, [everything]))

    for samples, batch_size, protections in cases:
        for optimizer in ("sgd", "adam"):
            for privacy in protections:
                line = invert(samples, batch_size, optimizer, privacy)
                lines.append(line)
                print(line, flush=True)
    return lines


def invert(
    samples: int,
    batch_size: int,
    optimizer: str,
    privacy: dict[str, Any],
    seeds: Sequence[int] = range(3),
    victims: int = 3,
) -> dict[str, Any]:
    """The best reconstruction of each sample of a client that trains somebody's model.

    So many clients are victims on each of the seeds.
    """
    tables = digits(
        methods=["fedavg"],
        split={"test_fraction": 0.5, "max_train": samples},
        data={"kind": "digits"},
        training={
            "batch_size": batch_size,
            "optimizer": {"kind": optimizer, "learning_rate": 0.01},
        },
        privacy=privacy,
    )
    best: list[float] = []
    guessed: list[float] = []
    sent = 0
    for seed in seeds:
        setup = prepare(validate(tables), seed)
        method = setup.method("fedavg")
        owner = int(method.shared_owners[0])
        for victim in range(victims):
            visits = Visits.of([(victim, owner)])
            if len(method.sendable(visits)) == 0:
                continue
            sent += 1
            delta = method.learner.train(method.bank, visits, 1, fresh=True).as_tensor()[0]
            originals = method.learner.data["train"].inputs(
                torch.arange(samples)[None] + int(method.learner.data["train"].starts[victim])
            )[0]
            best += _psnr_of_best(originals.flatten(1), _candidates(setup, delta))
            guessed += _psnr_of_best(originals.flatten(1), originals.mean(0).flatten()[None])
    return {
        "samples": samples,
        "batch size": batch_size,
        "optimizer": optimizer,
        "privacy": privacy,
        "updates sent": sent,
        "mean PSNR": None if not best else round(float(np.mean(best)), 1),
        "best PSNR": None if not best else round(float(np.max(best)), 1),
        "recognisable": None
        if not best
        else round(float(np.mean(np.array(best) >= RECOGNISABLE)), 3),
        "PSNR of the mean image": None if not best else round(float(np.mean(guessed)), 1),
    }


def _candidates(setup: Setup, delta: Tensor) -> Tensor:
    """Inputs that the update of the first layer gives away, [hidden units, inputs].

    The gradient of a unit's weights is its gradient of the bias times the input, summed over the
    samples that activate it. Where a single sample does, their ratio is that sample.
    """
    slots = {slot.name: slot for slot in setup.layout.slots}
    names = list(slots)
    weight = slots[names[0]].view(delta)
    bias = slots[names[1]].view(delta)
    moved = bias.abs() > 0
    return weight[moved] / bias[moved, None]


def _psnr_of_best(originals: Tensor, candidates: Tensor) -> list[float]:
    """The PSNR of the candidate that is closest to each original, in dB."""
    low, high = float(originals.min()), float(originals.max())
    inside = candidates.nan_to_num(0.0, 0.0, 0.0).clamp(low, high)
    errors = torch.cdist(originals.double(), inside.double()).square() / originals.shape[1]
    closest = errors.min(1).values.clamp(min=1e-12)
    return (10 * torch.log10((high - low) ** 2 / closest)).tolist()


# Membership: anybody looks at a model that it has pulled.


def membership(seeds: Sequence[int]) -> list[dict[str, Any]]:
    """How well the losses of a pulled model tell its owner's training samples from others."""
    lines = []
    for epsilon in EPSILONS:
        advantages: list[float] = []
        areas: list[float] = []
        spent: list[float] = []
        for seed in seeds:
            tables = digits(methods=["federico"], privacy=with_epsilon(epsilon))
            method = prepare(validate(tables), seed).method("federico")
            for round_index in range(1, tables["rounds"] + 1):
                method.round(round_index)
            own = method.to_own()
            seen = method.learner.losses(method.bank, own, "all")
            unseen = method.learner.losses(method.bank, own, "test")
            for client in range(len(own)):
                members = seen[client, : method.learner.data["all"].counts[client]]
                others = unseen[client, : method.learner.data["test"].counts[client]]
                is_member = [1] * len(members) + [0] * len(others)
                score = -np.concatenate([members, others])
                areas.append(float(roc_auc_score(is_member, score)))
                false, true, _ = roc_curve(is_member, score)
                advantages.append(float((true - false).max()))
            if method.learner.account is not None:
                spent += method.learner.account.spent().tolist()
        line = {
            "epsilon": epsilon,
            "spent at most": round(max(spent), 2) if spent else None,
            "AUC": round(float(np.mean(areas)), 3),
            "advantage": round(float(np.mean(advantages)), 3),
            "allowed advantage": _allowed(max(spent)) if spent else 1.0,
        }
        lines.append(line)
        print(line, flush=True)
    return lines


def _allowed(epsilon: float, delta: float = 1e-5) -> float:
    """The largest difference of true and false positives that epsilon and delta allow."""
    allowed = (np.exp(epsilon) - 1 + 2 * delta) / (np.exp(epsilon) + 1)
    return round(float(allowed), 4)


# Accuracy.


def accuracy(seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Mean accuracy of clients, FedeRiCo and Local, for every epsilon."""
    lines = []
    for study in ("digits", "hospitals", "people"):
        for epsilon in EPSILONS:
            tables = read(presets.preset(study)) | {
                "methods": ["federico", "local"],
                "privacy": with_epsilon(epsilon),
                "seeds": list(seeds),
            }
            del tables["grid"]
            with tempfile.TemporaryDirectory() as folder:
                grid = make_grid(tables, study)
                run = federico.Run(run_grid(grid, Path(folder), Several([])).path)
                line = _accuracy_of(run, study, epsilon, seeds)
            lines.append(line)
            print(line, flush=True)
    return lines


def _accuracy_of(
    run: federico.Run, study: str, epsilon: float | None, seeds: Sequence[int]
) -> dict[str, Any]:
    line: dict[str, Any] = {"study": study, "epsilon": epsilon, "seeds": len(seeds)}
    spent: list[float] = []
    found: dict[str, list[float]] = {"federico": [], "together": [], "local": []}
    for seed in seeds:
        for method in ("federico", "local"):
            last = run.records(method, seed)[-1]
            assert last.figures is not None
            found[method].append(_mean(last.figures["accuracy"]))
            if method == "federico":
                assert last.together is not None
                found["together"].append(_mean(last.together["accuracy"]))
                spent += last.epsilon or []
    for name, values in found.items():
        line[name] = round(100 * float(np.mean(values)), 1)
    line["spent"] = round(float(np.mean(spent)), 2) if spent else None
    return line


def _mean(values: Sequence[float | None]) -> float:
    return float(np.mean([value for value in values if value is not None]))


def main() -> None:
    """Measure what is asked for, and write it down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="+", choices=["inversion", "membership", "accuracy"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--save", type=Path)
    options = parser.parse_args()
    seeds = range(200, 200 + options.seeds)
    measure: dict[str, Callable[[], list[dict[str, Any]]]] = {
        "inversion": inversion,
        "membership": lambda: membership(seeds),
        "accuracy": lambda: accuracy(seeds),
    }
    for part in options.parts:
        lines = measure[part]()
        if options.save is not None:
            kept = json.loads(options.save.read_text()) if options.save.exists() else {}
            options.save.write_text(json.dumps(kept | {part: lines}, indent=1) + "\n")


if __name__ == "__main__":
    main()
