"""What each method of a run has reached, as a pandas frame and as a small table for a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from federico.runs.layout import CellDir
from federico.runs.metric import METRICS, metric_in, metric_of
from federico.runs.records import Record

if TYPE_CHECKING:
    import pandas as pd


def summary_of_cells(cells: Sequence[CellDir]) -> pd.DataFrame:
    """One line for each of these cells that was evaluated: what its clients have reached."""
    import pandas as pd

    lines: list[dict[str, Any]] = []
    for cell in cells:
        evaluated = [record for record in cell.records if record.figures is not None]
        if evaluated:
            lines.append(_line_of_cell(cell, evaluated[-1]))
    if not lines:
        return pd.DataFrame(columns=["method", "seed", "round", "clients"])
    return pd.DataFrame(lines)


def _line_of_cell(cell: CellDir, record: Record) -> dict[str, Any]:
    about = cell.description
    line: dict[str, Any] = {"method": about.method}
    if about.row != about.method:
        line["row"] = about.row
    if about.column:
        line["column"] = about.column
    line |= {"seed": about.seed, "round": record.round}

    # As in every report, the hostile clients of a simulated attack do not count.
    line["clients"] = len(about.honest)

    parts = {"": record.figures, "alone_": record.alone, "together_": record.together}
    for prefix, figures in parts.items():
        if figures is None:
            continue
        for metric in METRICS[about.task]:
            if metric.recorded_as in figures:
                line[prefix + metric.recorded_as] = about.mean(metric, figures)

    by_client = metric_of(about.task).of_clients(about.of_honest(record.figures or {}))
    line["worst"] = np.nanmin(by_client) if not np.isnan(by_client).all() else np.nan
    line["best"] = np.nanmax(by_client) if not np.isnan(by_client).all() else np.nan
    return line


def html_of_summary(summary: pd.DataFrame) -> str:
    """A line for each method, mean over seeds: what fits below the code of a notebook."""
    metric = metric_in(dict.fromkeys(summary.columns))
    places = [name for name in ("method", "row", "column") if name in summary]
    headings = [*places, "seeds", "round", metric.axis, "worst client", "best client"]
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)

    lines = []
    for key, of_method in summary.groupby(places, sort=False, dropna=False):
        figures = of_method[metric.recorded_as]
        reached = metric.bare(figures.mean())
        if len(of_method) > 1:
            reached += metric.spread(figures.std())
        texts = [
            *map(str, key),
            str(len(of_method)),
            str(of_method["round"].max()),
            reached,
            metric.bare(of_method["worst"].mean()),
            metric.bare(of_method["best"].mean()),
        ]
        lines.append("".join(f"<td>{escape(text)}</td>" for text in texts))
    rows = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
