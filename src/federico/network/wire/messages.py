"""The messages between peers as bytes: fixed layouts, no text, no lengths to believe.

A message is read from exactly as many bytes as its layout has. Everything else about it (who may
say it, when, and about what) is for `protocol.py` to check.
"""

import math
import struct
from dataclasses import astuple, dataclass, field
from enum import IntEnum
from typing import ClassVar, Self

from federico.errors import FedericoError, ProtocolError

MAGIC = b"FRCO"
FORMAT = 2
"""Number of this message format; a peer that speaks another one is refused, without blame."""
NONCE_BYTES = 16
DIGEST_BYTES = 32
LATEST = 0
"""Requests whichever version of a model is the newest; versions are counted from 1."""

LARGEST_MESSAGE = 4 << 20
"""Bytes of the largest message that a peer takes in."""
LONGEST_REASON = 200
"""Characters of a reason that are sent, read, kept and shown."""
BUSY_MARK = b"~"
REFUSED_MARK = b"-"


class Kind(IntEnum):
    """What a signed message announces."""

    MODEL = 1
    """The owner's model, announced to a visitor that requested it."""
    UPDATE = 2
    """A visitor's update, offered to the owner of the model."""


@dataclass(frozen=True)
class MessageHeader:
    """Says what the announced numbers are, whose, for whom, and made of what."""

    layout: ClassVar = struct.Struct("<4sBBH32s32sHHIIQdQI32s16sd")

    kind: Kind
    federation: bytes
    """SHA-256 of the federation file that all members agreed on."""
    schema: bytes
    """SHA-256 of the model's schema."""
    owner: int
    """Number of the member whose model it is."""
    visitor: int
    """Number of the member that requested the model, or that made the update."""
    round_index: int
    """The sender's round."""
    version: int
    """Version of the owner's model: the round of the owner that started with it."""
    incarnation: int
    """Drawn by the owner at each start, so that versions from before a restart are recognised."""
    coefficient: float
    """The coefficient c_ib of an update; 0 for a model."""
    size: int
    """Bytes of all numbers together."""
    chunk_numbers: int
    """Numbers in a chunk."""
    digest: bytes
    """SHA-256 of the SHA-256 digests of all chunks, joined."""
    nonce: bytes
    """For a model the nonce of the request, so that an old announcement cannot pass for a new one.
    For an update a new one, which names the update while its chunks are uploaded."""
    sent_at: float = field(compare=False)
    """When it was signed by the sender's clock, in seconds since 1970: how clocks that are set
    wrong are noticed. Nothing else depends on it."""

    def encode(self) -> bytes:
        """The header as `HEADER_BYTES` bytes."""
        kind, *rest = astuple(self)
        reserved = 0
        return self.layout.pack(MAGIC, FORMAT, kind, reserved, *rest)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read a header, with each field within its own bounds."""
        if len(data) != cls.layout.size:
            raise ProtocolError(f"a header of {len(data)} bytes, not {cls.layout.size}")

        magic, message_format, kind, reserved, *rest = cls.layout.unpack(data)
        if magic != MAGIC or reserved != 0:
            raise ProtocolError("not a message of federico")
        if message_format != FORMAT:
            raise RefusedError(
                f"message format {message_format}, and the other side speaks {FORMAT}: "
                "upgrade the older of the two"
            )
        if kind not in tuple(Kind):
            raise ProtocolError(f"unknown kind of message {kind}")

        header = cls(Kind(kind), *rest)
        if not math.isfinite(header.coefficient) or header.coefficient < 0:
            raise ProtocolError(f"coefficient {header.coefficient}")
        if not math.isfinite(header.sent_at):
            raise ProtocolError(f"sent at {header.sent_at}")
        return header

    def require(self, **expected: object) -> None:
        """Raise a ProtocolError that names the first field with another value than expected."""
        for name, value in expected.items():
            found = getattr(self, name)
            if found == value:
                continue
            if isinstance(found, bytes):
                raise ProtocolError(f"{name}: another")
            raise ProtocolError(f"{name}: {found}, not {value}")


HEADER_BYTES = MessageHeader.layout.size


@dataclass(frozen=True)
class SignedMessage:
    """A header and the digests of the announced chunks, whose sender is proven."""

    header: MessageHeader
    digests: tuple[bytes, ...]
    """SHA-256 of each chunk, in order."""


class FixedMessage:
    """A message that is a fixed handful of fields, without a signature."""

    layout: ClassVar[struct.Struct]

    def encode(self) -> bytes:
        """The message as bytes."""
        return self.layout.pack(*vars(self).values())

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read the message from exactly as many bytes as it has."""
        if len(data) != cls.layout.size:
            raise ProtocolError(f"a request of {len(data)} bytes, not {cls.layout.size}")
        return cls(*cls.layout.unpack(data))


@dataclass(frozen=True)
class ModelRequest(FixedMessage):
    """Requests that an owner announces its model."""

    layout = struct.Struct("<16sI")
    nonce: bytes
    version: int
    """The version that is wanted, or `LATEST`."""


@dataclass(frozen=True)
class ChunkRequest(FixedMessage):
    """Requests one chunk of an announced model."""

    layout = struct.Struct("<32sI?")
    digest: bytes
    """Digest of the whole model, so that chunks of two versions never mix."""
    index: int
    for_evaluation: bool = False
    """Whether it is read to evaluate or predict, so that both sides count its bytes alike."""


@dataclass(frozen=True)
class ChunkUpload(FixedMessage):
    """Says which chunk of which offered update comes with it."""

    layout = struct.Struct("<16sI")
    nonce: bytes
    """The nonce of the offer."""
    index: int


class RefusedError(FedericoError):
    """Another peer refused a request within the rules: too late, repeated, or not wanted."""


def encode_busy(reason: str) -> bytes:
    """An answer that invites the visitor to try again later."""
    return BUSY_MARK + reason.encode()[:LONGEST_REASON]


def encode_refusal(reason: str) -> bytes:
    """An answer that ends the matter."""
    return REFUSED_MARK + reason.encode()[:LONGEST_REASON]


def decode_refusal(answer: bytes) -> RefusedError | None:
    """The refusal in an error answer; None where trying again may help."""
    if not answer.startswith(REFUSED_MARK):
        return None
    reason = answer[1 : LONGEST_REASON + 1].decode(errors="replace")
    return RefusedError(in_one_line(reason))


def in_one_line(reason: str) -> str:
    """A text that others had a hand in: cut, and without what cannot be printed."""
    letters = [letter for letter in reason[:LONGEST_REASON] if letter.isprintable()]
    return "".join(letters)
