from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from federico.data.from_python import dataset_from_clients
from federico.errors import ConfigError
from federico.experiment import machine_memory
from federico.experiment.build import prepare
from federico.experiment.config import Experiment
from federico.experiment.memory_plan import (
    HEAP_LOSS,
    LATER_BYTES,
    PAIR_BYTES,
    ROWS,
    MemoryPlan,
    memory_limit,
    plan_simulation,
    scratch_folder,
)

Tiny = Callable[..., Experiment]
ROW = 4 * (64 * 8 + 8 + 8 * 10 + 10)
SAMPLES = 240 * (64 * 4 + 8)


def parts(experiment: Experiment, **changes: int) -> dict[str, int]:
    return plan_simulation(prepare(experiment, 0), **changes).parts


def weighing(least: int, rows: int) -> MemoryPlan:
    return MemoryPlan(dict.fromkeys(ROWS, 0) | {"libraries": least, "models": rows})


def test_rows_may_lie_on_the_disk_and_nothing_else() -> None:
    needed = weighing(least=2, rows=3)
    assert (needed.total, needed.rows, needed.least) == (5, 3, 2)


def test_training_alone_needs_a_model_and_an_optimizer_per_client_and_a_copy_to_save(
    tiny: Tiny,
) -> None:
    found = parts(tiny(methods=["local"]))
    assert found["models"] == 4 * ROW
    assert found["optimizers"] == 2 * 4 * ROW
    assert found["updates"] == 4 * ROW
    assert found["checkpoint"] == 4 * ROW + 2 * 4 * ROW


def test_fresh_optimizers_live_as_long_as_the_updates(tiny: Tiny) -> None:
    fresh = {"sampler": "everyone", "optimizer_state": "fresh"}
    found = parts(tiny(federico={"preset": "paper", **fresh}))
    assert found["optimizers"] == 0
    assert found["updates"] == 4 * 4 * ROW + 2 * 4 * 4 * ROW, (
        "each with an optimizer while it is made"
    )
    assert found["checkpoint"] == 4 * ROW


def test_private_models_are_two_more_per_client_and_keep_their_optimizers(tiny: Tiny) -> None:
    fresh = {"sampler": "everyone", "optimizer_state": "fresh"}
    paper = parts(tiny(federico={"preset": "paper", **fresh}))
    found = parts(tiny(federico=fresh))
    assert found["models"] == paper["models"] + 2 * 4 * ROW
    assert found["updates"] == paper["updates"] + 4 * ROW
    assert found["optimizers"] == 2 * (2 * 4) * ROW
    assert found["checkpoint"] == found["models"] + found["optimizers"]


def test_the_method_that_needs_most_counts(tiny: Tiny) -> None:
    assert parts(tiny(methods=["fedavg", "local"])) | {"libraries": 0} == parts(
        tiny(methods=["local"])
    ) | {"libraries": 0}


def test_fedem_visits_every_component_and_fedfomo_remembers_where_it_began(tiny: Tiny) -> None:
    found = parts(tiny(methods=["fedem"], fedem={"components": 3}))
    assert (found["models"], found["optimizers"]) == (3 * ROW, 2 * 12 * ROW)
    assert parts(tiny(methods=["fedfomo"]))["models"] == 2 * 4 * ROW


def test_plain_sgd_keeps_no_moments(tiny: Tiny) -> None:
    assert parts(tiny(training={"optimizer": {"kind": "sgd"}}))["optimizers"] == 0


def test_double_precision_takes_twice_as_much(tiny: Tiny) -> None:
    single, double = parts(tiny()), parts(tiny(system={"dtype": "float64"}))
    assert double["models"] == 2 * single["models"]


def test_data_is_held_once_per_seed_and_once_at_work(tiny: Tiny) -> None:
    assert parts(tiny())["data"] == 2 * SAMPLES
    assert parts(tiny(seeds=[0, 1, 2]))["data"] == 4 * SAMPLES


def test_images_are_bytes_from_the_file_to_the_work(tiny: Tiny) -> None:
    images = {name: (np.zeros((10, 3, 8, 8), np.uint8), np.arange(10) % 2) for name in "ab"}
    own: dict[str, Any] = {
        "data": {"kind": "python"},
        "partition": {"kind": "natural"},
        "split": {},
        "federico": {},
    }
    setup = prepare(
        tiny(methods=["local"], model={"kind": "linear"}, **own),
        0,
        dataset=dataset_from_clients(images),
    )
    assert {part.x.dtype for client in setup.clients for part in (client.train, client.test)} == {
        np.dtype(np.uint8)
    }
    data = setup.method("local").learner.data
    assert {samples.stored_inputs.dtype for samples in data.values()} == {torch.uint8}
    assert plan_simulation(setup).parts["data"] == 2 * 20 * (3 * 8 * 8 + 8)


def test_libraries_are_what_is_there_without_the_data(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_memory, "resident_bytes", lambda: 5 * SAMPLES)
    assert parts(tiny())["libraries"] == 4 * SAMPLES + LATER_BYTES
    assert parts(tiny(), seeds_held=3)["libraries"] == 2 * SAMPLES + LATER_BYTES


def test_every_thread_has_a_workspace_of_its_own(tiny: Tiny) -> None:
    alone = ["local"]  # others keep copies of models too, however many threads there are
    one, two = (
        parts(tiny(methods=alone, federico={}, system={"threads": threads}))["workspace"]
        for threads in (1, 2)
    )
    assert two == 2 * one
    assert one > 2 * ROW, "a model and its gradient at least"


def test_larger_batches_take_more(tiny: Tiny) -> None:
    wide = {"model": {"kind": "mlp", "hidden": [20000]}, "split": {"samples": 160, "max_train": 40}}
    small, large = (
        parts(tiny(training={"batch_size": size}, **wide))["workspace"] for size in (30, 40)
    )
    assert large - small == pytest.approx(HEAP_LOSS * 10 * 4 * (64 + 3 * 20000), rel=0.01)


def test_ranks_share_the_rows(tiny: Tiny) -> None:
    one, two = parts(tiny(methods=["local"])), parts(tiny(methods=["local"]), ranks=2)
    assert two["optimizers"] == one["optimizers"] // 2
    assert two["data"] == SAMPLES + SAMPLES // 2
    assert two["checkpoint"] == 2 * one["checkpoint"], "the first of them gathers all"
    assert two["updates"] == 3 * one["updates"] // 2, "made, sent and received"


def test_what_fits_is_in_memory(tmp_path: Path) -> None:
    assert scratch_folder(weighing(2, 3), 5, tmp_path) is None


def test_what_does_not_fit_lies_on_the_disk(tmp_path: Path) -> None:
    assert (
        scratch_folder(weighing(2, 3), 4, tmp_path / "not" / "there" / "yet")
        == tmp_path / "not" / "there" / "yet"
    )


def test_what_cannot_fit_is_refused_with_the_numbers_and_a_remedy(tmp_path: Path) -> None:
    said = (
        r"needs about 5\.00 GiB, and 3\.00 GiB even with all models on the disk; "
        r"there is 2\.50 GiB; use fewer"
    )
    with pytest.raises(ConfigError, match=said):
        scratch_folder(weighing(3 << 30, 2 << 30), 5 << 29, tmp_path)


def test_what_fits_neither_memory_nor_disk_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"nor has the disk of .* room for 1073741824\.00 GiB of models"
    ):
        scratch_folder(weighing(1, 1 << 60), 2, tmp_path)


def test_limit_is_what_is_allowed(tiny: Tiny) -> None:
    setup = prepare(tiny(system={"memory": "3GiB"}), 0)
    assert memory_limit(setup) == 3 << 30
    assert memory_limit(setup, 3) == 1 << 30, "for all processes together"


def test_limit_is_else_what_is_free_and_what_it_has(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = prepare(tiny(), 0)
    monkeypatch.setattr(machine_memory, "available_bytes", lambda: 100)
    monkeypatch.setattr(machine_memory, "resident_bytes", lambda: 7)
    assert memory_limit(setup, 2) == 57


def test_updates_that_are_compared_side_by_side_are_part_of_the_workspace(tiny: Tiny) -> None:
    alone, torn = (
        parts(tiny(methods=methods))["workspace"] for methods in (["local"], ["local", "clustered"])
    )
    assert torn == alone + 2 * 4 * ROW


def test_models_met_are_remembered_however_small_they_are(tiny: Tiny) -> None:
    one = parts(tiny(methods=["local"]))
    many = parts(tiny(methods=["local", "fedem"], fedem={"components": 3}))
    assert one["bookkeeping"] == 4 * PAIR_BYTES
    assert many["bookkeeping"] == 3 * 4 * PAIR_BYTES, "everybody meets every component"


def test_true_distributions_are_not_looked_at(tiny: Tiny) -> None:
    """Whoever is met may weigh something: a plan knows no more about clients than a peer does."""
    alike = prepare(tiny(), 0)
    shares = replace(alike.shares, distribution=tuple(range(len(alike.clients))))
    assert (
        plan_simulation(replace(alike, shares=shares)).parts["optimizers"]
        == plan_simulation(alike).parts["optimizers"]
    )
