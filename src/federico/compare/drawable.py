"""Whether the figure that a study asks for can be drawn, found out before the first run."""

from federico.compare.study import Drawing, Study
from federico.errors import ConfigError
from federico.experiment.build import Setup, prepare
from federico.report.old.summary import FEDERICO

WITH_WEIGHTS = (FEDERICO, "fedem")
"""Methods whose clients weigh models."""


def check_figure(study: Study) -> None:
    """Refuse what would only be found wrong when the runs are over."""
    figure = study.compare.figure
    wrong = None if figure is None else _wrong(study, figure)
    if figure is not None and wrong:
        raise ConfigError(f'{study.name}: compare.figure.draw = "{figure.draw}": {wrong}')


def _wrong(study: Study, figure: Drawing) -> str | None:
    if figure.draw == "curves":
        return (
            None if any(row.panel for row in study.rows) else "give rows a `panel` to be drawn in"
        )
    if "given" not in study.compare.at:
        return 'it is drawn from runs at the given learning rate; add "given" to compare.at'
    if figure.draw == "lines":
        return _no_lines(study)
    drawn = study.rows[:1] if figure.draw == "posteriors" else study.rows
    if other := next((row for row in drawn if row.method not in WITH_WEIGHTS), None):
        return f"row {other.name!r} runs {other.method}, which has no weights; those that have: {', '.join(WITH_WEIGHTS)}"
    return _no_clients(study, figure) if figure.draw == "variants" else None


def _no_lines(study: Study) -> str | None:
    if FEDERICO not in (row.method for row in study.rows):
        return f"it draws the lines of {FEDERICO}; add a row that runs it"
    schema = _setup(study).schema
    if (schema.task, schema.input_shape) != ("regression", (1,)):
        return "it draws a regression with one input; this data is something else"
    return None


def _no_clients(study: Study, figure: Drawing) -> str | None:
    clients = len(_setup(study).clients)
    if max(figure.clients, default=0) < clients:
        return None
    return f"compare.figure.clients: there is no client {max(figure.clients)}, the last is {clients - 1}"


def _setup(study: Study) -> Setup:
    """Of the runs that are drawn: the first seed in the first column."""
    return prepare(
        study.cells(study.rows[0], study.compare.columns[0], "given")[0].experiment,
        study.file.seeds[0],
    )
