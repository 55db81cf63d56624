import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from federico.errors import ConfigError
from federico.experiment import memory
from federico.experiment.config import Experiment
from federico.experiment.memory import Plan, available_bytes, gib, plan, refuse_too_large
from federico.experiment.setup import prepare

Tiny = Callable[..., Experiment]
ROW = 4 * (64 * 8 + 8 + 8 * 10 + 10)


def parts(experiment: Experiment) -> dict[str, int]:
    return plan(prepare(experiment, 0)).parts


def test_total_is_the_sum() -> None:
    assert Plan({"a": 2, "b": 3}).total == 5


def test_training_alone_needs_one_model_per_client(tiny: Tiny) -> None:
    found = parts(tiny(methods=["local"]))
    assert found["models"] == 4 * ROW
    assert found["updates"] == 4 * ROW
    assert found["checkpoints"] == 2 * (4 * ROW + 2 * 4 * ROW), "one is written while the next is taken"
    assert found["optimizers"] == 2 * 4 * ROW


def test_every_visit_costs_an_update_and_every_pair_an_optimizer(tiny: Tiny) -> None:
    found = parts(tiny(rounds=30, federico={"neighbors": 2}))
    assert found["updates"] == 4 * (1 + 2) * ROW
    assert found["optimizers"] == 2 * 4 * 4 * ROW, "in 30 rounds everybody may have met everybody"
    assert parts(tiny(rounds=2, federico={"neighbors": 2}))["optimizers"] == 2 * 4 * 3 * ROW


def test_everyone_visits_everyone_whatever_neighbors_says(tiny: Tiny) -> None:
    assert parts(tiny(federico={"sampler": "everyone"}))["updates"] == 4 * 4 * ROW


def test_fedem_visits_every_component_and_fedfomo_remembers_where_it_began(tiny: Tiny) -> None:
    found = parts(tiny(methods=["fedem", "fedavg"], fedem={"components": 3}))
    assert (found["models"], found["updates"], found["optimizers"]) == (4 * ROW, 12 * ROW, 2 * 12 * ROW)
    assert parts(tiny(methods=["fedfomo"]))["models"] == 2 * 4 * ROW


def test_plain_sgd_keeps_no_moments(tiny: Tiny) -> None:
    assert parts(tiny(training={"optimizer": {"kind": "sgd"}}))["optimizers"] == 0


def test_double_precision_takes_twice_as_much(tiny: Tiny) -> None:
    single, double = parts(tiny()), parts(tiny(system={"dtype": "float64"}))
    assert double["models"] == 2 * single["models"]


def test_data_is_held_once_per_seed_and_once_at_work(tiny: Tiny) -> None:
    samples = 240 * (64 * 4 + 8)
    assert parts(tiny())["data"] == 2 * samples
    assert parts(tiny(seeds=[0, 1, 2]))["data"] == 4 * samples


def test_free_memory_is_read_from_the_system() -> None:
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 0 < available_bytes() <= physical


def test_free_memory_without_proc_is_all_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "Path", lambda name: Path("/nowhere") / name.lstrip("/"))
    assert available_bytes() == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def test_model_is_weighed_with_its_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    net = nn.BatchNorm1d(1000)  # 2000 parameters, 2000 statistics and a counter
    size = 4001 * 4
    monkeypatch.setattr(memory, "available_bytes", lambda: size)
    refuse_too_large(lambda: nn.BatchNorm1d(net.num_features), torch.float32)
    monkeypatch.setattr(memory, "available_bytes", lambda: size - 1)
    with pytest.raises(ConfigError, match=r"model: one alone takes 0\.00 GiB"):
        refuse_too_large(lambda: nn.BatchNorm1d(net.num_features), torch.float32)


def test_sizes_are_shown_in_gib() -> None:
    assert gib(3 << 29) == "1.50 GiB"
