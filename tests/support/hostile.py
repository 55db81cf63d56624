"""Peers that break the rules, with certificates that are in order."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import zenoh

from federico.exchange.protocol import Traffic
from federico.network.client import OwnerClient, RequestSender
from federico.network.model_store import ModelStore
from federico.network.presence import Presence
from federico.network.protocol import Terms
from federico.network.reputation import Reputation
from federico.network.server import PeerServer
from federico.network.update_store import UpdateStore
from federico.network.wire.messages import MessageHeader
from federico.network.wire.signing import Signer


class HostileSigner:
    """Signs with a real key, but other headers than it is told to, or spoils what it signed."""

    def __init__(
        self,
        signer: Signer,
        message: Callable[[bytes], bytes] = lambda message: message,
        **changed: object,
    ) -> None:
        """`changed` are fields of every header; `message` changes the signed message."""
        self._signer = signer
        self._changed = changed
        self._message = message
        self.verify = signer.verify

    def sign(self, header: MessageHeader, digests: Sequence[bytes]) -> bytes:
        return self._message(self._signer.sign(replace(header, **self._changed), digests))


class HostileModelStore(ModelStore):
    """Sends other chunks than it announced."""

    def __init__(self, *args: object, change: Callable[[bytes], bytes], **named: object) -> None:
        super().__init__(*args, **named)
        self._change = change

    def chunk(self, digest: bytes, reader: int, index: int) -> bytes | None:
        chunk = super().chunk(digest, reader, index)
        return None if chunk is None else self._change(chunk)


def repeat_first() -> Callable[[bytes], bytes]:
    """Whatever is to be sent, what was sent first is sent again."""
    first: list[bytes] = []

    def repeat(message: bytes) -> bytes:
        first.append(message)
        return first[0]

    return repeat


def bare_server(
    session: zenoh.Session, terms: Terms, models: ModelStore | None = None
) -> PeerServer:
    """A peer that answers, and checks nothing of what it publishes."""
    plan = terms.chunk_plan
    models = models or ModelStore(plan, terms.schema.wire)
    updates = UpdateStore(plan, terms.schema.dtype)
    traffic = Traffic(len(terms.roster.members))
    return PeerServer(session, terms, models, updates, Reputation(terms.limits), traffic)


def bare_client(
    session: zenoh.Session, terms: Terms, owner: int, presence: Presence
) -> tuple[OwnerClient, RequestSender]:
    """A visitor that checks nothing of what it delivers."""
    sender = RequestSender(session, terms.limits)
    traffic = Traffic(len(terms.roster.members))
    return OwnerClient(terms, owner, sender, presence, traffic), sender
