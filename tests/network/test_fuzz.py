"""Spoilt messages through everything that reads bytes from outside. `make fuzz` tries a million."""

import random
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from federico.errors import ProtocolError
from federico.network.protocol import (
    Announce,
    MakeRoom,
    OwnerConversation,
    Publication,
    StoreChunk,
    Terms,
    Topic,
)
from federico.network.wire.encoding import chunk_digests, pack, unpack
from federico.network.wire.messages import (
    ChunkRequest,
    ChunkUpload,
    Kind,
    MessageHeader,
    ModelRequest,
    RefusedError,
)
from federico.network.wire.schema import ModelSchema
from tests.support.spoiling import TIMES, record, spoil

NUMBERS = 4096
NONCE = b"n" * 16

# What a mutated certificate holds may be something that `cryptography` warns of.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def row() -> np.ndarray:
    return np.linspace(-1, 1, NUMBERS, dtype=np.float32)


@pytest.fixture
def owner(make_terms) -> Terms:
    return make_terms("a", schema=ModelSchema.of({"weight": (NUMBERS,)}, "float32"))


@pytest.fixture
def visitor(make_terms) -> Terms:
    return make_terms("b", schema=ModelSchema.of({"weight": (NUMBERS,)}, "float32"))


@pytest.fixture
def offer(visitor: Terms, row: np.ndarray) -> bytes:
    """A signed offer of the row by b, for the model of a."""
    return visitor.sign(
        Kind.UPDATE,
        chunk_digests(row[chunk] for chunk in visitor.chunk_plan),
        owner=0,
        visitor=1,
        round_index=1,
        version=1,
        incarnation=visitor.incarnation,
        nonce=NONCE,
        coefficient=1.0,
    )


@pytest.fixture
def readers(
    owner: Terms, offer: bytes, row: np.ndarray
) -> list[tuple[bytes, Callable[[bytes], object]]]:
    """Every kind of message, with what reads it."""
    out = np.empty(NUMBERS, np.float32)
    header = owner.verify(offer, "b").header
    cases: list[tuple[bytes, Callable[[bytes], object]]] = [
        (offer, lambda data: owner.verify(data, "b")),
        (header.encode(), MessageHeader.decode),
        (ModelRequest(NONCE, 2).encode(), ModelRequest.decode),
        (ChunkRequest(b"d" * 32, 2).encode(), ChunkRequest.decode),
        (ChunkUpload(NONCE, 2).encode(), ChunkUpload.decode),
    ]
    for wire in ("float32", "float16", "bfloat16", "float64"):
        payload = pack(row, wire).tobytes()
        cases.append((payload, lambda data, wire=wire: unpack(data, wire, out)))
    return cases


def test_a_spoilt_message_is_a_protocol_error_and_costs_no_memory(readers) -> None:
    rng = random.Random(0)
    began = time.monotonic()
    outcomes: Counter[str] = Counter()
    worst = 0
    for good, read in readers:
        read(good)
    tracemalloc.start()
    for turn in range(TIMES):
        good, read = readers[turn % len(readers)]
        spoilt = spoil(good, rng)
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        try:
            read(spoilt)
        except (ProtocolError, RefusedError) as error:
            outcomes[type(error).__name__] += 1
        else:
            outcomes["read"] += 1
            is_signed = turn % len(readers) == 0
            assert not is_signed or spoilt == good, "a signed message was changed unnoticed"
        worst = max(worst, tracemalloc.get_traced_memory()[1] - before)
    tracemalloc.stop()
    record("messages, each by what reads it", outcomes, began)
    assert outcomes["ProtocolError"] > TIMES / 3
    assert worst < 2 * max(len(good) for good, _ in readers)


def test_no_spoilt_message_is_taken_for_a_good_one(
    owner: Terms, visitor: Terms, offer: bytes, row: np.ndarray
) -> None:
    """An owner decides about whatever it gets, and never takes numbers that were changed."""
    rng = random.Random(1)
    began = time.monotonic()
    outcomes: Counter[str] = Counter()
    chunks = [row[chunk].tobytes() for chunk in visitor.chunk_plan]
    upload = ChunkUpload(NONCE, 3).encode()
    messages = [
        (Topic.REQUEST_MODEL, ModelRequest(NONCE, 0).encode(), b""),
        (Topic.REQUEST_CHUNK, ChunkRequest(b"d" * 32, 2).encode(), b""),
        (Topic.OFFER_UPDATE, offer, b""),
        (Topic.UPLOAD_CHUNK, upload, chunks[3]),
    ]
    conversation = OwnerConversation(owner, 1)
    publication = Publication(1, chunk_digests(row[chunk] for chunk in owner.chunk_plan))
    conversation.publish(publication)
    accepted = conversation.receive(Topic.OFFER_UPDATE, offer, b"")
    assert isinstance(accepted, MakeRoom)
    conversation.room_made(accepted.update)

    for turn in range(TIMES):
        topic, request, payload = messages[turn % len(messages)]
        spoilt_request = spoil(request, rng) if rng.random() < 0.7 else request
        spoilt_payload = spoil(payload, rng) if rng.random() < 0.7 else payload
        decision = conversation.receive(topic, spoilt_request, spoilt_payload)
        outcomes[type(decision).__name__] += 1
        match decision:
            case MakeRoom():
                raise AssertionError("a changed offer was taken")
            case StoreChunk(_, index, numbers, _):
                assert numbers.tobytes() == chunks[index]
            case Announce(message):
                visitor.verify(message, "a", kind=Kind.MODEL, owner=0, visitor=1, version=1)
    record("messages to an owner, which decides about them", outcomes, began)
