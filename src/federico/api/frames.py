"""Records of a run as pandas frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from federico.runs.layout import CellDir
from federico.runs.records import Record

if TYPE_CHECKING:
    import pandas as pd


def frame_of_rounds(cells: Sequence[CellDir]) -> pd.DataFrame:
    """One line for each client in each evaluated round of these cells."""
    import pandas as pd

    lines: list[dict[str, Any]] = []
    for cell in cells:
        for record in cell.records:
            if record.figures is not None:
                lines += _lines_of_round(cell, record)
    return pd.DataFrame(lines)


def _lines_of_round(cell: CellDir, record: Record) -> list[dict[str, Any]]:
    about = cell.description
    lines = []
    for place, client in enumerate(about.clients):
        line: dict[str, Any] = {
            "method": about.method,
            "seed": about.seed,
            "client": client,
            "round": record.round,
        }
        if about.row != about.method:
            line["row"] = about.row
        if about.column:
            line["column"] = about.column
        line |= _figures_of_client(record.figures, place)
        line |= _figures_of_client(record.alone, place, "alone_")
        line |= _figures_of_client(record.together, place, "together_")
        if record.together_share is not None:
            line["together_share"] = record.together_share[place]
        if record.together_chance is not None:
            chance = record.together_chance[place]
            line["together_chance"] = float("nan") if chance is None else chance
        line["bytes_sent"] = record.sent[place]
        line["bytes_received"] = record.received[place]
        lines.append(line)
    return lines


def _figures_of_client(
    figures: dict[str, list[float | None]] | None, place: int, prefix: str = ""
) -> dict[str, float]:
    """One client's figures by metric; one that is undefined is NaN."""
    found: dict[str, float] = {}
    for metric, by_client in (figures or {}).items():
        value = by_client[place]
        found[prefix + metric] = float("nan") if value is None else value
    return found


def frame_of_posterior(clients: Sequence[str], record: Record) -> pd.DataFrame:
    """The posteriors of one round: a row for each client, a column for each model's owner."""
    import pandas as pd

    owners = list(clients)
    for weights in record.posterior:
        owners += [owner for owner in weights if owner not in owners]
    met: set[str] = set()
    for weights in record.posterior:
        met.update(weights)
    # FedEM's components belong to no client, and then no client has a column.
    owners = [owner for owner in owners if owner in met]

    frame = pd.DataFrame(record.posterior, index=pd.Index(clients, name="client"))
    frame = frame.reindex(columns=owners).fillna(0.0)
    return frame.rename_axis(columns="model of")
