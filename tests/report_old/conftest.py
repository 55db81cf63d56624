import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from federico.experiment.config import validate
from federico.experiment.runner import simulate
from federico.runs.layout import Description
from federico.runs.records import Record
from federico.stopwatch import Spent

DESCRIPTION = Description(
    method="federico",
    seed=0,
    task="classification",
    clients=["a", "b", "c"],
    distribution=[0, 0, 1],
    train_samples=[6, 3, 1],
    test_samples=[2, 3, 5],
    label_names=["no", "yes"],
    label_counts=[[6, 0], [3, 0], [0, 1]],
    model_parameters=10,
    model_bytes=40,
    data_hash="d0",
    partition_hash="p0",
    options={
        "data": {"kind": "made up"},
        "training": {"optimizer": {"kind": "sgd"}, "drop": None},
        "dtype": "float32",
    },
    versions={"federico": "0.1.0"},
    command="federico run made-up.toml",
)
EMPTY: dict[str, Any] = {
    "accuracy": None, "loss": None, "neighbors": [], "posterior": [], "sent": [0, 0, 0],
    "received": [0, 0, 0], "moved": 0,
    "evaluation_sent": [0, 0, 0], "evaluation_received": [0, 0, 0], "evaluation_moved": 0,
}  # fmt: skip


@pytest.fixture
def description() -> Description:
    """Three clients of 8, 6 and 6 samples; the first two share a distribution."""
    return DESCRIPTION


@pytest.fixture
def write_cell(tmp_path: Path) -> Callable[..., None]:
    """Writes one cell of the run `tmp_path`: rounds as given, of one second each, finished or not."""

    def write(*rounds: dict[str, Any], finished: bool = True, **changes: Any) -> None:
        records = [
            Record(**(EMPTY | {"round": place} | given))
            for place, given in enumerate(rounds, start=1)
        ]
        description = asdict(DESCRIPTION) | changes
        folder = tmp_path / f"{description['method']}-{description['seed']}"
        folder.mkdir()
        (folder / "cell.json").write_text(json.dumps(description))
        (folder / "records.jsonl").write_text(
            "".join(json.dumps(asdict(line)) + "\n" for line in records)
        )
        spent = asdict(Spent({"m_step": 0.75, "evaluate": 0.25}, {"m_step": 1.5, "evaluate": 0.5}))
        (folder / "timings.jsonl").write_text(
            "".join(json.dumps({"round": line.round} | spent) + "\n" for line in records)
        )
        if finished:
            (folder / "done.json").write_text(json.dumps({"rounds": len(records)}))

    return write


class _Silent:
    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *values: None


@pytest.fixture(scope="session")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the real thing: FedeRiCo, Local and FedAvg, two seeds, three rounds."""
    raw = {
        "name": "tiny",
        "methods": ["federico", "local", "fedavg"],
        "seeds": [0, 1],
        "rounds": 3,
        "data": {"kind": "digits"},
        "partition": {"kind": "label-groups", "clients": 4, "groups": 2},
        "split": {"samples": 200},
        "model": {"kind": "linear"},
        "federico": {"neighbors": 2},
        "system": {"threads": 1},
    }
    observer: Any = _Silent()
    return simulate(
        validate(raw), tmp_path_factory.mktemp("runs"), observer, command="federico run tiny.toml"
    ).path
