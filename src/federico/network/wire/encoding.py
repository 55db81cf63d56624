"""Rows of numbers to bytes and back, and their digests.

Lengths are checked first, then the numbers: a NaN leaves here in neither direction.
"""

import hashlib
from collections.abc import Iterable

import numpy as np

from federico.errors import ProtocolError, SignedProtocolError
from federico.types import Array

WIDTHS = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}
"""Bytes per number of each type that may travel."""


def pack(row: Array, wire: str) -> Array:
    """The row in the type that travels, little-endian.

    It is the row itself, not a copy, where it has that type already.
    """
    if wire == "bfloat16":
        return _round_to_bfloat16(np.ascontiguousarray(row, np.float32))
    if wire == "float16":
        # What is too large saturates: an infinity would be refused.
        largest = np.finfo(np.float16).max
        return np.clip(row, -largest, largest).astype("<f2")
    return row.astype(f"<f{WIDTHS[wire]}", order="C", copy=False)


def unpack(payload: bytes, wire: str, out: Array) -> float:
    """Write the numbers of `payload` into `out`; returns the sum of their squares, which is finite.

    Nothing is written if the length is wrong or a number is not finite.
    """
    expected = out.size * WIDTHS[wire]
    if len(payload) != expected:
        raise ProtocolError(f"{len(payload)} bytes where {expected} belong")

    if wire == "bfloat16":
        upper_halves = np.frombuffer(payload, "<u2").astype(np.uint32)
        numbers = (upper_halves << 16).view(np.float32)
    else:
        numbers = np.frombuffer(payload, f"<f{WIDTHS[wire]}")

    square = square_sum(numbers)
    if not np.isfinite(square):
        # The caller has checked the digest: these are the numbers that the sender signed.
        raise SignedProtocolError("numbers that are not finite, or far too large")
    out[:] = numbers
    return square


def square_sum(numbers: Array) -> float:
    """The sum of squares: not finite where a number is not, or is too large for any model."""
    if numbers.dtype.itemsize == 2:
        numbers = numbers.astype(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.dot(numbers, numbers))


def chunk_digests(chunks: Iterable[Array]) -> tuple[bytes, ...]:
    """SHA-256 of each chunk of a packed row."""
    return tuple(hashlib.sha256(chunk.data).digest() for chunk in chunks)


def digest_of_digests(digests: Iterable[bytes]) -> bytes:
    """The one digest that stands for all chunks."""
    return hashlib.sha256(b"".join(digests)).digest()


def _round_to_bfloat16(row: Array) -> Array:
    """The upper halves of float32 numbers, rounded to the nearest, ties to even."""
    bits = row.view(np.uint32)
    cut = bits >> 16

    # Half of the last digit that is kept, or a little less: then a tie goes to the even number.
    is_odd = cut & 1
    half = is_odd + np.uint32(0x7FFF)
    rounded = (bits + half) >> 16

    # To round infinity or NaN would make another number of it.
    upper_halves = np.where(np.isfinite(row), rounded, cut)
    return upper_halves.astype("<u2")
