from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from federico.data.from_python import dataset_from_clients
from federico.errors import ConfigError, DataError
from federico.experiment.build import device, prepare
from federico.experiment.config import Experiment, load
from federico.experiment.grid import Grid
from federico.methods import METHODS

Tiny = Callable[..., Experiment]


def test_everything_follows_from_experiment_and_seed(tiny: Tiny) -> None:
    first, again, other = prepare(tiny(), 0), prepare(tiny(), 0), prepare(tiny(), 1)
    assert first.shares.hash == again.shares.hash != other.shares.hash
    assert first.data_hash == again.data_hash != other.data_hash, (
        "the samples drawn depend on the seed"
    )
    assert len(first.clients) == 4
    assert first.layout.parameters == 64 * 8 + 8 + 8 * 10 + 10


def test_data_seed_can_stay_while_the_run_seed_changes(tiny: Tiny) -> None:
    experiment = tiny(split={"samples": 240, "seed": 5})
    zero, one = prepare(experiment, 0), prepare(experiment, 1)
    assert (zero.data_hash, zero.shares.hash) == (one.data_hash, one.shares.hash)
    assert zero.method("local").bank.rows.ne(one.method("local").bank.rows).any()


@pytest.mark.parametrize("method", METHODS)
def test_every_method_can_be_made(tiny: Tiny, method: str) -> None:
    assert prepare(tiny(methods=[method]), 0).method(method).name == method


def test_neighbors_must_exist(tiny: Tiny) -> None:
    with pytest.raises(ConfigError, match=r"federico\.neighbors = 4: with 4 clients"):
        prepare(tiny(federico={"neighbors": 4}), 0)
    prepare(tiny(federico={"neighbors": 4}, methods=["local"]), 0)  # not asked for, not checked
    prepare(tiny(federico={"neighbors": 3}), 0)


def test_bfloat16_goes_with_models_in_float32(tiny: Tiny) -> None:
    assert prepare(tiny(training={"precision": "bfloat16"}), 0).layout.mixed
    assert not prepare(tiny(), 0).layout.mixed
    with pytest.raises(ConfigError, match=r"training\.precision = 'bfloat16'"):
        prepare(tiny(training={"precision": "bfloat16"}, system={"dtype": "float64"}), 0)


def test_own_model_that_cannot_run_in_bfloat16_is_refused(tiny: Tiny) -> None:
    class Adding(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(64, 10)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.zeros(len(x), 10).index_add(0, torch.arange(len(x)), self.layer(x))

    prepare(tiny(), 0, factory=Adding)
    with pytest.raises(ConfigError, match=r"in bfloat16 \(training\.precision\)"):
        prepare(tiny(training={"precision": "bfloat16"}), 0, factory=Adding)


def test_model_for_images_is_refused_on_a_table(tiny: Tiny) -> None:
    with pytest.raises(ConfigError, match=r"model: cnn2 needs images .* shape \(64,\)"):
        prepare(tiny(model={"kind": "cnn2"}), 0)


def test_own_model_of_the_wrong_shape_is_refused(tiny: Tiny) -> None:
    with pytest.raises(ConfigError, match=r"model: it does not take inputs of shape \(64,\)"):
        prepare(tiny(), 0, factory=lambda: nn.Linear(63, 10))
    with pytest.raises(ConfigError, match=r"outputs of shape \(9,\), the data needs \(10,\)"):
        prepare(tiny(), 0, factory=lambda: nn.Linear(64, 9))


def test_batch_norm_is_refused_a_batch_of_one(tiny: Tiny) -> None:
    x, y = np.random.default_rng(0).normal(size=(6, 4)), np.arange(6) % 2
    dataset = dataset_from_clients({"a": (x, y), "b": (x, y)})

    def net() -> nn.Module:
        return nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 2))

    def ready(batch_size: int, method: str = "local") -> object:
        chosen = tiny(
            partition={"kind": "natural"},
            split={},
            methods=[method],
            training={"batch_size": batch_size},
        )
        return prepare(chosen, 0, dataset=dataset, factory=net)

    with pytest.raises(
        ConfigError, match=r"training\.batch_size = 4: leaves client 'a' with a batch of one sample"
    ):
        ready(4)  # five training samples
    ready(5)
    with pytest.raises(
        ConfigError, match=r"training\.batch_size = 3: leaves client 'a' with a batch of one sample"
    ):
        ready(3, "fedfomo")  # holds one of the five out
    ready(3)


@pytest.mark.parametrize("name", ["gpu0", "cuda:99", "mps"])
def test_unknown_device_is_refused_before_anything_is_loaded(tiny: Tiny, name: str) -> None:
    missing = {"kind": "npz", "path": "not-there.npz"}
    with pytest.raises(ConfigError, match=f"system.device = '{name}': not available here"):
        prepare(tiny(system={"device": name}, data=missing), 0)


def test_auto_device_is_one_that_works() -> None:
    torch.ones(2, device=device("auto")).sum()


def test_auto_device_is_the_cpu_where_torch_was_built_for_what_is_not_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))
    assert device("auto") == torch.device("cpu")


def test_missing_data_is_named_with_its_folder(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FEDERICO_DATA", str(tmp_path))
    with pytest.raises(DataError, match=rf"{tmp_path}/mine\.npz: not found"):
        prepare(tiny(data={"kind": "npz", "path": "mine.npz"}), 0)


def test_model_beyond_the_memory_is_refused_without_being_made(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    allocate = nn.Linear.reset_parameters

    def spy(self: nn.Linear) -> None:
        if self.weight.device.type != "meta":
            made.append(self.weight.numel())
        allocate(self)

    monkeypatch.setattr(nn.Linear, "reset_parameters", spy)
    with pytest.raises(ConfigError, match=r"model: one alone takes 149\.\d\d GiB, only .* is free"):
        prepare(tiny(model={"kind": "mlp", "hidden": [200_000, 200_000]}), 0)
    assert made == []


def test_few_samples_are_allowed_but_warned_of(tiny: Tiny) -> None:
    warned = prepare(tiny(split={"samples": 60, "test_fraction": 0.5}), 0).warnings
    assert warned
    assert all("training samples for 10 classes" in warning for warning in warned)
    assert prepare(tiny(), 0).warnings == []


@pytest.mark.parametrize("clients", [2, 3])
def test_what_a_run_of_few_clients_writes_down_can_be_run_again(
    tiny: Tiny, tmp_path: Path, clients: int
) -> None:
    """The default number of neighbors is written out, though there are fewer others."""
    partition = {"kind": "label-groups", "clients": clients, "groups": 2}
    first = tiny(methods=["federico", "fedfomo"], partition=partition, federico={})
    file = tmp_path / "config.toml"
    file.write_text(Grid(first).to_toml(), encoding="utf-8")
    assert "neighbors = 3" in file.read_text()
    again = load(file, ['name="tiny"'])
    assert again == first
    assert len(prepare(again, 0).clients) == clients


@pytest.mark.parametrize(
    ("method", "changes", "said"),
    [
        ("federico", {"federico": {"neighbors": 4}}, r"federico\.neighbors = 4"),
        ("fedfomo", {"fedfomo": {"validation": 0.98}}, "a batch of one sample"),
        ("local", {"training": {"batch_size": 32}}, "a batch of one sample"),
    ],
)
def test_a_cell_is_checked_against_a_problem_that_is_set_up_already(
    tiny: Tiny, method: str, changes: dict[str, Any], said: str
) -> None:
    """Options, held-out samples and batches may differ from cell to cell of one problem."""
    net = {"kind": "python"}
    ready = prepare(tiny(model=net, methods=["local"]), 0, factory=Normed)
    ready.check_cell(tiny(model=net, methods=[method]), method)
    assert len(ready.clients[0].train) == 33
    with pytest.raises(ConfigError, match=said):
        ready.check_cell(tiny(model=net, methods=[method], **changes), method)


class Normed(nn.Sequential):
    """A model that cannot train on a single sample."""

    def __init__(self) -> None:
        super().__init__(nn.Linear(64, 8), nn.BatchNorm1d(8), nn.Linear(8, 10))
