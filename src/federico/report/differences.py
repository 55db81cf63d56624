"""One row of a table against another, seed by seed and client by client."""

from federico.report.entry import Difference, Entry
from federico.report.gains import (
    ClientGain,
    GainsOfClients,
    gains_of_run,
    mean_interval,
    paired_p_value,
)
from federico.report.means import mean
from federico.runs.metric import Metric


def compare(entry: Entry, other: Entry, metric: Metric) -> Difference | None:
    """One row against another, over the seeds that both have; None where there are none."""
    if other.rounds != entry.rounds:
        return None
    return compare_after(entry.rounds, entry, other, metric)


def compare_after(
    round_index: int, entry: Entry, other: Entry, metric: Metric
) -> Difference | None:
    """The same after a round that all seeds of both have evaluated."""
    theirs = other.after(round_index)
    differences = []
    for seed, ours in entry.after(round_index).items():
        if seed in theirs:
            differences.append(_difference(ours, theirs[seed]))
    if not differences:
        return None
    better = 0
    for difference in differences:
        if metric.gain(difference) > 0:
            better += 1
    return Difference(
        mean=mean(differences),
        better=better,
        runs=len(differences),
        interval=mean_interval(differences),
        p_value=paired_p_value(differences),
        clients=_gains_of_clients(entry, other, metric),
    )


def _gains_of_clients(entry: Entry, other: Entry, metric: Metric) -> GainsOfClients | None:
    """Client by client, over the runs that are known by client and end after the same round."""
    theirs_by_seed = {seed.seed: seed for seed in other.seeds}
    by_seed: dict[int, tuple[ClientGain, ...]] = {}
    for ours in entry.seeds:
        theirs = theirs_by_seed.get(ours.seed)
        if theirs is None or ours.evaluated[-1] != theirs.evaluated[-1]:
            continue
        # What was stored as a mean has no test sets, and gives no gains.
        gains = gains_of_run(ours.by_client, theirs.by_client, ours.test_sets, metric)
        if gains:
            by_seed[ours.seed] = gains
    if not by_seed:
        return None
    return GainsOfClients(by_seed)


def _difference(one: float, other: float) -> float:
    """One minus the other; two that have both diverged are equally bad."""
    if one == other:
        return 0.0  # infinite minus infinite would not be a number
    return one - other
