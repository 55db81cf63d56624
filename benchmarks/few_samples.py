"""Is anybody worse than alone where there are few samples? FedeRiCo with its defaults.

    python -m benchmarks.few_samples             writes few_samples.json, prints the table
    python -m benchmarks.few_samples --splits 2  quicker

Eight clients share the samples of one source in four ways: all are alike, they are of two kinds,
one is alone in its kind, or all are of different kinds. A kind has labels of its own (each label
stands for another) or, for values, inputs in an order of its own and perhaps the opposite sign:
whatever one kind has learned is wrong for another. The splits are others than those that any rule
was chosen on.
"""

import argparse
import json
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, stdev

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, make_classification, make_friedman1

import federico
from federico.types import Array, FloatArray

STORED = Path(__file__).with_suffix(".json")
CLIENTS = 8
ROUNDS = 30
FIRST_SPLIT = 100
SOURCES = {"cancer": "linear", "classes": "mlp", "diabetes": "linear", "friedman": "mlp"}
"""Each source and the model it is learned with."""
KINDS = {
    "all alike": [0] * CLIENTS,
    "two kinds": [0, 1] * (CLIENTS // 2),
    "one alone": [1] + [0] * (CLIENTS - 1),
    "all different": list(range(CLIENTS)),
}
"""The kind of each client."""
SIZES = {
    "12 each": [12] * CLIENTS,
    "20 each": [20] * CLIENTS,
    "60 each": [60] * CLIENTS,
    "12 beside 60": [12, 60] * (CLIENTS // 2),
}
"""How many samples each client trains on; as many more test it."""

Samples = tuple[FloatArray, Array]


@dataclass(frozen=True)
class Outcome:
    """What one federation comes to, over splits."""

    source: str
    kinds: str
    samples: str
    metric: str
    alone: float
    gain: float
    error: float
    """The standard error of the mean gain over splits."""
    gain_of_first: float
    """Of the first client: the one alone in its kind, where there is one."""


def source(name: str, random: np.random.Generator) -> Samples:
    """All samples of a source: standardised inputs, and class numbers or values."""
    seed = int(random.integers(1 << 30))
    if name == "cancer":
        data = load_breast_cancer()
        x, y = data.data, data.target
    elif name == "diabetes":
        data = load_diabetes()
        x, y = data.data, data.target.astype(float)
    elif name == "classes":
        x, y = make_classification(
            2400, 20, n_informative=10, n_classes=5, n_clusters_per_class=2, random_state=seed
        )
    else:
        x, y = make_friedman1(1600, 10, noise=1.0, random_state=seed)
    standardised = (x - x.mean(axis=0)) / x.std(axis=0)
    return standardised, y


def of_kind(kind: int, samples: Samples, is_regression: bool) -> Samples:
    """The same samples as a client of this kind sees them."""
    if kind == 0:
        return samples

    x, y = samples
    random = np.random.default_rng(kind)
    reordered = x[:, random.permutation(x.shape[1])]
    if is_regression:
        return reordered, y * random.choice([-1.0, 1.0])

    classes = int(y.max()) + 1
    turned = (y + kind) % classes
    if kind < classes:
        return x, turned
    return reordered, turned


def clients_of(name: str, kinds: str, sizes: str, split: int) -> dict[str, Samples] | None:
    """The data of all clients; None if the source has too few samples."""
    random = np.random.default_rng([FIRST_SPLIT, split])
    x, y = source(name, random)
    parts = np.array_split(random.permutation(len(x)), CLIENTS)

    clients: dict[str, Samples] = {}
    for i, part in enumerate(parts):
        count = 2 * SIZES[sizes][i]
        if count > len(part):
            return None
        mine = part[:count]
        is_regression = name in ("diabetes", "friedman")
        clients[f"c{i}"] = of_kind(KINDS[kinds][i], (x[mine], y[mine]), is_regression)
    return clients


def gains_of(clients: dict[str, Samples], model: str, task: str, seed: int) -> Array:
    """What each client has alone, and what it gains, [alone and gain, clients]."""
    with tempfile.TemporaryDirectory() as folder:
        run = federico.run(
            clients=clients,
            model={"kind": model},
            task=task,  # type: ignore[arg-type]
            rounds=ROUNDS,
            seeds=[seed],
            methods=["federico"],
            split={"test_fraction": 0.5},
            training={"batch_size": 10, "optimizer": {"kind": "adam", "learning_rate": 0.01}},
            system={"threads": 1, "evaluate_every": ROUNDS, "checkpoint_every": ROUNDS},
            directory=folder,
            progress=False,
        )
        last = run.frame(last=True)
    metric = metric_of(task)
    used = last[metric].to_numpy()
    alone = last[f"alone_{metric}"].to_numpy()
    if task == "regression":
        # A client whose R2 is far below zero would drown all others.
        used = np.maximum(used, -1)
        alone = np.maximum(alone, -1)
    return np.stack([alone, used - alone])


def metric_of(task: str) -> str:
    """The figure that is compared."""
    return "r2" if task == "regression" else "accuracy"


def measure(name: str, kinds: str, sizes: str, splits: int) -> Outcome | None:
    """One federation, over splits; None if the source is too small for it."""
    task = "regression" if name in ("diabetes", "friedman") else "classification"
    found: list[Array] = []
    for split in range(splits):
        clients = clients_of(name, kinds, sizes, split)
        if clients is None:
            return None
        found.append(gains_of(clients, SOURCES[name], task, FIRST_SPLIT + split))

    gains = [float(gain.mean()) for _, gain in found]
    return Outcome(
        source=name,
        kinds=kinds,
        samples=sizes,
        metric=metric_of(task),
        alone=round(mean(float(alone.mean()) for alone, _ in found), 4),
        gain=round(mean(gains), 4),
        error=round(stdev(gains) / splits**0.5, 4),
        gain_of_first=round(mean(float(gain[0]) for _, gain in found), 4),
    )


def main() -> None:
    """Measure all federations, print what comes out, and keep it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=10)
    splits = parser.parse_args().splits

    outcomes: list[Outcome] = []
    for name in SOURCES:
        for kinds in KINDS:
            for sizes in SIZES:
                outcome = measure(name, kinds, sizes, splits)
                if outcome is None:
                    continue
                outcomes.append(outcome)
                print(
                    f"{name:10s} {kinds:14s} {sizes:14s} {outcome.metric:9s}"
                    f" alone {outcome.alone:6.3f}  gain {outcome.gain:+.3f} ± {outcome.error:.3f}"
                    f"  of the first client {outcome.gain_of_first:+.3f}",
                    flush=True,
                )
    kept = {"splits": splits, "outcomes": [asdict(outcome) for outcome in outcomes]}
    STORED.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
