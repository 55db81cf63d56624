"""A private call and its fallback give the same, and one that is gone is noticed."""

import gc
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from federico import compat

PROBES = (compat.has_fused_adam, compat.has_relu_backward, compat.has_fused_linear)


@pytest.fixture
def forgetful() -> Iterator[None]:
    """What is found out about another torch must not be remembered of this one."""
    for probe in PROBES:
        probe.cache_clear()
    yield
    for probe in PROBES:
        probe.cache_clear()


def three_adam_steps() -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    rows = [torch.randn(5, generator=generator, dtype=torch.float64) for _ in range(3)]
    means = [torch.zeros_like(row) for row in rows]
    squares = [torch.zeros_like(row) for row in rows]
    steps = [torch.zeros(()) for _ in rows]
    for _ in range(3):
        gradients = [torch.randn(5, generator=generator, dtype=torch.float64) for _ in rows]
        compat.adam_step(
            rows,
            gradients,
            means,
            squares,
            steps,
            learning_rate=0.1,
            beta1=0.9,
            beta2=0.99,
            eps=1e-8,
        )
    return [*rows, *means, *squares, *steps]


def changed_signature(*_: object, **__: object) -> None:
    raise TypeError("unexpected keyword")


def other_meaning(rows: list[Tensor], *_: object, **__: object) -> None:
    rows[0].zero_()


def test_adam_in_one_call_is_there() -> None:
    assert compat.has_fused_adam()


@pytest.mark.usefixtures("forgetful")
@pytest.mark.parametrize("other", [None, changed_signature, other_meaning])
def test_without_fused_adam_steps_are_the_same(
    monkeypatch: pytest.MonkeyPatch, other: Callable[..., None] | None
) -> None:
    fused = three_adam_steps()
    compat.has_fused_adam.cache_clear()
    if other is None:
        monkeypatch.delattr(torch, "_fused_adam_")
    else:
        monkeypatch.setattr(torch, "_fused_adam_", other)
    assert not compat.has_fused_adam()
    for one, two in zip(fused, three_adam_steps(), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-12, atol=1e-12)


def test_one_is_added_to_every_count(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = [torch.tensor(0.0), torch.tensor(3.0)]
    compat.add_one(counts)
    monkeypatch.delattr(torch, "_foreach_add_")
    compat.add_one(counts)
    assert [count.item() for count in counts] == [2, 5]


@pytest.mark.usefixtures("forgetful")
def test_the_slope_before_a_relu_is_the_same_without_its_kernel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slope = torch.tensor([1.0, 2.0, 3.0, float("nan")])
    activations = torch.tensor([0.0, 5.0, float("nan"), 0.0])
    assert compat.has_relu_backward()
    by_kernel = compat.relu_backward(slope, activations)
    compat.has_relu_backward.cache_clear()
    monkeypatch.setattr(torch, "ops", SimpleNamespace())
    assert not compat.has_relu_backward()
    by_hand = compat.relu_backward(slope, activations)
    assert by_kernel.tolist() == by_hand.tolist() == [0, 2, 3, 0]


@pytest.mark.usefixtures("forgetful")
def test_a_fused_linear_layer_is_for_single_precision_where_torch_has_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert compat.can_fuse_linear(torch.zeros(1))
    assert not compat.can_fuse_linear(torch.zeros(1, dtype=torch.float64))
    assert not compat.can_fuse_linear(torch.zeros(1, device="meta"))
    compat.has_fused_linear.cache_clear()
    monkeypatch.setattr(torch, "ops", SimpleNamespace())
    assert not compat.can_fuse_linear(torch.zeros(1))


def test_a_fused_linear_layer_is_a_linear_layer() -> None:
    layer = nn.Linear(3, 2)
    x = torch.randn(4, 3)
    fused = compat.fused_linear(x, layer.weight.detach(), layer.bias.detach())
    torch.testing.assert_close(fused, layer(x).detach())


@pytest.mark.parametrize(
    ("module", "expected"),
    [(nn.BatchNorm1d(2), True), (nn.BatchNorm3d(2), True), (nn.LayerNorm(2), False)],
)
def test_batch_norm_is_recognised(module: nn.Module, expected: bool) -> None:
    assert compat.is_batch_norm(module) is expected


class Built:
    """`torch.accelerator` of a build for CUDA on a machine with or without a GPU."""

    def __init__(self, *, there: bool) -> None:
        self._there = there

    def is_available(self) -> bool:
        return self._there

    def current_accelerator(self) -> torch.device:
        return torch.device("cuda")


@pytest.mark.parametrize(("there", "expected"), [(True, "cuda"), (False, None)])
def test_an_accelerator_that_torch_was_built_for_need_not_be_there(
    monkeypatch: pytest.MonkeyPatch, there: bool, expected: str | None
) -> None:
    monkeypatch.setattr(torch, "accelerator", Built(there=there))
    found = compat.accelerator()
    assert (found and found.type) == expected


@pytest.mark.parametrize("there", [True, False])
def test_a_torch_without_the_module_is_asked_for_cuda(
    monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    monkeypatch.delattr(torch, "accelerator")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert compat.accelerator() == (torch.device("cuda") if there else None)


def test_random_numbers_follow_from_the_seed_and_leave_the_generator_alone() -> None:
    before = torch.get_rng_state()
    drawn = []
    for seed in (7, 8, 7):
        with compat.seeded(seed):
            drawn.append(torch.randn(3))
    assert torch.equal(drawn[0], drawn[2])
    assert not torch.equal(drawn[0], drawn[1])
    assert torch.equal(drawn[0], torch.randn(3, generator=torch.Generator().manual_seed(7)))
    assert torch.equal(before, torch.get_rng_state())


def test_the_generator_is_left_alone_after_an_error_too() -> None:
    def fail() -> None:
        torch.randn(1)
        raise ZeroDivisionError

    before = torch.get_rng_state()
    with pytest.raises(ZeroDivisionError), compat.seeded(1):
        fail()
    assert torch.equal(before, torch.get_rng_state())


def test_all_generators_are_seeded_where_there_is_an_accelerator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seeds: list[int] = []
    monkeypatch.setattr(torch, "accelerator", Built(there=True))
    monkeypatch.setattr(torch, "manual_seed", seeds.append)
    with compat.seeded(7):
        pass
    assert seeds == [7]


def test_threads_are_those_asked_for() -> None:
    before = compat.thread_count()
    compat.use_threads(before + 1)
    assert torch.get_num_threads() == compat.thread_count() == before + 1
    compat.use_threads(None)
    assert compat.thread_count() == before + 1
    compat.use_threads(before)


def test_settings_need_no_torch_and_respect_the_environment() -> None:
    code = (
        "import os, sys; from federico import compat; compat.let_idle_threads_sleep();"
        "print(os.environ['OMP_WAIT_POLICY'], 'torch' in sys.modules)"
    )
    for given, expected in (({}, "passive False"), ({"OMP_WAIT_POLICY": "active"}, "active False")):
        environment = {**os.environ, **given}
        if not given:
            environment.pop("OMP_WAIT_POLICY", None)
        told = subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        assert told.stdout.strip() == expected


def test_garbage_is_still_collected_where_cycles_are_looked_for_rarely() -> None:
    before = gc.get_threshold()
    usual = (700, 10, 10)
    gc.set_threshold(*usual)  # another test of this process may have called it already
    try:
        compat.look_for_cycles_rarely()
        assert gc.isenabled()
        assert gc.get_threshold() > usual
    finally:
        gc.set_threshold(*before)


def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.libc_ver", lambda: ("", ""))
    monkeypatch.setattr("ctypes.CDLL", lambda _: pytest.fail("musl has no mallopt"))
    compat.keep_freed_memory()
    compat.give_back_freed_memory()
