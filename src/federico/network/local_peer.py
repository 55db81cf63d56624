"""What a peer on the network is made of: its name, what it has agreed on with the others, and its books."""

from dataclasses import dataclass
from functools import cached_property

from federico.exchange.protocol import Traffic
from federico.learning.layout import ModelLayout
from federico.network.limits import Limits
from federico.network.reputation import Reputation
from federico.network.roster import Roster
from federico.network.wire.encoding import WIDTHS
from federico.network.wire.header import Kind, MessageHeader
from federico.network.wire.schema import ChunkPlan, ModelSchema
from federico.network.wire.signing import SignedMessage, Signer


def schema_of(layout: ModelLayout, precision: str | None = None) -> ModelSchema:
    """What the members must agree on about the model; sent in its own numbers unless others are named."""
    dtype = str(layout.dtype).removeprefix("torch.")
    return ModelSchema.of({slot.name: slot.shape for slot in layout.slots}, dtype, precision)


@dataclass(frozen=True)
class LocalPeer:
    """One member, seen from inside."""

    name: str
    roster: Roster
    schema: ModelSchema
    limits: Limits
    seal: Signer
    reputation: Reputation
    traffic: Traffic

    @cached_property
    def number(self) -> int:
        """Its place among the members: its number as a client, and as the owner of its model."""
        return self.roster.members.index(self.name)

    @cached_property
    def chunk_plan(self) -> ChunkPlan:
        """How models and updates are cut into chunks."""
        width = WIDTHS[self.schema.wire]
        return ChunkPlan(self.schema.size, width, self.limits.chunk_bytes // width)

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
        header = MessageHeader(
            kind, self.roster.digest, self.schema.hash, owner, contributor, round_index, version, epoch, coefficient,
            self.chunk_plan.bytes, self.chunk_plan.chunk, digest, nonce,
        )  # fmt: skip
        return self.seal.seal(header, digests)

    def open(self, message: bytes, sender: str, **expected: object) -> SignedMessage:
        """A sealed message of `sender` about a row of this federation's model, with these fields in its header."""
        sealed = self.seal.open(message, sender, self.chunk_plan.chunks)
        sealed.header.require(
            federation=self.roster.digest,
            schema=self.schema.hash,
            size=self.chunk_plan.bytes,
            chunk=self.chunk_plan.chunk,
            **expected,
        )
        return sealed
