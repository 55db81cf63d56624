"""What this machine can do: the limit that everything else is compared with."""

import time

import torch


def matmul_rate(size: int = 1536, seconds: float = 1.0) -> float:
    """Floating-point operations per second of a plain float32 matrix product, the best of many."""
    a, b = torch.randn(size, size), torch.randn(size, size)
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        a @ b
        best = min(best, time.perf_counter() - start)
    return 2 * size**3 / best
