"""Run directories made by hand, with records, seconds and results as a real run leaves them."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from federico.runs.cell_result import cell_result
from federico.runs.layout import CellDir, Description
from federico.runs.records import Journal, Record
from federico.runs.results import append_result
from federico.runs.table import write_table
from federico.stopwatch import Spent
from tests.support.results import TITLES, make_table

ABOUT: dict[str, Any] = {
    "method": "federico",
    "seed": 0,
    "task": "classification",
    "clients": ["a", "b", "c"],
    "distribution": [0, 0, 1],
    "train_samples": [6, 3, 1],
    "test_samples": [2, 3, 5],
    "label_names": ["no", "yes"],
    "label_counts": [[6, 0], [3, 0], [0, 1]],
    "model_parameters": 10,
    "model_bytes": 40,
    "data_hash": "d0",
    "partition_hash": "p0",
    "options": {
        "data": {"kind": "made up"},
        "training": {"optimizer": {"kind": "sgd"}, "drop": None},
        "dtype": "float32",
    },
    "versions": {"federico": "0.1.0"},
    "command": "federico run made-up.toml",
    "rate": 0.01,
    "settings": "s0",
}
QUIET_ROUND: dict[str, Any] = {
    "figures": None,
    "neighbors": [],
    "posterior": [],
    "sent": [0, 0, 0],
    "received": [0, 0, 0],
    "moved": 0,
    "evaluation_sent": [0, 0, 0],
    "evaluation_received": [0, 0, 0],
    "evaluation_moved": 0,
}
POSTERIORS = [
    [{"a": 1.0}, {"b": 1.0}, {"c": 1.0}],
    [{"a": 0.6, "b": 0.4}, {"a": 0.3, "b": 0.7}, {"c": 0.9, "a": 0.1}],
]


def write_cell(
    run: Path, row: str = "federico", *rounds: dict[str, Any], finished: bool = True, **changes: Any
) -> CellDir:
    """One cell of a run: rounds as given, of one second each; a finished one has its result."""
    names = {"row": row, "title": TITLES.get(row, row), "method": row}
    about = Description(**(ABOUT | names | changes))
    cell = CellDir(run / f"{row}-{about.seed}{about.column}")
    cell.path.mkdir(parents=True)
    (cell.path / "cell.json").write_text(json.dumps(asdict(about)))

    journal = Journal(cell.path)
    journal.records.touch()
    for number, given in enumerate(rounds, start=1):
        values = QUIET_ROUND | {"round": number} | given
        if values["figures"] is not None:
            values["figures"].setdefault("loss", [1.0] * len(about.clients))
        journal.append(Record(**values))
        journal.append_spent(
            number,
            Spent(
                {"train": 0.75, "evaluate": 0.25},
                {"train": 1.5, "evaluate": 0.5},
                {"train": about.train_samples, "evaluate": about.test_samples},
            ),
        )
    if finished:
        cell.finish(len(rounds))
        append_result(run, cell_result(cell))
    return cell


def learning(*accuracy: float) -> list[dict[str, Any]]:
    """Rounds in which all clients have this accuracy, the first of them alone."""
    return [
        {"figures": {"accuracy": [value] * 3}, "posterior": POSTERIORS[min(number, 1)], "moved": 50}
        for number, value in enumerate(accuracy)
    ]


EVIL = "<img src=x onerror=document.title='broken'>"
"""A name that would break a page that does not take it for text."""


def evil_learning(*accuracy: float) -> list[dict[str, Any]]:
    """Rounds in which the second client has an evil name."""
    rounds = learning(*accuracy)
    for values in rounds:
        renamed = []
        for row in values["posterior"]:
            renamed.append({EVIL if owner == "b" else owner: row[owner] for owner in row})
        values["posterior"] = renamed
    return rounds


def going_on(run: Path, accuracy: float, seeds: Sequence[int] = (0,)) -> None:
    """A run at round 2 of 9 that compares with training alone, with names that hold HTML."""
    run.mkdir(parents=True)
    table = make_table("federico", rounds=9, title=EVIL, seeds=tuple(seeds))
    write_table(run, table)
    for seed in seeds:
        rounds = evil_learning(0.5, accuracy + 0.01 * seed)
        rounds[-1] |= {
            "alone": {"accuracy": [0.5, 0.6, 0.95], "loss": [1.0] * 3},
            "together": {"accuracy": [0.9] * 3, "loss": [1.0] * 3},
            "together_share": [0.9] * 3,
            "gains": [{"a": 4.2, EVIL: 3.1}, {EVIL: 2.0, "a": -0.4}, {"c": 1.5, "a": None}],
            "sent": [300, 200, 100],
            "received": [100, 200, 300],
            "evaluation_sent": [30, 20, 10],
            "evaluation_received": [10, 20, 30],
            "evaluation_moved": 60,
        }
        options = {"data": {"kind": "made up"}, "momentum": accuracy}
        options["federico"] = {"evidence": "held_out"}
        write_cell(
            run,
            "federico",
            *rounds,
            finished=False,
            clients=["a", EVIL, "c"],
            options=options,
            seed=seed,
        )


def next_round(run: Path, number: int) -> None:
    """A round as a running experiment writes it."""
    values = QUIET_ROUND | evil_learning(0.5, 0.9)[1] | {"round": number}
    values["figures"]["loss"] = [1.0] * 3
    Journal(run / "federico-0").append(Record(**values))
