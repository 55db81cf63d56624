"""The server on a bus: every request gets its answer, and nobody holds up another."""

import gc
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import zenoh

from federico.exchange.protocol import Traffic
from federico.network.model_store import ModelStore
from federico.network.protocol import OwnLengths, StoreChunk, Terms, Topic
from federico.network.reputation import Reputation
from federico.network.server import MOST_WAITING, PeerServer
from federico.network.update_store import UpdateStore
from federico.network.wire.encoding import chunk_digests
from federico.network.wire.messages import ChunkRequest, ChunkUpload, Kind, ModelRequest
from tests.network.conftest import LIMITS, ROSTER, SIZE

MOST_BYTES = 2 * LIMITS.window * LIMITS.chunk_bytes
LATEST = ModelRequest(b"q" * 16, 0).encode()


class ModelStoreThatWaits(ModelStore):
    """Gives member b its chunks only when it is free; c always."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)
        self.asked = threading.Event()
        self.free = threading.Event()

    def chunk(self, digest: bytes, reader: int, index: int) -> bytes:
        if ROSTER.members[reader] == "b":
            self.asked.set()
            assert self.free.wait(60)
        return b"a chunk"


class BrokenModelStore(ModelStore):
    """Has a bug."""

    def chunk(self, digest: bytes, reader: int, index: int) -> bytes:
        raise ZeroDivisionError("a bug")


class FullUpdateStore(UpdateStore):
    """Has no room for the first chunk that comes."""

    full = True

    def store(self, chunk: StoreChunk) -> bool:
        had_no_room = self.full
        self.full = False
        return not had_no_room and super().store(chunk)


Serve = Callable[..., PeerServer]


@pytest.fixture
def terms(make_terms) -> Terms:
    return make_terms("a")


@pytest.fixture
def reputation() -> Reputation:
    return Reputation(LIMITS)


@pytest.fixture
def serve(bus: zenoh.Session, terms: Terms, reputation: Reputation) -> Iterator[Serve]:
    """Starts the server of member a, with the stores a test wants."""
    servers = []

    def start(models: ModelStore | None = None, updates: UpdateStore | None = None) -> PeerServer:
        models = models or ModelStore(terms.chunk_plan, "float32")
        updates = updates or UpdateStore(terms.chunk_plan, "float32")
        servers.append(PeerServer(bus, terms, models, updates, reputation, Traffic(3)))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def send(
    bus: zenoh.Session, visitor: str, topic: str, request: bytes = b"", payload: bytes = b""
) -> "zenoh.Handler[zenoh.Reply]":
    key = ROSTER.request_key("a", visitor, topic)
    return bus.get(key, attachment=request, payload=payload, timeout=60.0)


def answers(replies: "zenoh.Handler[zenoh.Reply]") -> list[bytes]:
    """Every answer, be it an error or not."""
    return [(reply.ok or reply.err).payload.to_bytes() for reply in replies]


def request_chunk(bus: zenoh.Session, visitor: str, size: int = 0) -> "zenoh.Handler[zenoh.Reply]":
    return send(bus, visitor, Topic.REQUEST_CHUNK, ChunkRequest(b"d" * 32, 0).encode(), bytes(size))


def test_a_member_gets_its_answer_under_its_name(
    bus: zenoh.Session, serve: Serve, make_terms
) -> None:
    serve().publish(1, np.ones(SIZE, np.float32))
    for name in ("b", "c"):
        (message,) = answers(send(bus, name, Topic.REQUEST_MODEL, LATEST))
        visitor = ROSTER.members.index(name)
        make_terms(name).verify(message, "a", kind=Kind.MODEL, owner=0, visitor=visitor, version=1)


def test_a_stranger_gets_no_answer(bus: zenoh.Session, serve: Serve) -> None:
    serve()
    assert answers(send(bus, "mallory", Topic.REQUEST_MODEL, LATEST)) == []


def test_one_member_holds_up_no_other(bus: zenoh.Session, terms: Terms, serve: Serve) -> None:
    models = ModelStoreThatWaits(terms.chunk_plan, "float32")
    serve(models)
    slow = request_chunk(bus, "b")
    assert models.asked.wait(60)
    assert answers(request_chunk(bus, "c")) == [b"a chunk"]
    models.free.set()
    assert answers(slow) == [b"a chunk"]


@pytest.mark.parametrize(
    ("size", "kept"), [(0, MOST_WAITING), (MOST_BYTES // 4 - 100, 4), (3 * MOST_BYTES, 1)]
)
def test_what_waits_of_one_member_has_a_bound(
    bus: zenoh.Session, terms: Terms, serve: Serve, size: int, kept: int
) -> None:
    """However large its requests are, one of them always has room: else none would get through."""
    models = ModelStoreThatWaits(terms.chunk_plan, "float32")
    serve(models)
    first = request_chunk(bus, "b", size)
    assert models.asked.wait(60)
    flood = [request_chunk(bus, "b", size) for _ in range(2 * MOST_WAITING)]
    assert [answers(replies) for replies in flood[kept:]] == [[]] * (2 * MOST_WAITING - kept)
    assert answers(request_chunk(bus, "c")) == [b"a chunk"], "others have queues of their own"
    models.free.set()
    assert [len(answers(replies)) for replies in (first, *flood[:kept])] == [1] * (kept + 1)
    assert answers(request_chunk(bus, "b")) == [b"a chunk"], "what is answered makes room"


def test_a_model_to_come_is_answered_with_busy(bus: zenoh.Session, serve: Serve) -> None:
    serve()
    assert answers(send(bus, "b", Topic.REQUEST_MODEL, LATEST)) == [b"~not there yet"]


def test_a_version_that_is_gone_is_refused(
    bus: zenoh.Session, serve: Serve, reputation: Reputation
) -> None:
    serve()
    assert answers(request_chunk(bus, "b")) == [b"-this version is gone; request the newest"]
    assert reputation.all_offences() == {}


def test_a_violation_is_refused_and_held_against_its_sender(
    bus: zenoh.Session, serve: Serve, reputation: Reputation
) -> None:
    serve()
    assert answers(send(bus, "b", Topic.REQUEST_MODEL)) == [b"-a request of 0 bytes, not 20"]
    assert reputation.offences("b").strikes == 1
    assert answers(send(bus, "b", "gossip")) == [b"-a request about 'gossip'"]
    assert reputation.offences("b").strikes == 2


def test_one_in_quarantine_is_not_heard(
    bus: zenoh.Session, serve: Serve, reputation: Reputation
) -> None:
    serve()
    for _ in range(20):
        reputation.strike("b", "test")
    assert answers(send(bus, "b", Topic.REQUEST_MODEL, LATEST)) == [b"-b is not heard now"]


def test_a_bug_is_answered_too(
    bus: zenoh.Session, terms: Terms, serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    serve(BrokenModelStore(terms.chunk_plan, "float32"))
    assert answers(request_chunk(bus, "b")) == [b"-internal error"]
    assert "ZeroDivisionError: a bug" in caplog.text, "a trace, here alone"


@pytest.fixture
def upload(bus: zenoh.Session, make_terms) -> Callable[[], list[bytes]]:
    """Has b offer an update of ones on version 1 and upload it; returns the answers."""
    terms = make_terms("b")
    row = np.ones(SIZE, np.float32)
    offer = terms.sign(
        Kind.UPDATE,
        chunk_digests(row[chunk] for chunk in terms.chunk_plan),
        owner=0,
        visitor=1,
        round_index=1,
        version=1,
        incarnation=terms.incarnation,
        nonce=b"n" * 16,
        coefficient=3.0,
    )

    def send_all(chunks: int = terms.chunk_plan.chunks) -> list[bytes]:
        got = answers(send(bus, "b", Topic.OFFER_UPDATE, offer))
        for index, chunk in enumerate([*terms.chunk_plan][:chunks]):
            request = ChunkUpload(b"n" * 16, index).encode()
            got += answers(send(bus, "b", Topic.UPLOAD_CHUNK, request, row[chunk].tobytes()))
        return got

    return send_all


def test_an_update_is_acknowledged_chunk_by_chunk_and_collected_once(serve: Serve, upload) -> None:
    server = serve()
    server.publish(1, np.ones(SIZE, np.float32))
    assert upload() == [b""] * 4
    ((contributor, coefficient, row),) = server.collect(OwnLengths(100.0, 100.0))
    assert (contributor, coefficient) == (1, 3.0)
    assert np.array_equal(row.look(), np.ones(SIZE, np.float32))
    assert server.collect(OwnLengths(100.0, 100.0)) == []


def test_an_update_much_longer_than_ones_own_is_shortened(
    serve: Serve, upload, reputation: Reputation
) -> None:
    server = serve()
    server.publish(1, np.ones(SIZE, np.float32))
    upload()
    ((_, _, row),) = server.collect(OwnLengths(3.0, 3.0))
    assert np.linalg.norm(row.look()) == pytest.approx(3.0 * LIMITS.clip, rel=1e-5)
    assert reputation.all_offences() == {}


def test_an_absurd_update_is_not_collected_and_counts(
    serve: Serve, upload, reputation: Reputation
) -> None:
    server = serve()
    server.publish(1, np.ones(SIZE, np.float32))
    upload()
    assert server.collect(OwnLengths(1e-3, 1e-3)) == []
    assert reputation.offences("b").strikes == 1


def test_an_owner_that_hardly_moves_any_more_blames_nobody_who_does(
    serve: Serve, upload, reputation: Reputation
) -> None:
    server = serve()
    server.publish(1, np.ones(SIZE, np.float32))
    upload()
    ((_, _, row),) = server.collect(OwnLengths(last=1e-6, longest=1.0))
    assert np.linalg.norm(row.look()) == pytest.approx(1e-6 * LIMITS.clip, rel=1e-5)
    assert reputation.all_offences() == {}


def test_where_there_is_no_room_the_offer_is_refused(
    serve: Serve, upload, reputation: Reputation, tmp_path: Path, make_terms
) -> None:
    class NoRoom(UpdateStore):
        def make_room(self, update: object) -> bool:
            return False

    server = serve(updates=NoRoom(make_terms("a").chunk_plan, "float32"))
    server.publish(1, np.ones(SIZE, np.float32))
    assert upload()[0] == b"-no room for it"
    assert server.collect(OwnLengths(100.0, 100.0)) == []
    assert reputation.all_offences() == {}


def test_a_disk_that_fails_refuses_a_chunk_which_may_come_again(
    serve: Serve, upload, terms: Terms
) -> None:
    server = serve(updates=FullUpdateStore(terms.chunk_plan, "float32"))
    server.publish(1, np.ones(SIZE, np.float32))
    assert upload() == [b"", b"-no room for it", b"", b""]
    assert upload() == [b""] * 4
    assert len(server.collect(OwnLengths(100.0, 100.0))) == 1


def test_a_flood_is_answered_to_a_bounded_extent_and_delays_nobody_else(
    bus: zenoh.Session, serve: Serve
) -> None:
    serve().publish(1, np.ones(SIZE, np.float32))
    pending = [send(bus, "b", Topic.REQUEST_MODEL, LATEST) for _ in range(2000)]
    assert len(answers(send(bus, "c", Topic.REQUEST_MODEL, LATEST))) == 1
    answered = sum(len(answers(replies)) for replies in pending)
    assert 0 < answered < 500


def test_a_flood_is_named_once_more_was_dropped_than_any_window_holds(
    bus: zenoh.Session, terms: Terms, reputation: Reputation
) -> None:
    models = ModelStore(terms.chunk_plan, "float32")
    updates = UpdateStore(terms.chunk_plan, "float32")
    named: list[str] = []
    server = PeerServer(bus, terms, models, updates, reputation, Traffic(3), named.append)
    try:
        pending = [send(bus, "b", Topic.OFFER_UPDATE) for _ in range(3000)]
        assert len(answers(send(bus, "c", Topic.REQUEST_MODEL, LATEST))) == 1
        for replies in pending:
            answers(replies)
        assert set(named) == {"b"}
    finally:
        server.close()


def test_a_transfer_that_is_half_finished_ends_when_its_sender_has_given_up(
    bus: zenoh.Session, terms: Terms, reputation: Reputation, upload
) -> None:
    """However long the owner's round takes."""
    now = [100.0]
    updates = UpdateStore(terms.chunk_plan, "float32")
    models = ModelStore(terms.chunk_plan, "float32")
    server = PeerServer(bus, terms, models, updates, reputation, Traffic(3), clock=lambda: now[0])
    try:
        server.publish(1, np.ones(SIZE, np.float32))
        assert upload(chunks=1) == [b"", b""]
        assert updates.waiting == 1
        now[0] += 2 * LIMITS.deadline
        (refused,) = answers(send(bus, "b", Topic.UPLOAD_CHUNK, ChunkUpload(b"n" * 16, 1).encode()))
        assert refused == b"-no such update was offered"
        gc.collect()
        assert updates.waiting == 0, "its room is free"
        assert reputation.all_offences() == {}, "to be slow is no offence"
        assert reputation.refused("b") == {"no such update was offered": 1}
    finally:
        server.close()
