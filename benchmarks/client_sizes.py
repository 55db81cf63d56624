"""What does a client of ten samples get, beside one of ten thousand? FedeRiCo with its defaults.

    python -m benchmarks.client_sizes              seeds 200 to 207; prints the table
    python -m benchmarks.client_sizes --seeds 100
    python -m benchmarks.client_sizes --stored     the same of clients of 5 to 2000 samples

Eight clients of 10 to 10,000 samples tell two classes apart, each by a rule of its own near that of
the others. The seeds are others than those that any rule was chosen on. What is stored are the
settings `unequal_linear` and `unequal_mlp` of `benchmarks.made_data`, by the size of clients.
"""

import argparse
from collections.abc import Sequence
from statistics import mean

import numpy as np

from benchmarks.made_data import BATCH_SIZE, SEEDS, STORED, Kept, Outcome, measure
from benchmarks.made_settings import MadeClients, Setting, divided, linear_classes, named
from federico.compat import use_threads

SIZES = (10, 100, 1000, 10_000)
CLIENTS_OF_EACH = 2
UNEQUAL = ("unequal_linear", "unequal_mlp")
"""Settings with clients of other sizes that are stored."""


def clients_of_all_sizes(random: np.random.Generator) -> MadeClients:
    """A linear rule of each client, seen through noise."""
    common = random.normal(size=10)
    clients = []
    for samples in CLIENTS_OF_EACH * SIZES:
        own = common + 0.7 * random.normal(size=10)
        x, y = linear_classes(random, own, samples + 500, noise=0.5)
        clients.append(divided(x, y, samples))
    return named(clients)


SETTING = Setting("client_sizes", "linear", "classification", clients_of_all_sizes, is_new=True)


def table(outcomes: Sequence[Outcome]) -> str:
    """A line for each size, in Markdown: means over clients and seeds, and the worst client."""
    lines = [
        "| training samples | alone (%) | gain (points) | worst client | share of the others |",
        "| --- | --- | --- | --- | --- |",
    ]
    for size in sorted({samples for outcome in outcomes for samples in outcome.trained}):
        alone: list[float] = []
        gains: list[float] = []
        shares: list[float] = []
        for outcome in outcomes:
            for place, samples in enumerate(outcome.trained):
                if samples == size:
                    alone.append(100 * outcome.alone[place])
                    gains.append(100 * outcome.gain[place])
                    shares.append(100 * outcome.together_share[place])
        gain = round(mean(gains), 1) + 0.0  # no minus before a zero
        worst = round(min(gains), 1) + 0.0
        lines.append(
            f"| {size:,} | {mean(alone):.1f} | {gain:+.1f} | {worst:+.1f} | {mean(shares):.0f} % |"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    parser.add_argument("--stored", action="store_true", help="measure nothing")
    asked = parser.parse_args(arguments)

    if asked.stored:
        kept = Kept.read(STORED)
        outcomes: list[Outcome] = []
        for name in UNEQUAL:
            outcomes += kept.of(name, BATCH_SIZE, asked.seeds)
        if not outcomes:
            parser.error(f"benchmarks/{STORED.name} has nothing of these seeds")
        print(table(outcomes))
        return
    use_threads(1)
    print(table([measure(SETTING, BATCH_SIZE, seed) for seed in asked.seeds]))


if __name__ == "__main__":
    main()
