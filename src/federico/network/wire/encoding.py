"""Rows of numbers <-> bytes. Length first, then the numbers: a NaN never leaves here, in either direction."""

import numpy as np

from federico.errors import ProtocolError
from federico.types import Array

WIDTHS = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}
"""Bytes per number of what may travel."""


def pack(row: Array, wire: str) -> Array:
    """The row as the wire has it, little-endian; the row itself where its numbers are the wire's already."""
    if wire == "bfloat16":
        return _round_to_bfloat16(np.ascontiguousarray(row, np.float32))
    if wire == "float16":
        most = np.finfo(np.float16).max
        return np.clip(row, -most, most).astype(
            "<f2"
        )  # what is too large saturates: an infinity would be refused
    return row.astype(f"<f{WIDTHS[wire]}", order="C", copy=False)


def unpack(payload: bytes, wire: str, out: Array) -> float:
    """Write the numbers of `payload` into `out`; returns the sum of their squares, which is finite."""
    if len(payload) != out.size * WIDTHS[wire]:
        raise ProtocolError(f"{len(payload)} bytes where {out.size * WIDTHS[wire]} belong")
    if wire == "bfloat16":
        numbers = (np.frombuffer(payload, "<u2").astype(np.uint32) << 16).view(np.float32)
    else:
        numbers = np.frombuffer(payload, f"<f{WIDTHS[wire]}")
    square = square_sum(numbers)
    if not np.isfinite(square):
        raise ProtocolError("numbers that are not finite, or far too large")
    out[:] = numbers
    return square


def square_sum(numbers: Array) -> float:
    """The sum of squares: not finite where any number is not, or is so large that no model can hold it."""
    flat = numbers.astype(np.float32) if numbers.dtype.itemsize == 2 else numbers
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.dot(flat, flat))


def _round_to_bfloat16(row: Array) -> Array:
    bits = row.view(np.uint32)
    half = ((bits >> 16) & 1) + np.uint32(0x7FFF)  # to the nearest, ties to even
    return np.where(np.isfinite(row), (bits + half) >> 16, bits >> 16).astype("<u2")
