"""Is a client right that says how sure it is which is better, its collaborators or it alone?

    python -m benchmarks.sureness                  all made settings, seeds 8 to 15
    python -m benchmarks.sureness --seeds 0 1 --only rings moons_100 --save FILE

FedeRiCo with its plain defaults on the settings of `made_settings.py`. Of every client that has
collaborators it is kept what its held-out samples made it say, and how the two did on its test
data. With `--save` results go to a file as they come, and what is there already is not run again.
`DOUBT` of `federico.algorithm.evidence` was chosen on seeds 0 to 7.
"""

import argparse
import json
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

import federico
from benchmarks.made_data import BATCH_SIZE, ROUNDS, write
from benchmarks.made_settings import SETTINGS, Setting
from federico.compat import use_threads
from federico.runs.atomic import publish_text
from federico.runs.comparison import EVEN, SURE
from federico.runs.metric import metric_of

SEEDS = range(8, 16)
BINS = ((EVEN, SURE), (SURE, 0.9), (0.9, 1.0))
"""Clients are counted by how sure they are of either side."""


@dataclass(frozen=True)
class Said:
    """What one client said, and what its test data say. Gains are those of its collaborators."""

    setting: str
    seed: int
    client: str
    chance: float
    """How probable it was, by its held-out samples, that its collaborators do better."""
    gain_in_loss: float
    gain: float
    """In accuracy or R2."""

    @property
    def sureness(self) -> float:
        """How sure the client was of the side that it favoured."""
        return max(self.chance, 1 - self.chance)

    def is_right(self, gain: float) -> float:
        """Whether that side did better; half where the two did equally well."""
        if gain == 0:
            return 0.5
        return float((gain > 0) == (self.chance >= EVEN))


def measure(setting: Setting, seed: int) -> list[Said]:
    """All clients of one federation that have collaborators."""
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
            rounds=ROUNDS,
            seeds=[seed],
            methods=["federico"],
            training={"batch_size": BATCH_SIZE},
            system={"threads": 1, "evaluate_every": ROUNDS, "checkpoint_every": ROUNDS},
            directory=folder,
            progress=False,
        )
        last = run.frame(last=True).set_index("client")

    metric = metric_of(setting.task).recorded_as
    found: list[Said] = []
    for client, line in last.iterrows():
        chance = float(line["together_chance"])
        if np.isnan(chance):
            continue
        in_loss = float(line["alone_loss"] - line["together_loss"])
        gain = float(line[f"together_{metric}"] - line[f"alone_{metric}"])
        rounded = (float(f"{value:.4g}") for value in (chance, in_loss, gain))
        found.append(Said(setting.name, seed, str(client), *rounded))
    return found


def read(file: Path | None) -> dict[str, list[Said]]:
    """What a file holds, by setting and seed; nothing where there is no file."""
    if file is None or not file.exists():
        return {}
    found: dict[str, list[Said]] = {}
    for key, lines in json.loads(file.read_text(encoding="utf-8")).items():
        found[key] = [Said(**line) for line in lines]
    return found


def save(file: Path, measured: dict[str, list[Said]]) -> None:
    """A line for each federation."""
    lines = []
    for key in sorted(measured):
        clients = json.dumps([asdict(said) for said in measured[key]])
        lines.append(f"{json.dumps(key)}: {clients}")
    publish_text(file, "{\n" + ",\n".join(lines) + "\n}\n")


def table(said: Sequence[Said]) -> str:
    """How often clients were right, by how sure they were, in Markdown."""
    lines = [
        "| how sure | clients | they say | right by loss | right by accuracy or R2 |",
        "| --- | --- | --- | --- | --- |",
    ]
    for side, of_side in _sides(said):
        for low, high in BINS:
            some = [each for each in of_side if low <= each.sureness and _below(each, high)]
            if not some:
                continue
            claimed = _percent(each.sureness for each in some)
            by_loss = _percent(each.is_right(each.gain_in_loss) for each in some)
            by_metric = _percent(each.is_right(each.gain) for each in some)
            name = f"{100 * low:.0f} to {100 * high:.0f} %, {side}"
            lines.append(f"| {name} | {len(some)} | {claimed} | {by_loss} | {by_metric} |")
    return "\n".join(lines)


def _sides(said: Sequence[Said]) -> list[tuple[str, list[Said]]]:
    together = [each for each in said if each.chance >= EVEN]
    alone = [each for each in said if each.chance < EVEN]
    return [("together", together), ("alone", alone)]


def _below(said: Said, high: float) -> bool:
    return said.sureness < high or high == 1


def _percent(values: Iterable[float]) -> str:
    return f"{100 * np.mean(list(values)):.0f} %"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what is not stored yet, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    parser.add_argument("--save", type=Path, help="a file of what has been measured")
    asked = parser.parse_args(arguments)

    use_threads(1)
    measured = read(asked.save)
    said: list[Said] = []
    for seed in asked.seeds:
        for name in asked.only:
            key = f"{name} {seed}"
            if key not in measured:
                measured[key] = measure(SETTINGS[name], seed)
                if asked.save is not None:
                    save(asked.save, measured)
            said += measured[key]
    print(f"{len(said)} clients with collaborators")
    print(table(said))


if __name__ == "__main__":
    main()
