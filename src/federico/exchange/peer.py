"""What a peer on the network is made of: its name, what it has agreed on with the others, and its books."""

from dataclasses import dataclass
from functools import cached_property

from federico.exchange.base import Traffic
from federico.exchange.conduct import Conduct
from federico.exchange.limits import Limits
from federico.exchange.roster import Roster
from federico.learning.blueprint import Blueprint
from federico.wire.header import Header, Kind
from federico.wire.rows import WIDTHS
from federico.wire.schema import Layout, Schema
from federico.wire.seal import Seal, Sealed


def schema_of(blueprint: Blueprint, precision: str | None = None) -> Schema:
    """What the members must agree on about the model; sent in its own numbers unless others are named."""
    dtype = str(blueprint.dtype).removeprefix("torch.")
    return Schema.of({slot.name: slot.shape for slot in blueprint.slots}, dtype, precision)


@dataclass(frozen=True)
class Peer:
    """One member, seen from inside."""

    name: str
    roster: Roster
    schema: Schema
    limits: Limits
    seal: Seal
    conduct: Conduct
    traffic: Traffic

    @cached_property
    def number(self) -> int:
        """Its place among the members: its number as a client, and as the owner of its model."""
        return self.roster.members.index(self.name)

    @cached_property
    def layout(self) -> Layout:
        """How models and updates are cut into chunks."""
        width = WIDTHS[self.schema.wire]
        return Layout(self.schema.size, width, self.limits.chunk_bytes // width)

    def announce(
        self,
        kind: Kind,
        digests: tuple[bytes, ...],
        *,
        owner: int,
        contributor: int,
        round_index: int,
        version: int,
        epoch: int,
        digest: bytes,
        nonce: bytes,
        coefficient: float = 0.0,
    ) -> bytes:
        """A sealed message of this peer's about a row in chunks with these digests."""
        header = Header(
            kind, self.roster.digest, self.schema.hash, owner, contributor, round_index, version, epoch, coefficient,
            self.layout.bytes, self.layout.chunk, digest, nonce,
        )  # fmt: skip
        return self.seal.seal(header, digests)

    def open(self, message: bytes, sender: str, **expected: object) -> Sealed:
        """A sealed message of `sender` about a row of this federation's model, with these fields in its header."""
        sealed = self.seal.open(message, sender, self.layout.chunks)
        sealed.header.require(
            federation=self.roster.digest,
            schema=self.schema.hash,
            size=self.layout.bytes,
            chunk=self.layout.chunk,
            **expected,
        )
        return sealed
