"""What is tracked beside the records: every round once, however often a run is killed."""

import json
import os
import signal
import sqlite3
import struct
import subprocess
import sys
from contextlib import closing
from contextvars import ContextVar
from pathlib import Path
from types import ModuleType
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


class Standin(ModuleType):
    """A module with wandb's interface that writes down its calls; or trackio's, without `id`.

    Like trackio it ends a current run where another is opened, and at the end of the process.
    """

    def __init__(self, *, has_ids: bool) -> None:
        super().__init__("like_wandb")
        self.started: list[dict[str, Any]] = []
        self.logged: list[tuple[int, dict[str, float]]] = []
        self.kept: list[str] = []
        self.finished = 0
        self.broken_rounds: set[int] = set()
        self.current: ContextVar[Standin | None] = ContextVar("current", default=None)
        self.init = self.init_with_ids if has_ids else self.init_by_name

    def init_with_ids(self, id: str, dir: str, reinit: str, **about: Any) -> Any:
        self.started.append({"id": id, "dir": dir, **about})
        return self

    def init_by_name(self, **about: Any) -> Any:
        sys.stdout.write("* a project is initialized\n")  # trackio does
        self.started.append(about)
        self.end_current()
        self.current.set(self)
        return self

    def end_current(self) -> None:
        if self.current.get() is not None:
            self.finish()

    def log(self, figures: dict[str, float], step: int, **_: Any) -> None:
        if step in self.broken_rounds:
            self.broken_rounds.remove(step)
            raise OSError("the server is away")
        self.logged.append((step, figures))

    def log_artifact(self, path: str, **_: Any) -> None:
        self.kept.append(Path(path).name)

    def finish(self) -> None:
        self.finished += 1

    @property
    def rounds(self) -> list[int]:
        return [step for step, _ in self.logged]


@pytest.fixture
def standin(monkeypatch: pytest.MonkeyPatch) -> Standin:
    module = Standin(has_ids=True)
    monkeypatch.setitem(sys.modules, "like_wandb", module)
    return module


TO_STANDIN: dict[str, Any] = {"to": ["wandb"], "module": "like_wandb"}


def test_wandb_interface_gets_every_round_once(tmp_path: Path, standin: Standin) -> None:
    tracked = run_killed_and_resumed(tmp_path / "tracked", {**TO_STANDIN, "clients": 2})

    assert standin.rounds == ROUNDS
    figures = standin.logged[-1][1]
    assert {name.split("/")[1] for name in figures if name.startswith("clients/")} == {"0", "1"}
    first, second = standin.started
    assert first["name"] == "local-0"
    assert first["config"]["partition.clients"] == 4
    assert first["id"] == second["id"], "the log of before is opened again"
    assert set(standin.kept) == {"records.jsonl", "config.toml"}
    assert standin.finished == 2, "a log is closed wherever a run ends"

    plain = federico.run(**SETTINGS, directory=tmp_path / "plain")
    assert tracked.records("local") == plain.records("local"), "tracking changes no number"


def test_means_are_those_of_honest_clients(tmp_path: Path, standin: Standin) -> None:
    settings = {**SETTINGS, "methods": ["federico"], "split": {"samples": 300}}
    attack = {"kind": "noise", "members": ["2"]}
    run = federico.run(**settings, attack=attack, directory=tmp_path, track=TO_STANDIN)
    by_client = run.frame()
    last = by_client[by_client["round"] == ROUNDS[-1]]
    honest = last[last["client"] != "2"]["accuracy"].mean()
    assert honest != pytest.approx(last["accuracy"].mean(), abs=1e-4), "it would show"
    assert standin.logged[-1][1]["accuracy"] == pytest.approx(honest, abs=0.01)
    assert standin.logged[-1][1]["accuracy"] == run.summary()["accuracy"].item()


KILLED = """
import os, signal, sys
import federico

class Kill(federico.Callback):
    def round_done(self, cell, record):
        if record.round == 3:
            os.kill(os.getpid(), signal.SIGKILL)

callbacks = [Kill()] if sys.argv[1] == "killed" else []
federico.run(
    name="tracked", rounds=4, methods=["local"], split={"samples": 200},
    partition={"kind": "iid", "clients": 4}, system={"checkpoint_every": 2, "threads": 1},
    directory="runs", track={"to": ["wandb"]}, callbacks=callbacks,
)
"""


def test_after_sigkill_the_real_wandb_has_every_round_once_in_one_run(tmp_path: Path) -> None:
    for how, code in (("killed", -signal.SIGKILL), ("whole", 0)):
        done = subprocess.run([sys.executable, "-c", KILLED, how], cwd=tmp_path, check=False)
        assert done.returncode == code

    note = json.loads((tmp_path / "runs/tracked/local-0/tracked-wandb.json").read_text())
    logs = tmp_path / "runs/tracked/tracking/wandb/wandb"
    (of_run,) = logs.glob(f"offline-run-*/run-{note['identity']}.wandb")
    assert rounds_in(of_run) == ROUNDS
    (of_killed,) = set(logs.glob("offline-run-*/run-*.wandb")) - {of_run}
    assert of_killed.name != of_run.name


def test_after_sigkill_the_real_trackio_has_every_round_once_in_one_run(tmp_path: Path) -> None:
    pytest.importorskip("trackio", reason="pip install trackio")
    program = KILLED.replace('"to": ["wandb"]', '"to": ["wandb"], "module": "trackio"')
    where = {**os.environ, "TRACKIO_DIR": str(tmp_path / "trackio"), "HF_HUB_OFFLINE": "1"}
    for how, code in (("killed", -signal.SIGKILL), ("whole", 0)):
        command = [sys.executable, "-c", program, how]
        done = subprocess.run(command, cwd=tmp_path, env=where, capture_output=True, check=False)
        assert done.returncode == code
        assert done.stdout == b"", "standard output is for results"

    note = json.loads((tmp_path / "runs/tracked/local-0/tracked-wandb.json").read_text())
    with closing(sqlite3.connect(tmp_path / "trackio" / "tracked.db")) as stored:
        name = f"local-0-{note['identity']}"
        asked = "select step from metrics where run_name = ? order by id"
        assert [step for (step,) in stored.execute(asked, [name])] == ROUNDS


def rounds_in(file: Path) -> list[int]:
    """The steps in an offline file of wandb."""
    from wandb.proto.wandb_internal_pb2 import Record as WandbRecord

    steps = []
    for data in records_in_log(file.read_bytes()):
        record = WandbRecord()
        record.ParseFromString(data)
        for item in record.history.item:
            if "_step" in (item.key, *item.nested_key):
                steps.append(int(item.value_json))
    return steps


def records_in_log(content: bytes) -> list[bytes]:
    """The records of a log as LevelDB writes it, which is what wandb writes.

    Blocks of 32 KB; in each, pieces with a header of 7 bytes: checksum, length, and kind, which is
    whole, first, middle or last. wandb's own 7 bytes stand before all of it.
    """
    block, header, whole, first, last = 2**15, 7, 1, 2, 4
    records, pieces = [], b""
    place = header
    while place + header <= len(content):
        left_in_block = block - place % block
        if left_in_block < header:
            place += left_in_block
            continue
        _, length, kind = struct.unpack_from("<IHB", content, place)
        start = place + header
        pieces = b"" if kind in (whole, first) else pieces
        pieces += content[start : start + length]
        if kind in (whole, last):
            records.append(pieces)
        place = start + length
    return records


def test_where_runs_are_found_by_name_each_has_a_name_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = Standin(has_ids=False)
    monkeypatch.setitem(sys.modules, "like_wandb", module)
    run_killed_and_resumed(tmp_path, TO_STANDIN)
    assert "initialized" not in capsys.readouterr().out, "there may be JSON"
    federico.run(**SETTINGS, directory=tmp_path, track=TO_STANDIN, overwrite=True)
    killed, resumed, another = [about["name"] for about in module.started]
    assert killed == resumed
    assert another != resumed

    module.end_current()
    assert module.finished == len(module.started), "nobody else ends what is ended"


def test_rounds_from_before_tracking_was_asked_for_are_written_too(
    tmp_path: Path, standin: Standin
) -> None:
    with pytest.raises(StopError):
        federico.run(**SETTINGS, directory=tmp_path, callbacks=[StopAfter(3)])
    federico.run(**SETTINGS, directory=tmp_path, track=TO_STANDIN)
    assert standin.rounds == ROUNDS


class Listener(Callback):
    def __init__(self) -> None:
        self.heard: list[str] = []

    def say(self, message: str) -> None:
        self.heard.append(message)


def test_a_tracker_that_fails_does_not_end_the_training(tmp_path: Path, standin: Standin) -> None:
    standin.broken_rounds = {2}
    listener = Listener()
    federico.run(**SETTINGS, directory=tmp_path, track=TO_STANDIN, observer=listener)
    assert standin.rounds == ROUNDS, "what was missed is written with the next round"
    complaints = [message for message in listener.heard if "the server is away" in message]
    assert len(complaints) == 1


def tracked_rounds(run: federico.Run, tracker: str) -> list[int]:
    """The rounds for which the tracker has an accuracy."""
    folder = run.path.absolute() / "tracking" / tracker
    if tracker == "tensorboard":
        accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
        events = accumulator.EventAccumulator(str(folder / "local-0"))
        events.Reload()
        return [point.step for point in events.Scalars("accuracy")]
    mlflow = pytest.importorskip("mlflow")
    client = mlflow.MlflowClient(tracking_uri=folder.as_uri())
    experiment = client.get_experiment_by_name("tracked")
    (found,) = client.search_runs([experiment.experiment_id])
    return [point.step for point in client.get_metric_history(found.info.run_id, "accuracy")]


def test_tensorboard_has_every_round_once(tmp_path: Path) -> None:
    run = run_killed_and_resumed(tmp_path, {"to": ["tensorboard"]})
    assert tracked_rounds(run, "tensorboard") == ROUNDS


def test_mlflow_has_every_round_once_the_settings_and_the_models(tmp_path: Path) -> None:
    mlflow = pytest.importorskip("mlflow")
    run = run_killed_and_resumed(tmp_path, {"to": ["mlflow"], "models": True})
    folder = (run.path / "tracking" / "mlflow").absolute()
    client = mlflow.MlflowClient(tracking_uri=folder.as_uri())
    experiment = client.get_experiment_by_name("tracked")
    (tracked,) = client.search_runs([experiment.experiment_id])
    for metric in ("accuracy", "clients/3/accuracy"):
        history = client.get_metric_history(tracked.info.run_id, metric)
        assert [point.step for point in history] == ROUNDS
    assert tracked.data.params["method"] == "local"
    assert tracked.info.status == "FINISHED"
    kept = {file.path for file in client.list_artifacts(tracked.info.run_id)}
    assert kept == {"records.jsonl", "config.toml", "clients"}


@pytest.mark.parametrize("tracker", ["tensorboard", "mlflow"])
def test_a_round_that_was_written_but_not_noted_is_there_once(tmp_path: Path, tracker: str) -> None:
    """What a process leaves that is killed right after it has written a round."""
    track = {"to": [tracker]}
    with pytest.raises(StopError):
        federico.run(**SETTINGS, directory=tmp_path, track=track, callbacks=[StopAfter(3)])
    note = tmp_path / "tracked" / "local-0" / f"tracked-{tracker}.json"
    content = json.loads(note.read_text())
    note.write_text(json.dumps({**content, "round": content["round"] - 1}))

    run = federico.run(**SETTINGS, directory=tmp_path, track=track)
    assert tracked_rounds(run, tracker) == ROUNDS


def test_a_missing_module_is_answered_with_the_line_that_installs_it(tmp_path: Path) -> None:
    track = {"to": ["wandb"], "module": "not_there"}
    with pytest.raises(MissingDependencyError, match="pip install not_there"):
        federico.run(**SETTINGS, directory=tmp_path, track=track)
    assert not list(tmp_path.iterdir())
