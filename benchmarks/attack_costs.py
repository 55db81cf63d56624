"""What attacks cost honest members: the tables of the page, from the results of a study.

    federico reproduce hostile-people --save
    python -m benchmarks.attack_costs hostile-people

A cost is in points of accuracy, the mean over honest members at the end of the run, against the
same split with the hostile members absent: from the start, or from where an attack begins.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean

from benchmarks.store import ROOT
from benchmarks.tables import Table
from federico.runs.metric import MINUS
from federico.runs.results import CellResult, read_results

COUNTS = (1, 2, 3)
STARTS = {"the start": "absent", "half-way": "absent from then on"}
"""From when members are hostile, and the row without them that this is compared with."""
REFERENCES = ("local", "nobody is hostile", *STARTS.values())
WITHOUT_AN_ATTACK = {
    "hostile members absent": "",
    "nobody hostile": "nobody is hostile",
    "training alone": "local",
}
"""The rows that no attack is in, by what the page calls them; which one has nobody hostile there
depends on the start."""
WORDS = {
    "alie": "ALIE",
    "ipm": "IPM",
    "good-model-bad-moves": "good model, bad updates",
    "good-model-turned-moves": "good model, updates turned round",
    "two-faced": "two-faced",
    "nan-elsewhere": "no number elsewhere",
}
"""What the page calls attacks that it does not call by their own names without hyphens."""

BySeed = Mapping[int, float]
"""The mean accuracy of honest members in points, by seed."""


class Study:
    """What honest members reached in each row and column."""

    def __init__(self, results: Sequence[CellResult]) -> None:
        self._reached: dict[tuple[str, str], dict[int, float]] = {}
        for result in results:
            by_seed = self._reached.setdefault((result.row, result.column), {})
            by_seed[result.seed] = accuracy_of_honest(result)

    @property
    def attacks(self) -> list[str]:
        """The rows in which somebody attacks the default rule, in the order of the study."""
        rows = dict.fromkeys(row for row, _ in self._reached)
        return [row for row in rows if row not in REFERENCES and not row.startswith("paper: ")]

    def reached(self, row: str, count: int, start: str) -> BySeed:
        """What honest members reached; nothing where this was not run."""
        return self._reached.get((row, f"{count} of 8, from {start}"), {})

    def costs(self, row: str, count: int, start: str) -> list[float]:
        """What an attack cost, seed by seed."""
        attacked = self.reached(row, count, start)
        prefix = "paper: " if row.startswith("paper: ") else ""
        absent = self.reached(prefix + STARTS[start], count, start)
        return [absent[seed] - attacked[seed] for seed in attacked if seed in absent]


def accuracy_of_honest(result: CellResult) -> float:
    """The mean over honest clients at the end of a run; each counts the same."""
    at_the_end = result.without_hostile().figures["accuracy"][-1]
    return 100 * mean(figure for figure in at_the_end if figure is not None)


def costs_of_all(study: Study) -> Table:
    """A line for each attack, then what members reach without one; a column for each trial."""
    trials = [(count, start) for start in STARTS for count in COUNTS]
    heads = ["", *[f"{count}, from {start}" for count, start in trials]]
    rows: list[list[str]] = []
    for attack in study.attacks:
        cells = [in_points(study.costs(attack, *trial)) for trial in trials]
        rows.append([in_words(attack), *cells])

    for about, row in WITHOUT_AN_ATTACK.items():
        cells = []
        for count, start in trials:
            reached = study.reached(row or STARTS[start], count, start)
            cells.append(in_points(list(reached.values())))
        rows.append([f"accuracy: {about}", *cells])
    return Table("", heads, rows)


def beside_the_paper(study: Study, count: int, start: str) -> Table:
    """What honest members reach under the default and under the paper's rule, attack by attack."""
    rows: list[list[str]] = []
    for row in ["nobody is hostile", STARTS[start], *study.attacks]:
        paper = study.reached(f"paper: {row}", count, start)
        default = study.reached(row, count, start)
        same = [default[seed] for seed in paper if seed in default]
        if same:
            rows.append([in_words(row), in_points(same), in_points(list(paper.values()))])
    return Table("", ["", "default", '`preset = "paper"`'], rows)


def worst_split(study: Study) -> str:
    """The most that an attack took in a single split."""
    most = 0.0
    said = "Nothing was lost in any split."
    for attack in study.attacks:
        for start in STARTS:
            for count in COUNTS:
                worst = max(study.costs(attack, count, start), default=0.0)
                if worst > most:
                    most = worst
                    said = f"The most in one split: {worst:.1f} ({in_words(attack)}, {count} of 8"
                    said += f", from {start})."
    return said


def in_points(figures: Sequence[float]) -> str:
    """Their mean, or a hyphen where there are none."""
    if not figures:
        return "-"
    rounded = round(mean(figures), 1) + 0.0  # no minus before a zero
    return f"{rounded:.1f}".replace("-", MINUS)


def in_words(row: str) -> str:
    """What the page calls a row."""
    return WORDS.get(row, row.replace("-", " "))


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables of a study whose results are kept."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("study", help="the name of a study, for instance hostile-people")
    parser.add_argument("--results", type=Path, default=ROOT / "results", help="where they are")
    asked = parser.parse_args(arguments)

    results, _ = read_results(asked.results / asked.study)
    study = Study(results)
    print(costs_of_all(study).markdown())
    print(worst_split(study) + "\n")
    print(beside_the_paper(study, 2, "the start").markdown())


if __name__ == "__main__":
    main()
