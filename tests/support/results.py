"""Results made by hand: three clients of 8, 6 and 6 samples; the first two share a distribution."""

from collections.abc import Sequence
from typing import Any

from federico.report.aggregate import aggregate
from federico.report.entry import Entry
from federico.report.table_summary import Summary
from federico.runs.results import CellResult, Provenance, StoredAggregate
from federico.runs.table import ShownRate, StoredStudy, TableDescription, TableRow

SOURCE = Provenance(
    command="federico run made-up.toml",
    commit="abc1234",
    machine="x86_64, 2 cores",
    versions={"federico": "0.1.0", "torch": "2.13.0"},
    finished="2026-01-01T00:00:00Z",
)
TITLES = {"federico": "FedeRiCo", "local": "Local", "fedavg": "FedAvg"}


def make_row(name: str, method: str = "", panel: str = "") -> TableRow:
    return TableRow(name=name, title=TITLES.get(name, name), method=method or name, panel=panel)


def make_table(*rows: str, **changes: Any) -> TableDescription:
    """A table of these rows, compared with Local if that is one of them."""
    names = rows or ("federico", "local")
    settings: dict[str, Any] = {
        "name": "made-up",
        "title": "Made up",
        "rows": tuple(make_row(name) for name in names),
        "reference": "local" if "local" in names else None,
        "rounds": 1,
        "seeds": (0,),
    }
    return TableDescription(**(settings | changes))


def make_cell(
    row: str = "federico", *accuracy: float | Sequence[float], **changes: Any
) -> CellResult:
    """A finished cell; `accuracy` by round, one for all clients or one for each."""
    by_round = [
        [value] * 3 if isinstance(value, int | float) else list(value) for value in accuracy
    ]
    rounds = len(by_round)
    settings: dict[str, Any] = {
        "settings": "s0",
        "row": row,
        "method": row,
        "title": TITLES.get(row, row),
        "column": "",
        "rate": 0.01,
        "rate_kind": "given",
        "seed": 0,
        "rounds": rounds,
        "task": "classification",
        "clients": ["a", "b", "c"],
        "distribution": [0, 0, 1],
        "train_samples": [6, 3, 1],
        "test_samples": [2, 3, 5],
        "model_parameters": 10,
        "evaluated": list(range(1, rounds + 1)),
        "figures": {"accuracy": by_round, "loss": [[1.0] * 3] * rounds},
        "bytes_by_round": [100] * rounds,
        "evaluation_bytes_by_round": [7] * rounds,
        "wall_seconds": {"train": 1.0, "evaluate": 0.5},
        "processor_seconds_by_round": [2.0] * rounds,
        "on_own_distribution": None,
        "effective_collaborators": None,
        "provenance": SOURCE,
    }
    return CellResult(**(settings | changes))


def make_aggregate(row: str = "federico", **changes: Any) -> StoredAggregate:
    """Two seeds of two rounds, stored as means."""
    settings: dict[str, Any] = {
        "settings": "old",
        "row": row,
        "method": row,
        "title": TITLES.get(row, row),
        "column": "",
        "rate": 0.01,
        "rate_kind": "given",
        "rounds": 2,
        "by_seed": {0: 0.6, 1: 0.8},
        "by_client": {"a": 0.5, "b": 0.7, "c": 0.9},
        "curve_rounds": [1, 2],
        "curve_mean": [0.5, 0.7],
        "curve_sd": [0.2, 0.141421],
        "bytes_moved": [100.0, 200.0],
        "processor_seconds": [1.0, 2.0],
        "on_own_distribution": 0.9,
        "effective_collaborators": 2.5,
        "provenance": [SOURCE],
    }
    return StoredAggregate(**(settings | changes))


STORED = StoredStudy(task="classification", clients=3, model_parameters=10, commands=())


def entry_of(
    summary: Summary, row: str = "federico", column: str = "", rate_kind: ShownRate = "given"
) -> Entry:
    """An entry that must be there."""
    found = summary.entry(row, column, rate_kind)
    assert found is not None
    return found


def two_columns() -> Summary:
    """FedeRiCo, Local and FedAvg on two seeds, in two columns, at given and best rates."""
    figures = {"federico": (0.9, 0.8), "local": (0.7, 0.7), "fedavg": (0.5, 0.6)}
    cells = []
    for rate_kind, rate, bonus in (("given", 0.01, 0.0), ("best", 0.1, 0.05)):
        for column, by_place in (("two", 0), ("four", 1)):
            for row, values in figures.items():
                for seed in (0, 1):
                    accuracy = values[by_place] + bonus + 0.02 * seed
                    cells.append(
                        make_cell(
                            row, accuracy, column=column, rate_kind=rate_kind, rate=rate, seed=seed
                        )
                    )
    for column in ("two", "four"):
        for row in figures:
            for rate, score in ((0.01, 0.4), (0.1, 0.5)):
                cells.append(
                    make_cell(
                        row, score, column=column, rate_kind="tuning", rate=rate, settings="tuning"
                    )
                )
    table = make_table(
        *figures,
        columns=("two", "four"),
        rates=("given", "best"),
        seeds=(0, 1),
        paper={
            "where": "Table 0",
            "rounds": 150,
            "runs": 3,
            "finding": "Together is better.",
            "values": {"federico": {"two": (56.61, 2.51)}, "local": {"two": (40.09, 2.84)}},
        },
    )
    return aggregate(table, cells)
