"""What each way of weighing moves is worth against hostile members, and what it costs in peace.

    python -m benchmarks.accepting attacks peace --save benchmarks/accepting.json
    python -m benchmarks.accepting --show benchmarks/accepting.json

Seeds 0 to 4: the default rule was chosen on these. Runs that the file holds are not repeated.
"""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from federico import presets
from federico.experiment.build import prepare
from federico.experiment.config import read, validate
from federico.experiment.evaluation import evaluate
from federico.runs.atomic import publish_text

RULES: dict[str, dict[str, Any]] = {
    "any": {"accept": "any"},
    "reach 1.5": {"accept": "reach"},
    "reach 1": {"accept": "reach", "reach": 1.0},
    "cosine": {"accept": "cosine"},
    "any, loss check": {"accept": "any", "loss_check": True},
    "reach 1.5, loss check": {"accept": "reach", "loss_check": True},
    "cosine, loss check": {"accept": "cosine", "loss_check": True},
    "median": {"accept": "median"},
    "trimmed": {"accept": "trimmed"},
}
"""The options of `[federico]` that are compared."""
ATTACKS = (
    "absent",
    "alie",
    "ipm",
    "sign-flip",
    "scaled-flip",
    "noise",
    "mimic",
    "good-model-bad-moves",
    "model-replacement",
    "echo",
)
ATTACKED = ("hostile-digits", "hostile-people", "hostile-office-home")
IN_PEACE = (
    "hostile-digits",
    "hostile-people",
    "hostile-office-home",
    "digits-iid",
    "digits-dirichlet",
    "digits-rotated",
    "people-20",
)
"""Studies without their attacks."""
SEEDS = range(5)

Key = tuple[str, str, int, int, str]
"""Study, attack ("peace": none), how many are hostile, seed, rule."""


def attacks(counts: Sequence[int]) -> Iterator[Key]:
    """All rules against all attacks, seed by seed."""
    for count in counts:
        for seed in SEEDS:
            for study in ATTACKED:
                for attack in ATTACKS:
                    for rule in RULES:
                        yield study, attack, count, seed, rule


def peace() -> Iterator[Key]:
    """All rules where nobody is hostile."""
    for seed in SEEDS:
        for study in IN_PEACE:
            for rule in RULES:
                yield study, "peace", 0, seed, rule


def measure(key: Key) -> float:
    """The mean accuracy of honest clients after the last round."""
    study, attack, count, seed, rule = key
    tables = read(presets.preset(study))
    del tables["grid"]
    tables |= {"methods": ["federico"], "seeds": [seed], "federico": RULES[rule]}
    if attack != "peace":
        tables["attack"] = {"kind": attack, "count": count}
    setup = prepare(validate(tables), seed)
    method = setup.method("federico")
    rounds = setup.experiment.rounds
    for round_index in range(1, rounds + 1):
        method.round(round_index)
    accuracy = evaluate(method, method.predictors(rounds)).used.figures["accuracy"]
    return float(np.delete(accuracy, setup.hostile).mean())


def show(found: Mapping[Key, float]) -> None:
    """Points that each rule loses: to the hostile members' absence, or in peace to no rule."""
    rules = list(RULES)
    print("| study | attack | of 8 | " + " | ".join(rules) + " |")
    print("|---" * (3 + len(rules)) + "|")
    for study, attack, count in sorted({key[:3] for key in found}):
        cells = [_lost(found, study, attack, count, rule) for rule in rules]
        print(f"| {study} | {attack} | {count} | " + " | ".join(cells) + " |")


def _lost(found: Mapping[Key, float], study: str, attack: str, count: int, rule: str) -> str:
    """The mean over the seeds that both runs are there for."""
    compared = (study, "absent", count, "any") if attack != "peace" else (study, attack, 0, "any")
    if attack == "absent":
        compared = (study, "peace", 0, "any")
    lost = []
    for seed in SEEDS:
        here = found.get((study, attack, count, seed, rule))
        there = found.get((*compared[:3], seed, compared[3]))
        if here is not None and there is not None:
            lost.append(100 * (there - here))
    return "" if not lost else f"{np.mean(lost):.1f} ({len(lost)})"


def load(path: Path) -> dict[Key, float]:
    """What was measured before."""
    if not path.exists():
        return {}
    lines = json.loads(path.read_text())
    return {tuple(line[:5]): line[5] for line in lines}


def main() -> None:
    """Measure what is asked for, and keep it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help="attacks, peace, or nothing")
    parser.add_argument("--counts", nargs="+", type=int, default=[2, 1, 3])
    parser.add_argument("--rules", nargs="+", default=list(RULES))
    parser.add_argument("--studies", nargs="+", default=list(IN_PEACE))
    parser.add_argument("--save", type=Path)
    parser.add_argument("--show", type=Path)
    given = parser.parse_args()

    found = {} if given.save is None else load(given.save)
    wanted = []
    if "peace" in given.parts:
        wanted += list(peace())
    if "attacks" in given.parts:
        wanted += list(attacks(given.counts))
    for key in wanted:
        if key in found or key[4] not in given.rules or key[0] not in given.studies:
            continue
        found[key] = measure(key)
        print(*key, f"{found[key]:.4f}", flush=True)
        if given.save is not None:
            lines = ",\n".join(json.dumps([*key, value]) for key, value in found.items())
            publish_text(given.save, f"[\n{lines}\n]\n")
    if given.show is not None:
        show(load(given.show))


if __name__ == "__main__":
    main()
