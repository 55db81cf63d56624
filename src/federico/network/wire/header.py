"""The fixed head of every message that matters: one struct, no text, no lengths to believe.

Rules: a header is read from exactly `SIZE` bytes; a field that has only one legal value is compared with it before
anything is allocated; who sent it is for `seal` to prove.
"""

import math
import struct
from dataclasses import astuple, dataclass
from enum import IntEnum

from federico.errors import ProtocolError

MAGIC = b"FRCO"
VERSION = 1
_LAYOUT = struct.Struct("<4sBBH32s32sHHIIQdQI32s16s")
SIZE = _LAYOUT.size
NONCE_BYTES = 16


class Kind(IntEnum):
    """What is announced: the owner's model to who asked, or a contributor's update to the owner."""

    MODEL = 1
    UPDATE = 2


@dataclass(frozen=True)
class MessageHeader:
    """What the numbers that follow are, whose, for whom, and made of what."""

    kind: Kind
    federation: bytes
    """SHA-256 of the file that all members agreed on."""
    schema: bytes
    """SHA-256 of the model's schema."""
    owner: int
    """Place among the members of whose model it is."""
    contributor: int
    """Place of who made the update, or of who asked for the model."""
    round: int
    """The sender's round."""
    version: int
    """The owner's round at whose start its model was so."""
    epoch: int
    """Drawn by the owner at each start: versions of different lives of a peer never meet."""
    coefficient: float
    """c_ib of an update; 0 for a model."""
    size: int
    """Bytes of the numbers."""
    chunk: int
    """Numbers per chunk."""
    digest: bytes
    """SHA-256 of the chunks' SHA-256s, end to end."""
    nonce: bytes
    """Of an update: never used twice. Of a model: the asker's, so that an old answer cannot pass for a new one."""

    def encode(self) -> bytes:
        """Exactly `SIZE` bytes."""
        kind, *rest = astuple(self)
        return _LAYOUT.pack(MAGIC, VERSION, kind, 0, *rest)

    @classmethod
    def decode(cls, data: bytes) -> "MessageHeader":
        """The header in these bytes, each field within its own bounds."""
        if len(data) != SIZE:
            raise ProtocolError(f"a header of {len(data)} bytes, not {SIZE}")
        magic, version, kind, zero, *rest = _LAYOUT.unpack(data)
        if magic != MAGIC or zero:
            raise ProtocolError("not a message of federico")
        if version != VERSION:
            raise ProtocolError(f"protocol version {version}; this is {VERSION}")
        if kind not in tuple(Kind):
            raise ProtocolError(f"unknown kind of message {kind}")
        header = cls(Kind(kind), *rest)
        if not (math.isfinite(header.coefficient) and header.coefficient >= 0):
            raise ProtocolError(f"coefficient {header.coefficient}")
        return header

    def require(self, **expected: object) -> None:
        """Refuse a header in which any of these fields is another."""
        for field, value in expected.items():
            if (found := getattr(self, field)) != value:
                shown = "another" if isinstance(found, bytes) else f"{found}, not {value}"
                raise ProtocolError(f"{field}: {shown}")
