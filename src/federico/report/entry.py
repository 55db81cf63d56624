"""One row in one column of a table, over its seeds: means, deviations and curves."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from federico.report.gains import GainsOfClients, Interval
from federico.report.means import (
    mean,
    mean_of_known,
    mean_of_lists,
    means_by_key,
    standard_deviation,
)
from federico.report.seed_result import Command, SeedResult
from federico.report.worth_it import WorthToClient, mean_over_runs
from federico.runs.metric import Metric
from federico.runs.table import ShownRate, TableRow


@dataclass(frozen=True)
class Curve:
    """Mean and standard deviation over seeds, at every round that all seeds have evaluated."""

    rounds: list[int]
    mean: list[float]
    sd: list[float]


@dataclass(frozen=True)
class Difference:
    """A row against the reference row, seed by seed, both after the same number of rounds."""

    mean: float
    """Mean over the seeds of the row's figure minus the reference's."""
    better: int
    """Runs in which the row is better than the reference."""
    runs: int
    interval: Interval | None = None
    """Where the mean over runs lies (95 %); None for one run, or where one has diverged."""
    p_value: float | None = None
    """Of Wilcoxon's signed-rank test over runs; None where there is no interval."""
    clients: GainsOfClients | None = None
    """The same client by client; None where only means over runs were stored."""

    @property
    def is_clear(self) -> bool:
        """Whether the runs tell the two apart: the interval does not hold 0."""
        if self.interval is None:
            return False
        low, high = self.interval
        return low > 0 or high < 0


@dataclass(frozen=True)
class Entry:
    """One row in one column at one learning rate, over its seeds."""

    row: TableRow
    column: str
    rate_kind: ShownRate
    seeds: tuple[SeedResult, ...]
    versus: Difference | None = None
    """The difference to the reference row; None for that row, and where no seed can be compared."""

    @property
    def title(self) -> str:
        """The row's name for people."""
        return self.row.title

    @property
    def rate(self) -> float:
        """The learning rate."""
        return self.seeds[0].rate

    @cached_property
    def evaluated(self) -> list[int]:
        """The rounds that all seeds have evaluated."""
        shared = set(self.seeds[0].evaluated)
        for seed in self.seeds[1:]:
            shared &= set(seed.evaluated)
        return sorted(shared)

    @property
    def rounds(self) -> int:
        """The round after which the figure was taken."""
        return self.evaluated[-1]

    @property
    def finished(self) -> bool:
        """Whether these are finished runs; else they are still going on."""
        return all(seed.finished for seed in self.seeds)

    @property
    def stored_as_mean(self) -> bool:
        """Whether some of it was stored as means over seeds, and not run by run."""
        return any(seed.stored_as_mean for seed in self.seeds)

    @cached_property
    def by_seed(self) -> dict[int, float]:
        """The figure after the last round."""
        return self.after(self.rounds)

    def after(self, round_index: int) -> dict[int, float]:
        """The figure of every seed after a round that all have evaluated."""
        found = {}
        for seed in self.seeds:
            (figure,) = seed.at(seed.figure, [round_index])
            found[seed.seed] = figure
        return found

    @property
    def mean(self) -> float:
        """The figure after the last round, mean over seeds."""
        return mean(list(self.by_seed.values()))

    def sd(self, over: str) -> float | None:
        """Standard deviation over `seeds` or `clients`; None for one, or where one has diverged.

        Where every seed has other clients, it is the mean of the deviations over those of a seed.
        """
        if over == "seeds":
            return standard_deviation(list(self.by_seed.values()))
        if self.clients_of_seed is None:
            return standard_deviation(list(self.by_client.values()))
        deviations = []
        for seed in self.seeds:
            deviation = standard_deviation(list(seed.by_client.values()))
            if deviation is None:
                return None
            deviations.append(deviation)
        return mean(deviations)

    @property
    def clients_of_seed(self) -> int | None:
        """The seed that figures of single clients are from; None for means over all seeds.

        Where seeds draw other clients, one of the same name is another one: nobody is averaged with
        somebody else.
        """
        first = self.seeds[0]
        if all(seed.clients == first.clients for seed in self.seeds):
            return None
        return first.seed

    @property
    def with_same_clients(self) -> Sequence[SeedResult]:
        """The seeds that figures of single clients are means over."""
        if self.clients_of_seed is None:
            return self.seeds
        return self.seeds[:1]

    @cached_property
    def by_client(self) -> dict[str, float]:
        """Each client's own figure, mean over the seeds that have the same clients."""
        values: dict[str, list[float]] = defaultdict(list)
        for seed in self.with_same_clients:
            for client, value in seed.by_client.items():
                values[client].append(value)
        return means_by_key(values)

    def other_figure(self, metric: Metric) -> float | None:
        """Another figure after the last round, mean over the seeds that know it."""
        return mean_of_known(seed.other_figures.get(metric.recorded_as) for seed in self.seeds)

    @property
    def worse_than_mean(self) -> float | None:
        """Clients whose model is worse than the mean of their training targets, mean over seeds."""
        return mean_of_known(seed.worse_than_mean for seed in self.seeds)

    @property
    def alone(self) -> float | None:
        """The figure of the models that clients trained alone, mean over the seeds that know it."""
        return mean_of_known(seed.alone for seed in self.seeds)

    @property
    def worth_over_runs(self) -> list[WorthToClient]:
        """What all clients are alone and together: those of every run where each has others."""
        if self.clients_of_seed is None:
            return self.worth
        found: list[WorthToClient] = []
        for seed in self.seeds:
            found += seed.worth.values()
        return found

    @cached_property
    def worth(self) -> list[WorthToClient]:
        """What each client is alone and together, mean over the seeds that have the same clients.

        Empty without private models.
        """
        return mean_over_runs([seed.worth for seed in self.with_same_clients])

    @cached_property
    def curve(self) -> Curve:
        """The figure over the rounds."""
        by_seed = []
        for seed in self.seeds:
            by_seed.append(seed.at(seed.figure, self.evaluated))
        values = np.array(by_seed)  # [seeds, rounds]
        mean = values.mean(axis=0)

        sd = np.zeros_like(mean)
        if len(by_seed) > 1:
            with np.errstate(invalid="ignore"):
                sd = values.std(axis=0, ddof=1)
            # A round in which a seed has diverged has no band.
            sd[~np.isfinite(sd)] = 0.0
        return Curve(self.evaluated, mean.tolist(), sd.tolist())

    @cached_property
    def bytes_moved(self) -> list[float]:
        """Bytes of all messages up to each round of the curve, mean over seeds."""
        by_seed = []
        for seed in self.seeds:
            by_seed.append(seed.at(seed.bytes_moved, self.evaluated))
        return mean_of_lists(by_seed)

    @cached_property
    def processor_seconds(self) -> list[float]:
        """Seconds of all threads up to each round of the curve, mean over seeds."""
        by_seed = []
        for seed in self.seeds:
            by_seed.append(seed.at(seed.processor_seconds, self.evaluated))
        return mean_of_lists(by_seed)

    @property
    def wall_seconds(self) -> float | None:
        """Seconds by the clock on the wall of one run, mean over the seeds that know them."""
        return mean_of_known(seed.wall_seconds for seed in self.seeds)

    @property
    def on_own_distribution(self) -> float | None:
        """The posterior's weight on peers of a client's own distribution, mean over clients."""
        return mean_of_known(seed.on_own_distribution for seed in self.seeds)

    @property
    def effective_collaborators(self) -> float | None:
        """1 / sum of squared posterior weights, mean over clients."""
        return mean_of_known(seed.effective_collaborators for seed in self.seeds)

    @cached_property
    def commands(self) -> set[Command]:
        """The commands that its runs come from."""
        found: set[Command] = set()
        for seed in self.seeds:
            found |= seed.commands
        return found
