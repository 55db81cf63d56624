"""A run's result for the terminal, and as JSON."""

import math
from typing import Any

from rich.table import Table
from rich.text import Text

from federico.report.old import words
from federico.report.old.summary import MethodSummary, Summary


def result_table(summary: Summary) -> Table:
    """One row per method, the best in bold."""
    metric = summary.metric
    unit = " (%)" if metric.higher_is_better else ""
    table = Table(title=words.headline(summary), title_justify="left", title_style="bold")
    table.add_column("method")
    for heading in (metric.name + unit, "against Local", "better in", "MB moved", "seconds"):
        table.add_column(heading, justify="right")
    for method in summary.methods:
        style = "bold" if method is summary.best else ""
        table.add_row(*(Text(cell) for cell in row(summary, method)), style=style)
    table.caption = "\n".join(filter(None, (words.trust(summary), words.progress(summary)))) or None
    table.caption_justify = "left"
    return table


def row(summary: Summary, method: MethodSummary) -> tuple[str, str, str, str, str, str]:
    """A method in words: title, figure with its spread, difference to Local, runs better, megabytes, seconds."""
    metric, versus = summary.metric, method.versus_local
    return (
        method.title,
        "-" if method.mean is None else metric.bare(method.mean) + metric.spread(method.sd),
        metric.signed(versus.difference) if versus else "",
        f"{versus.better} of {versus.runs}" if versus else "",
        megabytes(method.bytes_moved),
        f"{method.seconds:.1f}",
    )


def megabytes(count: float) -> str:
    """One decimal, more only for what would otherwise read as nothing."""
    moved = count / 1e6
    return f"{moved:,.1f}" if moved >= 0.05 or not moved else f"{moved:.2g}"


def as_json(summary: Summary) -> dict[str, Any]:
    """The same for programs: accuracies are fractions, what has diverged is null."""
    return {
        "run": summary.name,
        "task": summary.task,
        "metric": summary.metric.name,
        "higher_is_better": summary.metric.higher_is_better,
        "rounds": summary.rounds,
        "seeds": summary.seeds,
        "finished": not summary.pending,
        "headline": words.headline(summary),
        "methods": {method.name: _method(method) for method in summary.methods},
    }


def _method(method: MethodSummary) -> dict[str, Any]:
    versus, trust = method.versus_local, method.trust
    return {
        "title": method.title,
        "mean": _finite(method.mean),
        "sd": _finite(method.sd),
        "by_seed": {str(seed): _finite(value) for seed, value in method.by_seed.items()},
        "by_client": {client: _finite(value) for client, value in method.by_client.items()},
        "versus_local": versus
        and {
            "difference": _finite(versus.difference),
            "better": versus.better,
            "runs": versus.runs,
        },
        "on_true_friends": trust and trust.on_friends,
        "effective_collaborators": trust and trust.collaborators,
        "bytes_moved": method.bytes_moved,
        "seconds": method.seconds,
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
