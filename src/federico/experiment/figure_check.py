"""Whether the figure that an experiment file asks for can be drawn, found out before it runs."""

from federico.errors import ConfigError
from federico.experiment.build import load_problem
from federico.experiment.config import Experiment
from federico.experiment.grid import Grid
from federico.runs.table import OURS, FigureOptions

WITH_WEIGHTS = (OURS, "fedem")
"""Methods whose clients weigh models."""


def check_figure(grid: Grid) -> None:
    """Refuse a figure that would only be found impossible when the runs are over."""
    figure = grid.experiment.figure
    if figure is None:
        return
    obstacle = _obstacle(grid, figure)
    if obstacle:
        raise ConfigError(f'{grid.name}: figure.draw = "{figure.draw}": {obstacle}')


def _obstacle(grid: Grid, figure: FigureOptions) -> str:
    """Why the figure cannot be drawn; empty if it can."""
    if figure.draw == "curves":
        drawable = any(row.panel for row in grid.rows)
        return "" if drawable else "give rows a `panel` to be drawn in"
    if "given" not in grid.options.rates:
        return 'it is drawn from runs at the given learning rate; add "given" to grid.rates'
    if figure.draw == "lines":
        return _obstacle_to_lines(grid)

    drawn = grid.rows[:1] if figure.draw == "posteriors" else grid.rows
    for row in drawn:
        if row.method not in WITH_WEIGHTS:
            return (
                f"row {row.name!r} runs {row.method}, which has no weights; "
                f"those that have: {', '.join(WITH_WEIGHTS)}"
            )
    if figure.draw == "variants":
        return _obstacle_to_variants(grid, figure)
    return ""


def _obstacle_to_lines(grid: Grid) -> str:
    if OURS not in [row.method for row in grid.rows]:
        return f"it draws the lines of {OURS}; add a row that runs it"
    schema = load_problem(*_first(grid)).dataset.schema
    if (schema.task, tuple(schema.input_shape)) != ("regression", (1,)):
        return "it draws a regression with one input; this data is something else"
    return ""


def _obstacle_to_variants(grid: Grid, figure: FigureOptions) -> str:
    clients = len(load_problem(*_first(grid)).clients)
    last_drawn = max(figure.clients, default=0)
    if last_drawn < clients:
        return ""
    return f"figure.clients: there is no client {last_drawn}, the last is {clients - 1}"


def _first(grid: Grid) -> tuple[Experiment, int]:
    """The runs that are drawn: those of the first seed in the first column."""
    cell = grid.cells(grid.rows[0], grid.columns[0], "given")[0]
    return cell.experiment, cell.seed
