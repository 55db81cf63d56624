"""Private calls of torch, and settings of the whole process, each with a fallback.

Each private call is tried once on numbers whose result is known, and has a fallback for a torch
that no longer has it. Settings of the process are made by programs (the command line, a runner, a
benchmark), never by a constructor.

torch is imported inside the functions: its threads read the environment when it is loaded, which
`let_idle_threads_sleep` has to come before, and a command that only prints help must not wait for
it.
"""

import ctypes
import gc
import logging
import os
import platform
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

M_TRIM_THRESHOLD = -1
M_MMAP_MAX = -4
"""Names of glibc's malloc.h for two parameters of `mallopt`."""


# Settings of the process.


def let_idle_threads_sleep() -> None:
    """Idle threads of torch sleep instead of taking a core from those at work.

    Call it before torch is loaded.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def use_threads(count: int | None) -> None:
    """Let torch use this many threads in this process; None leaves the number it has chosen."""
    import torch

    if count is not None:
        torch.set_num_threads(count)


def thread_count() -> int:
    """How many threads torch uses in the calling thread."""
    import torch

    return torch.get_num_threads()


def use_one_thread() -> None:
    """Let torch compute on the calling thread alone; other threads keep what they have."""
    import torch

    torch.set_num_threads(1)


def keep_freed_memory() -> None:
    """Let the heap keep what is freed for the next step.

    Fresh pages would cost thousands of faults in every step.

    What has been freed until now is given back first: it was made while things were loaded, and
    fits nothing later. Other C libraries than glibc have no such settings, and stay as they are.
    """
    give_back_freed_memory()
    libc = _glibc()
    if libc is not None:
        libc.mallopt(M_MMAP_MAX, 0)
        libc.mallopt(M_TRIM_THRESHOLD, 1 << 30)


def give_back_freed_memory() -> None:
    """Give the system back what is free in the heap, where glibc manages it."""
    libc = _glibc()
    if libc is not None:
        libc.malloc_trim(0)


def default_environment(variables: Mapping[str, str]) -> None:
    """Set these variables of the process's environment where they are not set yet."""
    for name, value in variables.items():
        os.environ.setdefault(name, value)


def look_for_cycles_rarely() -> None:
    """Let the collector of garbage pass over all objects less often.

    A program that reads millions of numbers and then ends would spend a quarter of its time there.
    What is in no cycle is freed at once all the same.
    """
    gc.set_threshold(50_000, 20, 50)


def _glibc() -> ctypes.CDLL | None:
    """The C library of this process, if it is glibc."""
    name, _ = platform.libc_ver()
    if name != "glibc":
        return None
    return ctypes.CDLL(None)


# Devices and random numbers.


def built_for_cuda() -> bool:
    """Whether this torch brings libraries for CUDA, whether or not there is a GPU.

    Its installed version does not tell: a plain `pip install torch` is `2.9.0` on Linux.
    """
    import torch

    return torch.version.cuda is not None


def accelerator() -> "torch.device | None":
    """The accelerator that is there and works, if any.

    `torch.accelerator.current_accelerator` also names one that torch was built for and that this
    machine does not have.
    """
    import torch

    if hasattr(torch, "accelerator"):  # since torch 2.6
        if not torch.accelerator.is_available():
            return None
        return torch.accelerator.current_accelerator()
    if torch.cuda.is_available():
        return torch.device("cuda")
    if torch.backends.mps.is_available():
        return torch.device("mps")
    return None


@contextmanager
def without_exporter_noise() -> Iterator[None]:
    """Hide what torch says about itself while it exports: deprecations and packages it can spare.

    Its errors are raised as ever.
    """
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            yield
    finally:
        logger.setLevel(level)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Random numbers drawn inside follow from `seed`, and leave no trace.

    torch's own generator is afterwards as it was.

    Without an accelerator there is one generator to seed. `torch.manual_seed` would note for every
    other kind of device, with the whole call stack, that it should be seeded if it ever comes: a
    fifth of a millisecond for every model.
    """
    import torch

    generator = torch.default_generator
    before = generator.get_state()
    if accelerator() is None:
        generator.manual_seed(seed)
    else:
        torch.manual_seed(seed)
    try:
        yield
    finally:
        generator.set_state(before)


# Private calls of torch.


def adam_step(
    parameters: list["Tensor"],
    gradients: list["Tensor"],
    means: list["Tensor"],
    squares: list["Tensor"],
    steps: list["Tensor"],
    *,
    learning_rate: float,
    beta1: float,
    beta2: float,
    eps: float,
) -> None:
    """One step of Adam for every row, in place, with its moments and its count of past steps."""
    import torch
    from torch.optim.adam import adam

    if not has_fused_adam():
        # This one counts the step by itself.
        adam(
            parameters, gradients, means, squares, [], steps, amsgrad=False, maximize=False,
            beta1=beta1, beta2=beta2, lr=learning_rate, weight_decay=0.0, eps=eps, foreach=False,
        )  # fmt: skip
        return

    # What torch's own Adam comes down to, once it has sorted rows by device and type: ours are all
    # alike.
    add_one(steps)
    torch._fused_adam_(
        parameters, gradients, means, squares, [], steps, amsgrad=False, maximize=False,
        beta1=beta1, beta2=beta2, lr=learning_rate, weight_decay=0.0, eps=eps,
    )  # fmt: skip


@cache
def has_fused_adam() -> bool:
    """Whether this torch has Adam as one call, found out by a first step.

    Adam's first step moves by the learning rate.
    """
    import torch

    row, gradient, mean, square, step = (torch.ones(1) for _ in range(5))
    mean.zero_()
    square.zero_()
    try:
        torch._fused_adam_(
            [row], [gradient], [mean], [square], [], [step], amsgrad=False, maximize=False,
            beta1=0.9, beta2=0.999, lr=0.25, weight_decay=0.0, eps=0.0,
        )  # fmt: skip
    except (RuntimeError, TypeError, AttributeError):
        return False
    return abs(row.item() - 0.75) < 1e-6


def add_one(counts: list["Tensor"]) -> None:
    """Add one to every tensor, in place and in one call if this torch has it."""
    import torch

    foreach_add = getattr(torch, "_foreach_add_", None)
    if foreach_add is not None:
        foreach_add(counts, 1)
        return
    for count in counts:
        count.add_(1)


def relu_backward(slope: "Tensor", activations: "Tensor") -> "Tensor":
    """The slope before a ReLU, from the slope behind it and what the ReLU gave."""
    import torch

    if has_relu_backward():
        result: Tensor = torch.ops.aten.threshold_backward(slope, activations, 0)
        return result
    # Not `activations > 0`, which would turn the slope at a NaN into 0.
    return slope.masked_fill(activations <= 0, 0)


@cache
def has_relu_backward() -> bool:
    """Whether this torch has that as one kernel, found out by trying."""
    import torch

    try:
        slope: Tensor = torch.ops.aten.threshold_backward(
            torch.ones(2), torch.tensor([0.0, 1.0]), 0
        )
    except (RuntimeError, TypeError, AttributeError):
        return False
    return slope.tolist() == [0.0, 1.0]


def fused_linear(x: "Tensor", weight: "Tensor", bias: "Tensor | None") -> "Tensor":
    """A linear layer in one pass, as torch's compiler has it.

    It could do ReLU too, but turns NaN into 0 there.
    """
    import torch

    out: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return out


def can_fuse_linear(rows: "Tensor") -> bool:
    """Whether linear layers of such numbers can run in one pass.

    Where not, an engine uses plain products.
    """
    import torch

    return rows.device.type == "cpu" and rows.dtype == torch.float32 and has_fused_linear()


@cache
def has_fused_linear() -> bool:
    """Whether this torch has a linear layer in one pass, found out by trying."""
    import torch

    try:
        out = fused_linear(torch.ones(1, 2), torch.ones(1, 2), torch.ones(1))
    except (RuntimeError, TypeError, AttributeError):
        return False
    return out.item() == 3


def is_batch_norm(module: "nn.Module") -> bool:
    """Whether the module normalises by statistics of its batch.

    Their common class is private to torch.
    """
    from torch import nn

    return isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d | nn.SyncBatchNorm)
