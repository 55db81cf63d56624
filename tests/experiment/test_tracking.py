"""What is tracked beside the records: every round once, however often a run is killed."""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import federico
from federico.errors import MissingDependencyError
from federico.experiment.observer import Callback
from federico.runs.layout import CellDir
from federico.runs.records import Record

ROUNDS = [1, 2, 3, 4]
SETTINGS: dict[str, Any] = {
    "name": "tracked",
    "rounds": 4,
    "methods": ["local"],
    "split": {"samples": 200},
    "partition": {"kind": "iid", "clients": 4},
    "system": {"checkpoint_every": 2},
}


class StopError(Exception):
    """Ends a run in the middle, like a kill."""


class StopAfter(Callback):
    def __init__(self, rounds: int) -> None:
        self.rounds = rounds

    def round_done(self, cell: CellDir, record: Record) -> None:
        if record.round == self.rounds:
            raise StopError


def run_killed_and_resumed(folder: Path, track: dict[str, Any]) -> federico.Run:
    """Killed after round 3; resumes from the checkpoint of round 2, so round 3 is played twice."""
    settings = {**SETTINGS, "directory": folder, "track": track}
    try:
        federico.run(**settings, callbacks=[StopAfter(3)])
    except StopError:
        return federico.run(**settings)
    raise AssertionError("the callback stops the run")


def standin(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """A module with wandb's interface that writes down its calls."""
    calls: list[tuple[str, Any]] = []

    def init(**about: Any) -> Any:
        calls.append(("init", about))
        return SimpleNamespace(
            log=lambda figures, step: calls.append(("log", (step, figures))),
            finish=lambda: calls.append(("finish", None)),
        )

    module = ModuleType("like_wandb")
    module.init = init  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "like_wandb", module)
    return calls


def test_wandb_interface_gets_every_round_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = standin(monkeypatch)
    track = {"to": ["wandb"], "module": "like_wandb", "clients": 2}
    run_killed_and_resumed(tmp_path, track)

    logged = [value for verb, value in calls if verb == "log"]
    assert [step for step, _ in logged] == ROUNDS
    figures = logged[-1][1]
    assert "accuracy" in figures
    assert {name.split("/")[1] for name in figures if name.startswith("clients/")} == {"0", "1"}
    started = [value for verb, value in calls if verb == "init"]
    assert [about["name"] for about in started] == ["local-0", "local-0"]
    assert calls[-1] == ("finish", None)


def test_tensorboard_has_every_round_once(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    run = run_killed_and_resumed(tmp_path, {"to": ["tensorboard"]})
    events = accumulator.EventAccumulator(str(run.path / "tracking/tensorboard/local-0"))
    events.Reload()
    assert [point.step for point in events.Scalars("accuracy")] == ROUNDS


def test_mlflow_has_every_round_once_and_the_records(tmp_path: Path) -> None:
    mlflow = pytest.importorskip("mlflow")
    run = run_killed_and_resumed(tmp_path, {"to": ["mlflow"], "models": True})
    folder = (run.path / "tracking" / "mlflow").absolute()
    client = mlflow.MlflowClient(tracking_uri=folder.as_uri())
    experiment = client.get_experiment_by_name("federico")
    (tracked,) = client.search_runs([experiment.experiment_id])
    history = client.get_metric_history(tracked.info.run_id, "accuracy")
    assert [point.step for point in history] == ROUNDS
    kept = {file.path for file in client.list_artifacts(tracked.info.run_id)}
    assert {"records.jsonl", "config.toml", "models.safetensors"} <= kept


def test_tracking_changes_no_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    standin(monkeypatch)
    track = {"to": ["wandb"], "module": "like_wandb"}
    tracked = run_killed_and_resumed(tmp_path / "tracked", track)
    plain = federico.run(**SETTINGS, directory=tmp_path / "plain")
    assert tracked.records("local") == plain.records("local")


def test_a_missing_module_is_answered_with_the_line_that_installs_it(tmp_path: Path) -> None:
    track = {"to": ["wandb"], "module": "not_there"}
    with pytest.raises(MissingDependencyError, match="pip install not_there"):
        federico.run(**SETTINGS, directory=tmp_path, track=track)
    assert not list(tmp_path.iterdir())
