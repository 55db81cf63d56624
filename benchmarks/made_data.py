"""Is anybody worse than alone on data that is in no study? FedeRiCo with its plain defaults.

    python -m benchmarks.made_data                          all settings, seeds 200 to 207
    python -m benchmarks.made_data --only rings moons_100 --batch 10
    python -m benchmarks.made_data --only rings --seeds 300 301 --save FILE

Results go to benchmarks/made_data.json as they come. What is there already is not run again, unless
the code that decides what comes out has changed since, or with `--again`. The settings are in
`made_settings.py`. The rule was chosen on seeds 0 to 7, and an earlier one was measured on seeds
100 to 107; nothing was chosen on seeds from 200 on.
"""

import argparse
import json
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from statistics import mean, stdev

import numpy as np

import federico
from benchmarks.made_settings import SETTINGS, MadeClients, Setting
from benchmarks.store import ROOT
from federico.compat import use_threads
from federico.report.gains import STANDARD_ERRORS, standard_error
from federico.runs.atomic import publish_text
from federico.runs.metric import ACCURACY, metric_of
from federico.runs.provenance import installed_versions
from federico.types import Array, FloatArray

STORED = Path(__file__).with_suffix(".json")
ROUNDS = 30
SEEDS = range(200, 208)
BATCH_SIZE = 50
LIMIT = 0.005
"""Half a point of accuracy, or as much of R2: who loses less is as good as alone."""
LOWEST_R2 = -1.0
"""A client whose R2 is far below zero would drown all others."""
CODE = ("algorithm", "data", "exchange", "learning", "methods")
"""The folders of the package that decide what numbers come out."""


@dataclass(frozen=True)
class Outcome:
    """What one federation came to. Lists follow the order of `clients`."""

    setting: str
    batch_size: int
    seed: int
    commit: str
    """That of the code, see `code_commit`."""
    clients: list[str]
    trained: list[int]
    """How many samples each client trained on."""
    tested: list[int]
    """How many samples it was judged by."""
    alone: list[float]
    """Accuracy or R2 with the method `local`."""
    gain: list[float]
    """What FedeRiCo adds to it."""
    error: list[float]
    """How far the gain may be off by chance, as few as the client's test samples are."""
    together_share: list[float]
    """How much the collaborators count in what it predicts with, from 0 to 1."""
    alone_apart: float
    """How far the figure of FedeRiCo's private models is from that of `local`, at most; they ought
    to be the same models."""

    @property
    def mean_gain(self) -> float:
        """The mean over clients, of which each counts the same."""
        return mean(self.gain)

    @property
    def clearly_worse(self) -> list[int]:
        """The places of clients that lose more than the limit and than two standard errors."""
        return self._worse_by(self.error)

    @property
    def worse_as_studies_count(self) -> list[int]:
        """The same by the standard error of a figure, as the tables of the studies have it.

        For classes that is the same; for values it is not that of a difference, and larger.
        """
        metric = metric_of(SETTINGS[self.setting].task)
        pairs = zip(self.alone, self.tested, strict=True)
        return self._worse_by([standard_error(alone, tested, metric) for alone, tested in pairs])

    def _worse_by(self, errors: Sequence[float]) -> list[int]:
        worse: list[int] = []
        for place, (gain, error) in enumerate(zip(self.gain, errors, strict=True)):
            if gain < -LIMIT and gain < -STANDARD_ERRORS * error:
                worse.append(place)
        return worse


@dataclass(frozen=True)
class Summary:
    """One setting over seeds."""

    setting: str
    batch_size: int
    seeds: int
    alone: float
    gain: float
    error: float
    """The standard error of the mean gain, over seeds."""
    worst: float
    """The lowest gain of a client, mean over seeds."""
    clearly_worse: int
    worse_as_studies_count: int
    clients: int
    """Clients of all seeds together, as those clearly worse are."""

    @property
    def is_worse(self) -> bool:
        """Whether clients are worse off than alone by more than the limit and than chance."""
        return self.gain < -LIMIT and self.gain < -STANDARD_ERRORS * self.error


# One federation.


def measure(setting: Setting, batch_size: int, seed: int, rounds: int = ROUNDS) -> Outcome:
    """FedeRiCo and training alone, on the same samples."""
    made = setting.make(np.random.default_rng(seed))
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data.npz"
        write(made, data)
        run = federico.run(
            data={
                "kind": "npz",
                "path": str(data),
                "client": "owner",
                "test": "is_test",
                "task": setting.task,
            },
            partition={"kind": "natural"},
            model={"kind": setting.model},
            rounds=rounds,
            seeds=[seed],
            methods=["federico", "local"],
            training={"batch_size": batch_size},
            system={"threads": 1, "evaluate_every": rounds, "checkpoint_every": rounds},
            directory=folder,
            progress=False,
        )
        return _outcome(setting, batch_size, seed, made, run)


def write(made: MadeClients, file: Path) -> None:
    """All samples as arrays, with their owners and what each sample is for."""
    inputs: list[FloatArray] = []
    targets: list[Array] = []
    owners: list[str] = []
    is_test: list[bool] = []
    for name, client in made.items():
        for part, tests in ((client.train, False), (client.test, True)):
            x, y = part
            inputs.append(x.astype(np.float32))
            targets.append(y)
            owners += [name] * len(y)
            is_test += [tests] * len(y)
    np.savez(
        file,
        x=np.concatenate(inputs),
        y=np.concatenate(targets),
        owner=np.array(owners),
        is_test=np.array(is_test),
    )


def _outcome(
    setting: Setting, batch_size: int, seed: int, made: MadeClients, run: federico.Run
) -> Outcome:
    compare = compare_values if setting.task == "regression" else compare_classes
    alone: list[float] = []
    gain: list[float] = []
    error: list[float] = []
    for name, client in made.items():
        x, y = client.test
        inputs = x.astype(np.float32)
        by_itself = run.client(name, method="local").predict(inputs)
        used = run.client(name, method="federico").predict(inputs)
        found = compare(y, by_itself, used)
        for figures, figure in zip((alone, gain, error), found, strict=True):
            figures.append(round(figure, 4))

    metric = metric_of(setting.task).recorded_as
    last = run.frame(last=True).set_index(["method", "client"])
    ours = last.loc["federico"].loc[list(made)]
    local = last.loc["local"].loc[list(made)]
    apart = np.abs(ours[f"alone_{metric}"].to_numpy() - local[metric].to_numpy())
    return Outcome(
        setting=setting.name,
        batch_size=batch_size,
        seed=seed,
        commit=code_commit(),
        clients=list(made),
        trained=[len(client.train[1]) for client in made.values()],
        tested=[len(client.test[1]) for client in made.values()],
        alone=alone,
        gain=gain,
        error=error,
        together_share=[round(float(share), 3) for share in ours["together_share"]],
        alone_apart=float(f"{apart.max():.3g}"),
    )


def compare_classes(y: Array, alone: Array, used: Array) -> tuple[float, float, float]:
    """The accuracy alone, what is gained, and the standard error of such an accuracy."""
    right_alone = float((alone.astype(int) == y).mean())
    right = float((used.astype(int) == y).mean())
    error = standard_error(right_alone, len(y), ACCURACY)
    return right_alone, right - right_alone, error


def compare_values(y: Array, alone: Array, used: Array) -> tuple[float, float, float]:
    """R2 alone, what is gained, and the standard error of that gain over samples.

    The same samples judge both, so that what is hard for both says nothing about the difference.
    """
    targets = y.reshape(len(y), -1)  # [samples, values]
    errors_alone = ((alone.reshape(targets.shape) - targets) ** 2).sum(axis=1)
    errors = ((used.reshape(targets.shape) - targets) ** 2).sum(axis=1)
    variance = float(((targets - targets.mean(axis=0)) ** 2).sum(axis=1).mean())

    r2_alone = max(LOWEST_R2, 1 - float(errors_alone.mean()) / variance)
    r2 = max(LOWEST_R2, 1 - float(errors.mean()) / variance)
    differences = errors - errors_alone
    error = float(differences.std(ddof=1)) / len(y) ** 0.5 / variance
    return r2_alone, r2 - r2_alone, error


@cache
def code_commit() -> str:
    """The last commit of the code that results depend on, with `-dirty` if that has changed."""
    folders = [f"src/federico/{folder}" for folder in CODE]
    try:
        commit = _git("log", "-1", "--abbrev=7", "--format=%h", "--", *folders).strip()
        changed = _git("status", "--porcelain", "--", *folders)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return f"{commit}-dirty" if changed else commit


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=True, text=True)
    return done.stdout


# What is kept.


@dataclass
class Kept:
    """The outcomes that a file holds, and what they were measured with."""

    file: Path
    outcomes: list[Outcome]
    versions: dict[str, str]
    rounds: int = ROUNDS

    @classmethod
    def read(cls, file: Path) -> "Kept":
        """Nothing, where there is no file yet."""
        if not file.exists():
            return cls(file, [], {})
        content = json.loads(file.read_text(encoding="utf-8"))
        outcomes = [Outcome(**line) for line in content["outcomes"]]
        return cls(file, outcomes, content["versions"], content["rounds"])

    def holds(self, setting: str, batch_size: int, seed: int, commit: str) -> bool:
        """Whether this is measured, with this code."""
        asked = (setting, batch_size, seed, commit)
        return any(
            asked == (each.setting, each.batch_size, each.seed, each.commit)
            for each in self.outcomes
        )

    def of(self, setting: str, batch_size: int, seeds: Sequence[int]) -> list[Outcome]:
        """What is there of a setting on these seeds."""
        return [
            each
            for each in self.outcomes
            if (each.setting, each.batch_size) == (setting, batch_size) and each.seed in seeds
        ]

    def add(self, outcome: Outcome) -> None:
        """Keep an outcome in the place of the one that was there, and write the file."""
        others = [each for each in self.outcomes if _place(each) != _place(outcome)]
        self.outcomes = sorted([*others, outcome], key=_place)
        self.versions = installed_versions()
        # A line for each outcome: changes are seen, and the file stays small.
        lines = ",\n".join(json.dumps(asdict(each)) for each in self.outcomes)
        head = f'"rounds": {self.rounds},\n"versions": {json.dumps(self.versions)}'
        publish_text(self.file, f'{{\n{head},\n"outcomes": [\n{lines}\n]\n}}\n')


def _place(outcome: Outcome) -> tuple[int, int, int]:
    """Where an outcome stands in the file: plain defaults first, settings in their order."""
    return -outcome.batch_size, list(SETTINGS).index(outcome.setting), outcome.seed


def summaries(outcomes: Sequence[Outcome]) -> list[Summary]:
    """A line for each setting and batch size, in the order of the outcomes."""
    by_setting: dict[tuple[str, int], list[Outcome]] = {}
    for outcome in outcomes:
        by_setting.setdefault((outcome.setting, outcome.batch_size), []).append(outcome)
    return [summary(runs) for runs in by_setting.values()]


def summary(runs: Sequence[Outcome]) -> Summary:
    """One setting over its seeds."""
    gains = [run.mean_gain for run in runs]
    error = stdev(gains) / len(gains) ** 0.5 if len(gains) > 1 else float("inf")
    return Summary(
        setting=runs[0].setting,
        batch_size=runs[0].batch_size,
        seeds=len(runs),
        alone=mean(mean(run.alone) for run in runs),
        gain=mean(gains),
        error=error,
        worst=mean(min(run.gain) for run in runs),
        clearly_worse=sum(len(run.clearly_worse) for run in runs),
        worse_as_studies_count=sum(len(run.worse_as_studies_count) for run in runs),
        clients=sum(len(run.clients) for run in runs),
    )


def line_of(found: Summary) -> str:
    """A setting for the terminal; figures of accuracy and R2 alike are from 0 to 1."""
    verdict = "  WORSE THAN ALONE" if found.is_worse else ""
    return (
        f"{found.setting:18s} batch {found.batch_size:3d} seeds {found.seeds}"
        f"  alone {found.alone:.3f}  gain {found.gain:+.4f} ± {found.error:.4f}"
        f"  worst client {found.worst:+.3f}"
        f"  clearly worse {found.clearly_worse} of {found.clients}{verdict}"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what is asked for and not there yet, and print what comes out."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=list(SETTINGS), default=list(SETTINGS))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    parser.add_argument("--batch", type=int, default=BATCH_SIZE, help="the batch size")
    parser.add_argument("--again", action="store_true", help="measure what is there, too")
    parser.add_argument("--save", type=Path, default=STORED, help=f"default: {STORED.name}")
    asked = parser.parse_args(arguments)

    use_threads(1)
    kept = Kept.read(asked.save)
    for name in asked.only:
        for seed in asked.seeds:
            if asked.again or not kept.holds(name, asked.batch, seed, code_commit()):
                kept.add(measure(SETTINGS[name], asked.batch, seed))
        chosen = kept.of(name, asked.batch, asked.seeds)
        print(line_of(summary(chosen)), flush=True)


if __name__ == "__main__":
    main()
