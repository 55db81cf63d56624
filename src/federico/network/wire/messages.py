"""The small questions between sealed messages, and how one says no."""

import struct
from dataclasses import dataclass
from typing import ClassVar, Self

from federico.errors import FedericoError, ProtocolError

LATEST = 0
"""Asks for whichever version is the newest; rounds are counted from 1."""
_LONGEST_REASON = 200
_LATER, _NO = b"~", b"-"


class RefusedError(FedericoError):
    """A message within the rules that is not wanted: too old, come before, of a version that is gone."""


class FixedMessage:
    """A fixed handful of numbers; each kind has its layout."""

    layout: ClassVar[struct.Struct]

    def encode(self) -> bytes:
        """As bytes."""
        return self.layout.pack(*vars(self).values())

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """The question in these bytes."""
        if len(data) != cls.layout.size:
            raise ProtocolError(f"a question of {len(data)} bytes, not {cls.layout.size}")
        return cls(*cls.layout.unpack(data))


@dataclass(frozen=True)
class ModelRequest(FixedMessage):
    """Asks an owner to announce its model."""

    layout = struct.Struct("<16sI")
    nonce: bytes
    version: int
    """The round whose model is wanted, or `LATEST`."""


@dataclass(frozen=True)
class ChunkRequest(FixedMessage):
    """Asks an owner for one chunk of an announced model."""

    layout = struct.Struct("<32sI?")
    digest: bytes
    """Of the whole model, so that chunks of two versions never meet."""
    index: int
    for_evaluation: bool = False
    """Whether it is read to evaluate or predict, so that both sides count its bytes alike."""


@dataclass(frozen=True)
class ChunkUpload(FixedMessage):
    """Says which chunk of which offered update comes with it."""

    layout = struct.Struct("<16sI")
    nonce: bytes
    index: int


def no(reason: object) -> bytes:
    """An answer that ends the matter."""
    return _NO + str(reason).encode()[:_LONGEST_REASON]


def later(reason: object) -> bytes:
    """An answer that invites to ask again."""
    return _LATER + str(reason).encode()[:_LONGEST_REASON]


def refusal(answer: bytes) -> RefusedError | None:
    """What is said with `no`; anything else is a matter of time."""
    if answer[:1] != _NO:
        return None
    text = answer[1 : _LONGEST_REASON + 1].decode(errors="replace")
    return RefusedError("".join(letter for letter in text if letter.isprintable()))
