"""What each way of weighing updates is worth against hostile members, and what it costs in peace.

    python -m benchmarks.accepting attacks peace standing --save benchmarks/accepting.json
    python -m benchmarks.accepting --show benchmarks/accepting.json

Seeds 0 to 4: the default rule was chosen on these. Runs that the file holds are not repeated.
`standing` asks what the default rule does to the standing of honest contributors and hostile ones.
"""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from federico import presets
from federico.experiment.build import Setup, prepare
from federico.experiment.config import read, validate
from federico.experiment.evaluation import evaluate
from federico.methods.method import Round
from federico.runs.atomic import publish_text

RULES: dict[str, dict[str, Any]] = {
    "any": {"accept": "any"},
    "reach 1.5": {"accept": "reach"},
    "reach 1": {"accept": "reach", "reach": 1.0},
    "cosine": {"accept": "cosine"},
    "median": {"accept": "median"},
    "trimmed": {"accept": "trimmed"},
    "default": {},
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
STANDING = "standing"
"""In place of a rule: not accuracy is measured but what becomes of standings."""

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


def standing() -> Iterator[Key]:
    """The default rule in peace and beside hostile members, for what becomes of standings."""
    for seed in SEEDS:
        for study in (*IN_PEACE, "people"):
            yield study, "peace", 0, seed, STANDING
        for study in ATTACKED:
            for attack in ("scaled-flip", "noise", "ipm", "echo"):
                yield study, attack, 2, seed, STANDING


def measure(key: Key) -> list[float | None]:
    """The mean accuracy of honest clients after the last round.

    For `STANDING` instead the share of contributors that count for less than a half at an honest
    owner in the end: of those of its own distribution, of other honest ones, and of hostile ones.
    """
    study, attack, count, seed, rule = key
    tables = read(presets.preset(study))
    del tables["grid"]
    tables |= {"methods": ["federico"], "seeds": [seed], "federico": RULES.get(rule, {})}
    if attack != "peace":
        tables["attack"] = {"kind": attack, "count": count}
    setup = prepare(validate(tables), seed)
    method = setup.method("federico")
    rounds = setup.experiment.rounds
    for round_index in range(1, rounds + 1):
        played = method.round(round_index)
    if rule == STANDING:
        return _shut_out(setup, played)
    accuracy = evaluate(method, method.predictors(rounds)).used.figures["accuracy"]
    return [float(np.delete(accuracy, setup.hostile).mean())]


def _shut_out(setup: Setup, played: Round) -> list[float | None]:
    """The share of contributors with a standing below a half, by what they are to the owner."""
    hostile = set(setup.hostile.tolist())
    groups = setup.shares.distribution
    counts: dict[str, list[bool]] = {"same": [], "other": [], "hostile": []}
    for owner, refusals in enumerate(played.refusals):
        if owner in hostile:
            continue
        low = set(refusals.peers[refusals.standing < 0.5].tolist())
        for peer in range(len(played.refusals)):
            if peer == owner:
                continue
            kind = "same" if groups is not None and groups[peer] == groups[owner] else "other"
            if peer in hostile:
                kind = "hostile"
            counts[kind].append(peer in low)
    return [float(np.mean(lows)) if lows else None for lows in counts.values()]


def show(found: Mapping[Key, list[float | None]]) -> None:
    """Points that each rule loses: to the hostile members' absence, or in peace to no rule."""
    rules = list(RULES)
    print("| study | attack | of 8 | " + " | ".join(rules) + " |")
    print("|---" * (3 + len(rules)) + "|")
    for study, attack, count in sorted({key[:3] for key in found if key[4] != STANDING}):
        cells = [_lost(found, study, attack, count, rule) for rule in rules]
        print(f"| {study} | {attack} | {count} | " + " | ".join(cells) + " |")


def _lost(
    found: Mapping[Key, list[float | None]], study: str, attack: str, count: int, rule: str
) -> str:
    """The mean over the seeds that both runs are there for."""
    compared = (study, "absent", count, "any") if attack != "peace" else (study, attack, 0, "any")
    if attack == "absent":
        compared = (study, "peace", 0, "any")
    lost = []
    for seed in SEEDS:
        here = found.get((study, attack, count, seed, rule))
        there = found.get((*compared[:3], seed, compared[3]))
        if here is not None and there is not None:
            lost.append(100 * ((there[0] or 0.0) - (here[0] or 0.0)))
    return "" if not lost else f"{np.mean(lost):.1f} ({len(lost)})"


def show_standing(found: Mapping[Key, list[float | None]]) -> None:
    """Contributors that count for less than a half in the end, in per cent."""
    print("| study | attack | of its distribution | other honest ones | hostile ones |")
    print("|---|---|---|---|---|")
    for study, attack in sorted({key[:2] for key in found if key[4] == STANDING}):
        runs = [
            value
            for key, value in found.items()
            if key[:2] == (study, attack) and key[4] == STANDING
        ]
        cells = []
        for column in zip(*runs, strict=True):
            there = [value for value in column if value is not None]
            cells.append(f"{100 * np.mean(there):.1f}" if there else "-")
        print(f"| {study} | {attack} | " + " | ".join(cells) + " |")


def load(path: Path) -> dict[Key, list[float | None]]:
    """What was measured before."""
    if not path.exists():
        return {}
    lines = json.loads(path.read_text())
    return {tuple(line[:5]): line[5:] for line in lines}


def main() -> None:
    """Measure what is asked for, and keep it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help="attacks, peace, standing")
    parser.add_argument("--counts", nargs="+", type=int, default=[2, 1, 3])
    parser.add_argument("--rules", nargs="+", default=list(RULES))
    parser.add_argument("--studies", nargs="+", default=[*IN_PEACE, "people"])
    parser.add_argument("--save", type=Path)
    parser.add_argument("--show", type=Path)
    given = parser.parse_args()

    found = {} if given.save is None else load(given.save)
    wanted = []
    if "peace" in given.parts:
        wanted += list(peace())
    if "attacks" in given.parts:
        wanted += list(attacks(given.counts))
    if "standing" in given.parts:
        wanted += list(standing())
    for key in wanted:
        is_asked = key[4] in [*given.rules, STANDING] and key[0] in given.studies
        if key in found or not is_asked:
            continue
        found[key] = measure(key)
        print(*key, *found[key], flush=True)
        if given.save is not None:
            lines = ",\n".join(json.dumps([*key, *value]) for key, value in found.items())
            publish_text(given.save, f"[\n{lines}\n]\n")
    if given.show is not None:
        show(load(given.show))
        show_standing(load(given.show))


if __name__ == "__main__":
    main()
