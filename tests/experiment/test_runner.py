import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from federico.data.dataset import Dataset
from federico.data.from_python import dataset_from_clients
from federico.errors import ConfigError, RunError
from federico.experiment import machine_memory
from federico.experiment.build import prepare
from federico.experiment.config import Experiment, load
from federico.experiment.memory_plan import plan_simulation
from federico.experiment.runner import simulate
from federico.learning import rows
from federico.methods import METHODS
from federico.runs import checkpoint
from federico.runs.layout import CellDir, RunDir

Play = Callable[..., tuple[RunDir, Any]]


def content(run: RunDir) -> dict[str, bytes]:
    """Every file of a run but those that tell the time; of a checkpoint, its tensors."""
    files = [
        path for path in sorted(run.path.rglob("*")) if path.is_file() and path.suffix != ".damaged"
    ]
    found = {
        str(path.relative_to(run.path)): path.read_bytes()
        for path in files
        if path.name not in {"timings.jsonl", "results.jsonl", ".lock"}
        and path.parent.name != "checkpoint"
    }
    for path in files:
        if path.parent.name == "checkpoint":
            tensors = load_file(path)
            place = path.relative_to(run.path).parent / path.name[:12]
            found |= {
                f"{place}/{name}": tensor.numpy().tobytes() for name, tensor in tensors.items()
            }
    return found


def test_run_directory_holds_all_that_is_promised(finished: RunDir) -> None:
    cell = finished.cell("federico", 0)
    assert {path.name for path in cell.path.iterdir()} == {
        ".lock", "cell.json", "partition.npz", "records.jsonl", "timings.jsonl",
        "checkpoint", "clients", "done.json",
    }  # fmt: skip
    assert {path.name for path in finished.path.iterdir() if path.is_file()} == {
        ".lock", "config.toml", "table.json", "results.jsonl",
    }  # fmt: skip
    assert not list(finished.path.rglob("*.partial"))
    assert load(finished.path / "config.toml").methods == ("federico", "fedavg")


def test_cell_says_what_it_is(finished: RunDir) -> None:
    about = finished.cell("federico", 0).description
    assert (about.method, about.seed, about.task) == ("federico", 0, "classification")
    assert sum(about.train_samples) + sum(about.test_samples) == 240
    assert [sum(counts) for counts in about.label_counts] == about.train_samples
    assert about.model_bytes == 4 * about.model_parameters == 4 * 610
    assert about.versions.keys() == {"federico", "torch", "numpy", "python"}
    assert "fedavg_plus" not in about.options, "options of other methods may change"


def test_local_training_comes_first_in_every_seed(play: Play) -> None:
    run, told = play(methods=["federico", "fedavg", "local"], seeds=[3, 1], rounds=1)
    assert told.order == [(m, s) for s in (3, 1) for m in ("local", "federico", "fedavg")]
    assert told.finished == [f"{m}-{s}" for m, s in told.order]
    assert len(run.cells()) == 6


def test_finished_cells_are_left_alone(play: Play) -> None:
    run, _ = play()
    before = content(run)
    again, told = play()
    assert content(again) == before
    assert told.rounds == []
    assert told.finished == [], "it is not even opened"


def test_more_rounds_go_on_from_the_last(play: Play, tmp_path: Path) -> None:
    whole, _ = play(tmp_path / "whole", rounds=5, methods=["federico", "fedavg_plus"])
    play(rounds=2, methods=["federico", "fedavg_plus"])
    longer, told = play(rounds=5, methods=["federico", "fedavg_plus"])
    assert told.rounds == [3, 4, 5] * 2
    assert told.rounds_before == [2, 2]
    assert content(longer) == content(whole)


def test_fewer_rounds_than_done_are_refused(play: Play) -> None:
    play(rounds=3)
    with pytest.raises(
        RunError, match="federico-0: already has 3 rounds, 2 were asked for; choose another name"
    ):
        play(rounds=2)


def test_fewer_rounds_than_played_are_refused_in_an_unfinished_run_too(play: Play) -> None:
    run, _ = play(rounds=3)
    (run.cell("federico", 0).path / "done.json").unlink()
    with pytest.raises(RunError, match="already has 3 rounds, 2 were asked for"):
        play(rounds=2)
    assert len(run.cell("federico", 0).records) == 3


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"federico": {"neighbors": 2, "epsilon": 0.9}}, r"federico\.epsilon was 0\.3, now 0\.9"),
        ({"model": {"kind": "linear"}}, r"model\.hidden was \[8\], now None"),
        ({"data": {"kind": "digits", "noise": 0.1}}, r"data\.noise was 0\.0, now 0\.1"),
        ({"split": {"samples": 250}}, r"split\.samples was 240, now 250"),
        ({"training": {"batch_size": 7}}, r"training\.batch_size was 50, now 7"),
        ({"system": {"dtype": "float64"}}, "dtype was 'float32', now 'float64'"),
    ],
)
def test_other_experiment_under_the_same_name_is_refused_and_nothing_changes(
    play: Play, changes: dict[str, Any], said: str
) -> None:
    run, _ = play(rounds=1)
    before = content(run)
    with pytest.raises(RunError, match=rf"holds another experiment \({said}\)"):
        play(rounds=1, **changes)
    assert content(run) == before


def test_what_changes_no_result_may_change(play: Play) -> None:
    play(rounds=1)
    _, told = play(
        rounds=1,
        system={"threads": 1, "evaluate_every": 3},
        fedavg_plus={"tune_epochs": 4},
        seeds=[0, 1],
    )
    assert told.rounds_before == [0], "the first seed is finished, the second begins"


def people(seed: int = 0) -> Dataset:
    rng = np.random.default_rng(seed)
    return dataset_from_clients(
        {name: (rng.normal(size=(10, 3)), np.arange(10) % 2) for name in "abc"}
    )


OWN: dict[str, Any] = {"data": {"kind": "python"}, "partition": {"kind": "natural"}, "split": {}}


def test_other_arrays_under_the_same_name_are_refused(play: Play) -> None:
    play(dataset=people(0), **OWN)
    with pytest.raises(RunError, match=r"holds another experiment \(the data is not what it was\)"):
        play(dataset=people(1), **OWN)


def test_other_module_under_the_same_name_is_refused(play: Play) -> None:
    own = OWN | {"model": {"kind": "python"}}
    play(rounds=1, dataset=people(), factory=lambda: nn.Linear(3, 2), **own)
    with pytest.raises(RunError, match=r"holds another experiment \(a model had 32 bytes, now 24"):
        play(rounds=2, dataset=people(), factory=lambda: nn.Linear(3, 2, bias=False), **own)


class Stop(BaseException):
    """Like Ctrl-C."""


@pytest.fixture
def endless_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine, no checkpoint comes by the passing of time."""
    monkeypatch.setattr(checkpoint, "PAUSE", float("inf"))


@pytest.mark.usefixtures("endless_pause")
@pytest.mark.parametrize("checkpoint_every", [None, 1, 2, 3])
@pytest.mark.parametrize("at", [1, 3, 4])
def test_stopped_run_ends_as_if_it_had_never_been(
    play: Play,
    tiny: Callable[..., Experiment],
    told: Any,
    tmp_path: Path,
    at: int,
    checkpoint_every: int | None,
) -> None:
    changes = {"rounds": 5, "system": {"threads": 1, "checkpoint_every": checkpoint_every}}

    def stop(cell: CellDir, record: Any) -> None:
        if record.round == at:
            raise Stop

    told.round_done = stop
    with pytest.raises(Stop):
        simulate(tiny(**changes), tmp_path, told)
    run, second = play(**changes)
    assert second.rounds_before == [
        at // checkpoint_every * checkpoint_every if checkpoint_every else 1
    ]
    whole, _ = play(tmp_path / "whole", **changes)
    assert content(run) == content(whole)


def test_checkpoints_are_as_rare_as_asked_for_and_there_at_the_end(play: Play) -> None:
    run, _ = play(rounds=5, system={"checkpoint_every": 2})
    names = sorted(path.name[:12] for path in (run.path / "federico-0" / "checkpoint").iterdir())
    assert names == ["round-000004", "round-000005"]


@pytest.mark.usefixtures("endless_pause")
def test_checkpoints_are_there_after_the_first_and_the_last_round_if_none_are_asked_for(
    play: Play,
) -> None:
    run, _ = play(rounds=5, system={"threads": 1})
    names = sorted(path.name[:12] for path in (run.path / "federico-0" / "checkpoint").iterdir())
    assert names == ["round-000001", "round-000005"]


def test_checkpoints_come_with_time_if_none_are_asked_for(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint.Writer, "rested", True)
    run, _ = play(rounds=5, system={"threads": 1})
    names = sorted(path.name[:12] for path in (run.path / "federico-0" / "checkpoint").iterdir())
    assert names == ["round-000004", "round-000005"]


def test_every_phase_of_a_round_has_its_seconds(play: Play) -> None:
    run, _ = play(
        rounds=3, methods=["federico"], system={"evaluate_every": 3, "checkpoint_every": 2}
    )
    always = {"sample", "pull", "e_step", "m_step", "push", "update", "record"}
    first, second, third = (set(spent.seconds) for spent in run.cell("federico", 0).spent)
    assert first == always
    assert second == always | {"checkpoint"}
    assert third == always | {"evaluate", "checkpoint"}


def test_how_many_samples_models_met_is_counted_for_each_client(play: Play) -> None:
    run, _ = play(
        rounds=2, methods=["local", "federico"], training={"local_epochs": 3}, system={"threads": 1}
    )
    alone = run.cell("local", 0)
    train, test = alone.description.train_samples, alone.description.test_samples
    for spent in alone.spent:
        assert spent.samples == {"m_step": [3 * count for count in train], "evaluate": test}
    _, second = run.cell("federico", 0).spent
    assert second.samples.keys() == {"e_step", "m_step", "update", "evaluate"}
    assert min(second.samples["m_step"]) >= 3 * min(train)


def test_evaluations_are_as_rare_as_asked_for_and_there_at_the_end(
    play: Play, tmp_path: Path
) -> None:
    run, _ = play(rounds=5, system={"evaluate_every": 2}, methods=["fedavg_plus"])
    records = run.cell("fedavg_plus", 0).records
    assert [record.figures is not None for record in records] == [False, True, False, True, True]
    always, _ = play(tmp_path / "always", rounds=5, methods=["fedavg_plus"])
    assert records[-1] == always.cell("fedavg_plus", 0).records[-1], (
        "looking does not change what is seen"
    )


def test_damaged_checkpoint_costs_a_round_and_is_said(play: Play, tmp_path: Path) -> None:
    run, _ = play(rounds=2)
    newest = max((run.path / "federico-0" / "checkpoint").iterdir())
    newest.write_bytes(newest.read_bytes()[:-1] + b"\x7f")
    longer, told = play(rounds=4)
    assert told.rounds == [2, 3, 4]
    assert len(told.said) == 1
    assert newest.name in told.said[0]
    whole, _ = play(tmp_path / "whole", rounds=4)
    assert content(longer) == content(whole)


def test_two_damaged_checkpoints_mean_starting_over(play: Play, tmp_path: Path) -> None:
    run, _ = play(rounds=2)
    for path in (run.path / "federico-0" / "checkpoint").iterdir():
        path.write_bytes(b"")
    longer, told = play(rounds=4)
    assert told.rounds == [1, 2, 3, 4]
    assert len(told.said) == 2
    whole, _ = play(tmp_path / "whole", rounds=4)
    assert content(longer) == content(whole)


def test_warnings_are_said_once_per_seed(play: Play) -> None:
    _, told = play(
        rounds=1, methods=["local", "fedavg"], split={"samples": 60, "test_fraction": 0.5}
    )
    assert len(told.said) == len(set(told.said)) > 0
    assert all("training samples for 10 classes" in message for message in told.said)


def test_second_run_is_refused_while_the_first_is_at_it(
    play: Play, tiny: Callable[..., Experiment], told: Any, tmp_path: Path
) -> None:
    refused: list[str] = []

    def second(*_: object) -> None:
        def attempt() -> None:
            try:
                play()
            except RunError as error:
                refused.append(str(error))

        other = threading.Thread(target=attempt)
        other.start()
        other.join()

    told.round_done = second
    simulate(tiny(rounds=1), tmp_path, told)
    assert len(refused) == 1
    assert "another process is running this experiment" in refused[0]


@pytest.mark.parametrize("method", METHODS)
def test_saved_state_does_not_move_with_the_next_round(
    tiny: Callable[..., Experiment], method: str
) -> None:
    """It is written in the background, while that round is played."""
    method_at_work = prepare(tiny(methods=[method]), 0).method(method)
    method_at_work.round(1)
    saved = method_at_work.state()
    before = {name: tensor.clone() for name, tensor in saved.items()}
    method_at_work.round(2)
    for name, tensor in before.items():
        torch.testing.assert_close(saved[name], tensor, rtol=0, atol=0, equal_nan=True)
    assert not torch.equal(method_at_work.state()["bank.rows"], saved["bank.rows"])


@pytest.fixture
def on_disk(monkeypatch: pytest.MonkeyPatch, tiny: Callable[..., Experiment]) -> dict[str, Any]:
    """Settings under which no model, update or moment fits into memory."""
    monkeypatch.setattr(machine_memory, "resident_bytes", lambda: 0)
    least = plan_simulation(prepare(tiny(methods=list(METHODS)), 0)).least
    return {"system": {"threads": 1, "checkpoint_every": 1, "memory": least + 1}}


def test_models_on_the_disk_give_the_same_bytes(
    play: Play, on_disk: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {"rounds": 3, "methods": list(METHODS)}
    usual, _ = play(tmp_path / "usual", **changes)
    places = []
    plain = rows.map_file
    monkeypatch.setattr(
        rows, "map_file", lambda place, *rest: places.append(place) or plain(place, *rest)
    )
    small, told = play(tmp_path / "small", **changes, **on_disk)
    assert set(places) == {small.path}
    assert len(told.said) == 1
    assert "of models and optimizers are kept on disk" in told.said[0]
    assert content(small) | {"config.toml": b""} == content(usual) | {"config.toml": b""}


def test_run_goes_on_with_its_models_on_the_disk(
    play: Play, on_disk: dict[str, Any], tmp_path: Path
) -> None:
    changes = {"methods": ["federico", "fedavg_plus"]}
    whole, _ = play(tmp_path / "whole", rounds=4, **changes)
    play(rounds=2, **changes)
    run, told = play(rounds=4, **changes, **on_disk)
    assert told.rounds == [3, 4] * 2
    assert content(run) | {"config.toml": b""} == content(whole) | {"config.toml": b""}


def test_what_cannot_fit_is_refused_before_anything_is_written(play: Play, tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"memory: it needs about .* there is 0\.01 GiB; use fewer clients"
    ):
        play(system={"threads": 1, "memory": "10MiB"})
    assert list(tmp_path.iterdir()) == []


class Fragile(nn.Module):
    """Gives NaN to whoever has a feature above 50."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.where((x[:, :1] > 50), torch.nan, self.linear(x))


@pytest.mark.parametrize("method", METHODS)
def test_client_whose_model_breaks_does_not_stop_the_others(play: Play, method: str) -> None:
    dataset = people()
    dataset.samples.x[:10, 0] = 1000  # client a
    factory = {"model": {"kind": "python"}, "factory": Fragile}
    all_send = {"privacy": {"least_samples": 1}}
    run, _ = play(rounds=3, dataset=dataset, methods=[method], **(OWN | factory | all_send))
    text = (run.path / f"{method}-0" / "records.jsonl").read_text()
    assert "NaN" not in text
    for record in run.cell(method, 0).records:
        assert record.figures is not None
        assert record.figures["loss"][0] is None
        assert all(value is not None and np.isfinite(value) for value in record.figures["loss"][1:])
        for weights in record.posterior[1:]:
            assert sum(weights.values()) == pytest.approx(1)


@pytest.mark.parametrize("method", [name for name in METHODS if name != "fedavg_plus"])
def test_client_whose_training_explodes_does_not_stop_the_others(play: Play, method: str) -> None:
    dataset = people()
    dataset.samples.x[:10] *= 1e300  # client a: beyond what float32 can hold
    sgd = {"optimizer": {"kind": "sgd", "learning_rate": 0.5, "momentum": 0.9}}
    run, _ = play(rounds=4, dataset=dataset, methods=[method], training=sgd, **OWN)
    for record in run.cell(method, 0).records:
        assert record.figures is not None
        assert record.figures["loss"][0] is None
        assert all(value is not None and value < 10 for value in record.figures["loss"][1:])
