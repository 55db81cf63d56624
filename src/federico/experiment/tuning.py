"""Which learning rate is best for a row, from the results of its tuning runs."""

import math
from collections import defaultdict
from collections.abc import Iterable

import numpy as np

from federico.experiment.grid import Grid
from federico.experiment.grid_options import GridColumn, GridRow
from federico.runs.results import CellResult, StoredAggregate, metric_of_result


def best_rate(
    grid: Grid,
    row: GridRow,
    column: GridColumn,
    results: Iterable[CellResult],
    aggregates: Iterable[StoredAggregate] = (),
) -> float | None:
    """The rate that scored best on the clients' validation parts; None before all were tried.

    Of rates that score the same it is the first, as the file lists them.
    """
    scores = tuning_scores(grid, row, column, results, aggregates)
    best = None
    for rate in grid.options.tuning.rates:
        if rate not in scores:
            return None
        if best is None or scores[rate] > scores[best]:
            best = rate
    return best


def tuning_scores(
    grid: Grid,
    row: GridRow,
    column: GridColumn,
    results: Iterable[CellResult],
    aggregates: Iterable[StoredAggregate] = (),
) -> dict[float, float]:
    """By rate, how well it did: higher is better.

    Rates that were not tried on enough seeds are missing.

    Which seeds does not matter: where runs are added to a result, nothing is tuned again.
    """
    wanted = grid.tuning_cells(row, column)
    place = (wanted[0].settings, row.name, wanted[0].column, wanted[0].rounds)
    seeds = len({cell.seed for cell in wanted})

    scores: dict[float, list[float]] = defaultdict(list)
    for line in results:
        same_place = (line.settings, line.row, line.column, line.rounds) == place
        if line.rate_kind == "tuning" and same_place:
            scores[line.rate].append(_score(line))
    for aggregate in aggregates:
        same_place = (
            aggregate.settings,
            aggregate.row,
            aggregate.column,
            aggregate.rounds,
        ) == place
        if aggregate.rate_kind == "tuning" and same_place:
            # Stored figures are accuracies: no study of a regression was tuned.
            scores[aggregate.rate] += aggregate.by_seed.values()

    return {rate: float(np.mean(found)) for rate, found in scores.items() if len(found) >= seeds}


def _score(line: CellResult) -> float:
    """The figure after the last round, turned so that higher is better; a diverged run is worst."""
    last = final_figure(line)
    if last is None or not math.isfinite(last):
        return -math.inf
    return metric_of_result(line).gain(last)


def final_figure(line: CellResult) -> float | None:
    """What a cell is judged by, after its last evaluated round: mean over honest clients."""
    if not line.evaluated:
        return None
    honest = line.without_hostile()
    sizes = np.add(honest.train_samples, honest.test_samples).tolist()
    return metric_of_result(honest).mean(honest.figures_at(-1), sizes)
