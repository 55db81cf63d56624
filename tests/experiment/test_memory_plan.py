import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from federico.data.arrays import dataset_from_clients
from federico.errors import ConfigError
from federico.experiment import memory_plan as memory
from federico.experiment.build import prepare
from federico.experiment.config import Experiment
from federico.experiment.memory_plan import (
    HEAP_LOSS,
    LATER_BYTES,
    ROWS,
    Plan,
    available_bytes,
    gib,
    memory_limit,
    plan,
    refuse_too_large,
    resident_bytes,
    scratch,
)

Tiny = Callable[..., Experiment]
ROW = 4 * (64 * 8 + 8 + 8 * 10 + 10)
SAMPLES = 240 * (64 * 4 + 8)


def parts(experiment: Experiment, **changes: int) -> dict[str, int]:
    return plan(prepare(experiment, 0), **changes).parts


def weighing(least: int, rows: int) -> Plan:
    return Plan(dict.fromkeys(ROWS, 0) | {"libraries": least, "models": rows})


def test_rows_may_lie_on_the_disk_and_nothing_else() -> None:
    needed = weighing(least=2, rows=3)
    assert (needed.total, needed.rows, needed.least) == (5, 3, 2)


def test_training_alone_needs_a_model_and_an_optimizer_per_client_and_a_copy_to_save(
    tiny: Tiny,
) -> None:
    found = parts(tiny(methods=["local"]))
    assert found["models"] == 4 * ROW
    assert found["optimizers"] == 2 * 4 * ROW
    assert found["updates or checkpoint"] == 4 * ROW + 2 * 4 * ROW


def test_updates_count_where_they_are_more_than_a_checkpoint(tiny: Tiny) -> None:
    found = parts(tiny(federico={"sampler": "everyone", "optimizer_state": "fresh"}))
    assert found["optimizers"] == 0
    assert found["updates or checkpoint"] == 4 * 4 * ROW + 2 * 4 * 4 * ROW, (
        "each with an optimizer while it is made"
    )


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
    assert plan(setup).parts["data"] == 2 * 20 * (3 * 8 * 8 + 8)


def test_libraries_are_what_is_there_without_the_data(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "resident_bytes", lambda: 5 * SAMPLES)
    assert parts(tiny())["libraries"] == 4 * SAMPLES + LATER_BYTES
    assert parts(tiny(), seeds_held=3)["libraries"] == 2 * SAMPLES + LATER_BYTES


def test_every_thread_has_a_workspace_of_its_own(tiny: Tiny) -> None:
    one, two = (parts(tiny(system={"threads": threads}))["workspace"] for threads in (1, 2))
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
    assert two["updates or checkpoint"] > one["updates or checkpoint"], (
        "the first of them gathers all"
    )


def test_what_fits_is_in_memory(tmp_path: Path) -> None:
    assert scratch(weighing(2, 3), 5, tmp_path) is None


def test_what_does_not_fit_lies_on_the_disk(tmp_path: Path) -> None:
    assert (
        scratch(weighing(2, 3), 4, tmp_path / "not" / "there" / "yet")
        == tmp_path / "not" / "there" / "yet"
    )


def test_what_cannot_fit_is_refused_with_the_numbers_and_a_remedy(tmp_path: Path) -> None:
    said = r"needs about 5\.00 GiB, and 3\.00 GiB even with all models on the disk; there is 2\.50 GiB; use fewer"
    with pytest.raises(ConfigError, match=said):
        scratch(weighing(3 << 30, 2 << 30), 5 << 29, tmp_path)


def test_what_fits_neither_memory_nor_disk_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"nor has the disk of .* room for 1073741824\.00 GiB of models"
    ):
        scratch(weighing(1, 1 << 60), 2, tmp_path)


def test_limit_is_what_is_allowed(tiny: Tiny) -> None:
    setup = prepare(tiny(system={"memory": "3GiB"}), 0)
    assert memory_limit(setup) == 3 << 30
    assert memory_limit(setup, 3) == 1 << 30, "for all processes together"


def test_limit_is_else_what_is_free_and_what_it_has(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = prepare(tiny(), 0)
    monkeypatch.setattr(memory, "available_bytes", lambda: 100)
    monkeypatch.setattr(memory, "resident_bytes", lambda: 7)
    assert memory_limit(setup, 2) == 57


def test_free_memory_is_read_from_the_system() -> None:
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 0 < available_bytes() <= physical
    assert 10 << 20 < resident_bytes() < physical


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """A made-up file system in place of /proc and /sys, and a way to write into it."""
    monkeypatch.setattr(memory, "Path", lambda name: tmp_path / name.lstrip("/"))

    def write(name: str, text: str) -> None:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    return write


@pytest.mark.usefixtures("system")
def test_system_that_does_not_tell_is_taken_as_empty() -> None:
    assert available_bytes() == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert resident_bytes() == memory.PROCESS_BYTES


def test_control_groups_around_the_process_limit_it(system: Callable[[str, str], None]) -> None:
    system("proc/meminfo", "MemTotal: 9000 kB\nMemAvailable: 8000 kB\n")
    assert available_bytes() == 8000 << 10
    system("proc/self/cgroup", "1:name=systemd:/\n0::/batch/job\n")
    for group, limit in (("batch", "5000000"), ("batch/job", "max")):
        system(f"sys/fs/cgroup/{group}/memory.max", f"{limit}\n")
        system(f"sys/fs/cgroup/{group}/memory.current", "3000000\n")
        system(f"sys/fs/cgroup/{group}/memory.stat", "anon 2000000\ninactive_file 1000000\n")
    assert available_bytes() == 3000000, "files that can be read again do not count"


def test_model_is_weighed_with_its_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    size = 4001 * 4  # 2000 parameters, 2000 statistics and a counter
    monkeypatch.setattr(memory, "available_bytes", lambda: size)
    refuse_too_large(lambda: nn.BatchNorm1d(1000), torch.float32)
    monkeypatch.setattr(memory, "available_bytes", lambda: size - 1)
    with pytest.raises(ConfigError, match=r"model: one alone takes 0\.00 GiB"):
        refuse_too_large(lambda: nn.BatchNorm1d(1000), torch.float32)


def test_sizes_are_shown_in_gib() -> None:
    assert gib(3 << 29) == "1.50 GiB"


def test_updates_that_are_compared_side_by_side_are_part_of_the_workspace(tiny: Tiny) -> None:
    alone, torn = (
        parts(tiny(methods=methods))["workspace"] for methods in (["local"], ["local", "clustered"])
    )
    assert torn == alone + 2 * 4 * ROW
