"""Bytes as a broken line, a broken disk or somebody hostile may leave them."""

import json
import os
import random
import time
from collections import Counter
from pathlib import Path

TIMES = int(os.environ.get("FEDERICO_FUZZ", "2000"))
"""How many spoilt messages a test tries, and how many spoilt files all tests together."""
RECORD = os.environ.get("FEDERICO_FUZZ_RECORD")
"""The file to which each test adds a line on what it has tried; none if not set."""


def record(what: str, outcomes: Counter[str], began: float) -> None:
    """Note what came of all that a test has tried since then, by `time.monotonic`."""
    if RECORD is None:
        return
    line = {
        "what": what,
        "tried": outcomes.total(),
        "outcomes": dict(sorted(outcomes.items())),
        "seconds": round(time.monotonic() - began),
    }
    with Path(RECORD).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def spoil(data: bytes, rng: random.Random) -> bytes:
    """Change, cut, repeat or lengthen some of it; often just one bit."""
    spoilt = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 8))):
        at = rng.randrange(len(spoilt) or 1)
        match rng.randrange(6):
            case 0 | 1:
                before = spoilt[at] if spoilt else 0
                spoilt[at : at + 1] = bytes([before ^ (1 << rng.randrange(8))])
            case 2:
                spoilt[at : at + rng.randrange(1, 64)] = rng.randbytes(rng.randrange(64))
            case 3:
                del spoilt[at:]
            case 4:
                spoilt[at:at] = spoilt[: rng.randrange(len(spoilt) + 1)]
            case 5:
                spoilt[at : at + 8] = rng.choice((b"\xff" * 8, bytes(8), b"\x7f" + b"\xf0" * 7))
    return bytes(spoilt)
