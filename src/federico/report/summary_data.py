"""A summary for other programs: the runs and gains as CSV, everything as JSON."""

import math
from typing import Any

from federico.report import text
from federico.report.entry import Difference, Entry
from federico.report.table_summary import Summary, TunedRate
from federico.runs.metric import METRICS
from federico.runs.spreadsheet import csv_text


def as_csv(summary: Summary) -> str:
    """One line for each run, for programs."""
    figure = summary.metric.name.replace(" ", "_")
    rows: list[list[object]] = [
        ["row", "method", "column", "rate_kind", "learning_rate", "rounds", "seed", figure]
    ]
    for entry in summary.entries:
        place = [entry.row.name, entry.row.method, entry.column, entry.rate_kind, entry.rate]
        for seed, value in entry.by_seed.items():
            rows.append([*place, entry.rounds, seed, value])
    return csv_text(rows)


def gains_as_csv(summary: Summary) -> str:
    """One line for each client of each run that is compared with the reference, for programs."""
    headings = ["row", "column", "rate_kind", "learning_rate", "seed", "client"]
    figures = ["figure", "reference", "gain", "standard_error", "clearly_worse"]
    rows: list[list[object]] = [[*headings, *figures]]
    for entry in summary.entries:
        if entry.versus is None or entry.versus.clients is None:
            continue
        place = [entry.row.name, entry.column, entry.rate_kind, entry.rate]
        for seed, run in entry.versus.clients.by_seed.items():
            for client in run:
                values = [client.figure, client.reference, client.gain, client.standard_error]
                clearly_worse = int(client.is_clearly_worse)
                rows.append([*place, seed, client.client, *values, clearly_worse])
    return csv_text(rows)


def as_json(summary: Summary) -> dict[str, Any]:
    """All figures for programs: accuracies are fractions, what has diverged is null."""
    table = summary.table
    return {
        "name": table.name,
        "title": table.title,
        "task": summary.task,
        "metric": summary.metric.name,
        "higher_is_better": summary.metric.higher_is_better,
        "rounds": table.rounds,
        "seeds": list(table.seeds),
        "finished": not summary.unfinished,
        "unfinished": summary.unfinished,
        "headline": text.headline(summary),
        "differences": text.differences(summary),
        "reference": table.reference,
        "entries": [_entry_as_json(summary, entry) for entry in summary.entries],
        "tuned": [_tuned_as_json(tuned) for tuned in summary.tuned],
    }


def _tuned_as_json(tuned: TunedRate) -> dict[str, Any]:
    scores = {}
    for rate, score in tuned.scores.items():
        scores[f"{rate:g}"] = _finite(score)
    return {
        "row": tuned.row.name,
        "column": tuned.column,
        "rounds": tuned.rounds,
        "learning_rate": tuned.rate,
        "scores": scores,
    }


def _entry_as_json(summary: Summary, entry: Entry) -> dict[str, Any]:
    versus = None
    if entry.versus is not None:
        versus = _versus_as_json(entry.versus)

    by_seed = {}
    for seed, value in entry.by_seed.items():
        by_seed[str(seed)] = _finite(value)
    by_client = {}
    for client, value in entry.by_client.items():
        by_client[client] = _finite(value)
    return {
        "row": entry.row.name,
        "title": entry.title,
        "method": entry.row.method,
        "column": entry.column,
        "rate_kind": entry.rate_kind,
        "learning_rate": entry.rate,
        "rounds": entry.rounds,
        "mean": _finite(entry.mean),
        "sd": entry.sd(summary.table.spread),
        "by_seed": by_seed,
        "by_client": by_client,
        "clients_of_seed": entry.clients_of_seed,
        "clients_worse_than_mean": entry.worse_than_mean,
        "other_metrics": _other_metrics_as_json(summary, entry),
        "alone": None if entry.alone is None else _finite(entry.alone),
        "worth": _worth_as_json(entry),
        "versus_reference": versus,
        "on_own_distribution": entry.on_own_distribution,
        "effective_collaborators": entry.effective_collaborators,
        "bytes_moved": entry.bytes_moved[-1],
        "processor_seconds": entry.processor_seconds[-1],
        "wall_seconds": entry.wall_seconds,
        "finished": entry.finished,
        "stored_as_mean": entry.stored_as_mean,
    }


def _other_metrics_as_json(summary: Summary, entry: Entry) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for metric in METRICS[summary.task][1:]:
        value = entry.other_figure(metric)
        if value is not None:
            found[metric.recorded_as] = _finite(value)
    return found


def _worth_as_json(entry: Entry) -> dict[str, dict[str, float | None]]:
    """What each client is alone, together and as used; empty without private models."""
    found: dict[str, dict[str, float | None]] = {}
    for worth in entry.worth:
        found[worth.client] = {
            "alone": _finite(worth.alone),
            "together": _finite(worth.together),
            "used": _finite(worth.used),
            "together_share": worth.together_share,
            "together_chance": worth.together_chance,
            "gain": _finite(worth.gain),
        }
    return found


def _versus_as_json(versus: Difference) -> dict[str, Any]:
    clients = None
    if versus.clients is not None:
        clients = {
            "better": versus.clients.better,
            "not_worse": versus.clients.not_worse,
            "clearly_worse": versus.clients.clearly_worse,
            "worst": _finite(versus.clients.worst),
            "spread": versus.clients.spread,
        }
    return {
        "difference": _finite(versus.mean),
        "better": versus.better,
        "runs": versus.runs,
        "interval": versus.interval,
        "p_value": versus.p_value,
        "clients": clients,
    }


def _finite(value: float) -> float | None:
    """The value for JSON, which has no infinity."""
    if not math.isfinite(value):
        return None
    return value
