"""Named random streams: one per seed, purpose and list of names.

A stream is found by its name, never by its position or by what was drawn before. So neither the
process that acts for a peer nor the order in which peers take their turn can change a number.
"""

import hashlib

import numpy as np


def key(seed: int, purpose: str, *names: str | int) -> int:
    """The 128-bit number that seeds the stream of this name."""
    parts = [str(seed), purpose, *map(str, names)]
    # The separator keeps ("ab", "c") and ("a", "bc") apart.
    text = "\0".join(parts)
    digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
    return int.from_bytes(digest, "little")


def stream(seed: int, purpose: str, *names: str | int) -> np.random.Generator:
    """A random generator for this purpose alone, independent of every other stream."""
    bits = np.random.PCG64(key(seed, purpose, *names))
    return np.random.Generator(bits)
