import hashlib
from dataclasses import replace

import numpy as np
import pytest

from federico.errors import ProtocolError, RunError
from federico.exchange.protocol import Traffic
from federico.learning.rows import RowFile
from federico.network.limits import Limits
from federico.network.local_peer import LocalPeer
from federico.network.model_store import digest_of, digests_of
from federico.network.reputation import Reputation
from federico.network.roster import Roster
from federico.network.update_store import UpdateStore
from federico.network.wire.header import Kind, MessageHeader
from federico.network.wire.messages import ChunkUpload, RefusedError
from federico.network.wire.schema import ModelSchema
from federico.network.wire.signing import SignedMessage

EPOCH, VERSION, SIZE = 77, 5, 600
LIMITS = Limits(staleness=2, clip=2, refuse=100, samples=1000, chunk_bytes=1024)


@pytest.fixture
def peer() -> LocalPeer:
    roster = Roster("test", b"d" * 32, ("a", "b", "c"))
    schema = ModelSchema.of({"w": (SIZE,)}, "float32")
    return LocalPeer("a", roster, schema, LIMITS, None, Reputation(LIMITS), Traffic(3))  # type: ignore[arg-type]


@pytest.fixture
def inbox(peer: LocalPeer) -> UpdateStore:
    inbox = UpdateStore(peer)
    inbox.accept(EPOCH, VERSION)
    return inbox


def sealed(
    peer: LocalPeer,
    row: np.ndarray,
    contributor: int = 1,
    version: int = VERSION,
    **changed: object,
) -> SignedMessage:
    digests, chunk_plan = digests_of(row[part] for part in peer.chunk_plan.parts), peer.chunk_plan
    header = MessageHeader(
        Kind.UPDATE, b"d" * 32, peer.schema.hash, 0, contributor, 1, version, EPOCH, 10.0, chunk_plan.bytes, chunk_plan.chunk,
        digest_of(digests), hashlib.md5(repr((contributor, version, changed)).encode()).digest(),
    )  # fmt: skip
    return SignedMessage(replace(header, **changed), digests)


def row(length: float = 1.0) -> np.ndarray:
    return np.full(SIZE, length / SIZE**0.5, np.float32)


def parts(
    peer: LocalPeer, sent: SignedMessage, numbers: np.ndarray
) -> list[tuple[ChunkUpload, bytes]]:
    chunk_plan = peer.chunk_plan
    return [
        (ChunkUpload(sent.header.nonce, k), numbers[chunk_plan.part(k)].tobytes())
        for k in range(chunk_plan.chunks)
    ]


def send(
    inbox: UpdateStore, peer: LocalPeer, numbers: np.ndarray, **changed: object
) -> SignedMessage:
    sent = sealed(peer, numbers, **changed)
    inbox.offer(sent)
    for part, payload in parts(peer, sent, numbers):
        inbox.add(sent.header.contributor, part, payload)
    return sent


def test_an_update_arrives_whole_and_once(inbox: UpdateStore, peer: LocalPeer) -> None:
    numbers = np.linspace(-1, 1, SIZE, dtype=np.float32)
    send(inbox, peer, numbers)
    (parcel,) = inbox.take(own_norm=100)
    assert np.array_equal(parcel.row_file.look(), numbers)
    assert parcel.norm == pytest.approx(np.linalg.norm(numbers), rel=1e-5)
    assert inbox.take(own_norm=100) == []


def test_updates_are_in_order_of_contributors(inbox: UpdateStore, peer: LocalPeer) -> None:
    for contributor in (2, 1):
        send(inbox, peer, row(), contributor=contributor)
    assert [parcel.sealed.header.contributor for parcel in inbox.take(1)] == [1, 2]


def test_half_an_update_is_none(inbox: UpdateStore, peer: LocalPeer) -> None:
    sent = sealed(peer, row())
    inbox.offer(sent)
    first, *rest = parts(peer, sent, row())
    inbox.add(1, *first)
    assert inbox.take(1) == []
    for part in rest:
        inbox.add(1, *part)
    assert len(inbox.take(1)) == 1


def test_a_repeated_question_changes_nothing(inbox: UpdateStore, peer: LocalPeer) -> None:
    """Its answer was lost: the sender may say everything twice before the update is whole, and its last chunk after."""
    sent = sealed(peer, row())
    for _ in range(2):
        inbox.offer(sent)
        assert inbox.add(1, *parts(peer, sent, row())[0]) is (_ == 0)
    for part in parts(peer, sent, row())[1:]:
        assert inbox.add(1, *part)
    assert not inbox.add(1, *parts(peer, sent, row())[-1])
    assert len(inbox.take(1)) == 1


def test_a_replay_is_refused_before_and_after_it_is_collected(
    inbox: UpdateStore, peer: LocalPeer
) -> None:
    sent = send(inbox, peer, row())
    with pytest.raises(RefusedError, match="came before"):
        inbox.offer(sent)
    inbox.take(1)
    with pytest.raises(RefusedError, match="came before"):
        inbox.offer(sent)
    with pytest.raises(RefusedError, match="no such update"):
        inbox.add(1, *parts(peer, sent, row())[0])


def test_one_update_per_contributor_and_version(inbox: UpdateStore, peer: LocalPeer) -> None:
    send(inbox, peer, row())
    with pytest.raises(RefusedError, match="came before"):
        send(inbox, peer, row(), nonce=b"another nonce...")
    send(inbox, peer, row(), contributor=2)


def test_a_newer_update_takes_the_place_of_one_not_collected(
    inbox: UpdateStore, peer: LocalPeer
) -> None:
    send(inbox, peer, row(1), version=VERSION - 1)
    send(inbox, peer, row(2), version=VERSION)
    (parcel,) = inbox.take(10)
    assert parcel.norm == pytest.approx(2)


@pytest.mark.parametrize(("age", "fits"), [(0, True), (2, True), (3, False)])
def test_old_updates_are_taken_up_to_the_staleness_agreed(
    inbox: UpdateStore, peer: LocalPeer, age: int, fits: bool
) -> None:
    if fits:
        send(inbox, peer, row(), version=VERSION - age)
        assert len(inbox.take(1)) == 1
        return
    with pytest.raises(RefusedError, match="too old"):
        send(inbox, peer, row(), version=VERSION - age)


def test_a_version_that_never_was_is_against_the_rules(inbox: UpdateStore, peer: LocalPeer) -> None:
    with pytest.raises(ProtocolError, match="newest is 5"):
        send(inbox, peer, row(), version=VERSION + 1)


def test_an_update_from_before_a_restart_is_refused(inbox: UpdateStore, peer: LocalPeer) -> None:
    with pytest.raises(RefusedError, match="restart"):
        send(inbox, peer, row(), epoch=EPOCH + 1)


def test_nobody_has_more_than_everybodys_samples(inbox: UpdateStore, peer: LocalPeer) -> None:
    with pytest.raises(ProtocolError, match="coefficient 1001"):
        send(inbox, peer, row(), coefficient=1001.0)


def test_an_update_without_weight_is_refused(inbox: UpdateStore, peer: LocalPeer) -> None:
    """SingleProcess in an average, it would divide by zero."""
    with pytest.raises(ProtocolError, match="coefficient 0"):
        send(inbox, peer, row(), coefficient=0.0)


def test_a_chunk_nobody_announced_is_refused(inbox: UpdateStore, peer: LocalPeer) -> None:
    sent = sealed(peer, row())
    with pytest.raises(RefusedError, match="no such update"):
        inbox.add(1, *parts(peer, sent, row())[0])
    inbox.offer(sent)
    with pytest.raises(RefusedError, match="no such update"):
        inbox.add(2, *parts(peer, sent, row())[0])


@pytest.mark.parametrize(
    ("index", "payload", "reason"),
    [
        (0, bytes(1024), "not the announced"),
        (0, bytes(1023), "chunk 0 of 1023"),
        (2, bytes(1024), "chunk 2 of 1024"),
        (9, bytes(1024), "chunk 9"),
    ],
)
def test_a_chunk_must_be_the_announced_one(
    inbox: UpdateStore, peer: LocalPeer, index: int, payload: bytes, reason: str
) -> None:
    sent = sealed(peer, row())
    inbox.offer(sent)
    with pytest.raises(ProtocolError, match=reason):
        inbox.add(1, ChunkUpload(sent.header.nonce, index), payload)


def test_numbers_that_are_none_are_refused_though_announced(
    inbox: UpdateStore, peer: LocalPeer
) -> None:
    numbers = row()
    numbers[-1] = np.nan
    with pytest.raises(ProtocolError, match="not finite"):
        send(inbox, peer, numbers)
    assert inbox.take(1) == []


def test_a_long_update_is_shortened_to_a_multiple_of_ones_own(
    inbox: UpdateStore, peer: LocalPeer
) -> None:
    send(inbox, peer, row(50))
    (parcel,) = inbox.take(own_norm=3)
    assert np.linalg.norm(parcel.row_file.look()) == pytest.approx(2 * 3, rel=1e-5)
    assert peer.reputation.trusts("b")
    assert peer.reputation.standing("b").strikes == 0


def test_an_absurd_update_is_refused_and_counts(inbox: UpdateStore, peer: LocalPeer) -> None:
    send(inbox, peer, row(1e12))
    assert inbox.take(own_norm=1) == []
    assert peer.reputation.standing("b").strikes == 1


def test_where_the_disk_is_full_nothing_is_taken(
    inbox: UpdateStore,
    peer: LocalPeer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def full(*_: object) -> RowFile:
        raise RunError("No space left on device")

    monkeypatch.setattr("federico.network.update_store.RowFile", full)
    with pytest.raises(RefusedError, match="no room"):
        inbox.offer(sealed(peer, row()))
    assert "No space left" in caplog.text
    assert peer.reputation.standing("b").strikes == 0


def test_the_announcement_alone_takes_no_memory_of_a_refused_update(
    inbox: UpdateStore, peer: LocalPeer
) -> None:
    with pytest.raises(RefusedError):
        inbox.offer(sealed(peer, row(), version=1))
    assert inbox._parcels == {}


def test_what_was_begun_and_never_ended_takes_no_room_for_ever(
    inbox: UpdateStore, peer: LocalPeer
) -> None:
    begun = sealed(peer, row())
    inbox.offer(begun)
    first, payload = parts(peer, begun, row())[0]
    inbox.accept(EPOCH, VERSION + LIMITS.staleness)
    assert inbox.add(1, first, payload), "old, but not too old"
    inbox.accept(EPOCH, VERSION + LIMITS.staleness + 1)
    with pytest.raises(RefusedError, match="no such update"):
        inbox.add(1, first, payload)


def test_a_disk_that_fails_refuses_the_update_alone(
    inbox: UpdateStore, peer: LocalPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RunError("no room")

    sent = sealed(peer, row())
    inbox.offer(sent)
    with monkeypatch.context() as patch:
        patch.setattr(RowFile, "__setitem__", fail)
        with pytest.raises(RefusedError, match="no room"):
            inbox.add(1, *parts(peer, sent, row())[0])
    for part, payload in parts(peer, sent, row()):
        inbox.add(1, part, payload)
    assert len(inbox.take(1)) == 1
