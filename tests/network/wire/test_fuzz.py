"""Spoilt messages through everything that reads bytes from outside. `make fuzz` tries 200,000."""

import hashlib
import os
import random
import tracemalloc
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from federico.errors import ProtocolError
from federico.network.wire.encoding import pack, unpack
from federico.network.wire.messages import (
    ChunkRequest,
    ChunkUpload,
    MessageHeader,
    ModelRequest,
)
from federico.network.wire.signing import Signer

TIMES = int(os.environ.get("FEDERICO_FUZZ", "2000"))
NUMBERS = 4096
CHUNKS = 64


def spoil(data: bytes, rng: random.Random) -> bytes:
    """Change, cut, repeat or lengthen some of it; often just one bit."""
    spoilt = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 8))):
        at = rng.randrange(len(spoilt) or 1)
        match rng.randrange(6):
            case 0 | 1:
                spoilt[at : at + 1] = bytes(
                    [(spoilt[at] if spoilt else 0) ^ (1 << rng.randrange(8))]
                )
            case 2:
                spoilt[at : at + rng.randrange(1, 64)] = rng.randbytes(rng.randrange(64))
            case 3:
                del spoilt[at:]
            case 4:
                spoilt[at:at] = spoilt[: rng.randrange(len(spoilt) + 1)]
            case 5:
                spoilt[at : at + 8] = rng.choice((b"\xff" * 8, bytes(8), b"\x7f" + b"\xf0" * 7))
    return bytes(spoilt)


def readers(signer: Signer, header: MessageHeader) -> list[tuple[bytes, Callable[[bytes], object]]]:
    """Every kind of message with what reads it."""
    row, out = np.linspace(-1, 1, NUMBERS, dtype=np.float32), np.empty(NUMBERS, np.float32)
    digests = tuple(hashlib.sha256(bytes([k])).digest() for k in range(CHUNKS))
    whole = replace(header, digest=hashlib.sha256(b"".join(digests)).digest())
    return [
        (signer.sign(whole, digests), lambda data: signer.verify(data, "alice", CHUNKS)),
        (header.encode(), MessageHeader.decode),
        (ModelRequest(b"n" * 16, 2).encode(), ModelRequest.decode),
        (ChunkRequest(b"d" * 32, 2).encode(), ChunkRequest.decode),
        (ChunkUpload(b"n" * 16, 2).encode(), ChunkUpload.decode),
        *(
            (pack(row, wire).tobytes(), lambda data, wire=wire: unpack(data, wire, out))
            for wire in ("float32", "float16", "bfloat16", "float64")
        ),
    ]


@pytest.mark.filterwarnings(
    "ignore"
)  # a mutated certificate may be one that `cryptography` warns of
def test_a_spoilt_message_is_a_protocol_error_and_costs_no_memory(
    alice: Signer, header: MessageHeader
) -> None:
    rng, refused, worst = random.Random(0), 0, 0
    cases = readers(alice, header)
    for good, read in cases:
        read(good)
    tracemalloc.start()
    for turn in range(TIMES):
        good, read = cases[turn % len(cases)]
        spoilt = spoil(good, rng)
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        try:
            read(spoilt)
        except ProtocolError:
            refused += 1
        else:
            assert turn % len(cases) or spoilt == good, (
                "a signed message was changed and nobody noticed"
            )
        worst = max(worst, tracemalloc.get_traced_memory()[1] - before)
    tracemalloc.stop()
    assert refused > TIMES / 3
    assert worst < 2 * max(len(good) for good, _ in cases)
