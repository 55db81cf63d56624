"""Named random streams: one per (seed, purpose, names...).

Because a stream is found by name and never by position or by who drew before, the host of a peer and the order in
which peers are visited cannot change a number.
"""

import hashlib

import numpy as np


def key(seed: int, purpose: str, *names: str | int) -> int:
    """The 128-bit number that seeds the stream of that name."""
    text = "\0".join([str(seed), purpose, *map(str, names)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest(), "little")


def stream(seed: int, purpose: str, *names: str | int) -> np.random.Generator:
    """A generator of its own for this purpose, independent of every other stream."""
    return np.random.Generator(np.random.PCG64(key(seed, purpose, *names)))
