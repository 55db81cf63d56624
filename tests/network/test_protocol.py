"""The rules without any network: bytes in, decisions out."""

import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from federico.errors import ProtocolError, SignedProtocolError
from federico.network.limits import Limits
from federico.network.protocol import (
    COPY_TRANSITIONS,
    DECISIONS,
    UPDATE_TRANSITIONS,
    Acknowledge,
    Announce,
    Busy,
    CopyState,
    Decision,
    IncomingUpdate,
    MakeRoom,
    OwnerConversation,
    OwnLengths,
    Publication,
    Refuse,
    SendChunk,
    StoreChunk,
    Terms,
    Topic,
    UpdateEvent,
    UpdateState,
    Violation,
    VisitorConversation,
    length_factor,
)
from federico.network.wire.encoding import chunk_digests
from federico.network.wire.messages import (
    LATEST,
    ChunkRequest,
    ChunkUpload,
    Kind,
    ModelRequest,
)
from federico.network.wire.schema import ModelSchema
from tests.network.conftest import LIMITS, ROSTER, SIZE

VERSION = 5
INCARNATION = 77
OWNER, VISITOR, ANOTHER = 0, 1, 2
MakeTerms = Callable[..., Terms]


def row_of(value: float = 1.0) -> np.ndarray:
    return np.linspace(-value, value, SIZE, dtype=np.float32)


def publication(terms: Terms, version: int, row: np.ndarray) -> Publication:
    return Publication(version, chunk_digests(row[chunk] for chunk in terms.chunk_plan))


@pytest.fixture
def owner_terms(make_terms: MakeTerms) -> Terms:
    return make_terms("a")


@pytest.fixture
def visitor_terms(make_terms: MakeTerms) -> Terms:
    return make_terms("b")


@pytest.fixture
def conversation(owner_terms: Terms) -> OwnerConversation:
    """The owner's side, with a model published."""
    conversation = OwnerConversation(owner_terms, VISITOR)
    conversation.publish(publication(owner_terms, VERSION, row_of()))
    return conversation


def offer_of(terms: Terms, row: np.ndarray, nonce: bytes = b"n" * 16, **changed: Any) -> bytes:
    """A signed offer of this row."""
    digests = chunk_digests(row[chunk] for chunk in terms.chunk_plan)
    said: dict[str, Any] = {
        "owner": OWNER,
        "visitor": VISITOR,
        "round_index": 1,
        "version": VERSION,
        "incarnation": INCARNATION,
        "nonce": nonce,
        "coefficient": 10.0,
    }
    said |= changed
    kind = said.pop("kind", Kind.UPDATE)
    return terms.sign(kind, digests, **said)


def make_room(conversation: OwnerConversation, offer: bytes) -> IncomingUpdate:
    """Offer an update that is wanted, and say that there is room."""
    decision = conversation.receive(Topic.OFFER_UPDATE, offer, b"")
    assert isinstance(decision, MakeRoom)
    conversation.room_made(decision.update)
    return decision.update


def upload(
    conversation: OwnerConversation,
    terms: Terms,
    row: np.ndarray,
    index: int,
    nonce: bytes = b"n" * 16,
) -> Decision:
    """Upload a chunk; what is to be stored is stored."""
    payload = row[terms.chunk_plan.chunk(index)].tobytes()
    request = ChunkUpload(nonce, index).encode()
    decision = conversation.receive(Topic.UPLOAD_CHUNK, request, payload)
    if isinstance(decision, StoreChunk):
        conversation.chunk_stored(decision)
    return decision


def send(
    conversation: OwnerConversation,
    terms: Terms,
    row: np.ndarray,
    nonce: bytes = b"n" * 16,
    **changed: Any,
) -> IncomingUpdate:
    """Offer an update and upload all of it."""
    update = make_room(conversation, offer_of(terms, row, nonce, **changed))
    for index in range(terms.chunk_plan.chunks):
        assert isinstance(upload(conversation, terms, row, index, nonce), StoreChunk)
    return update


class TestTables:
    """What the tables at the top of the file say."""

    def test_every_topic_has_its_decisions(self) -> None:
        assert set(DECISIONS) == set(Topic)
        for decisions in DECISIONS.values():
            assert {Refuse, Violation} <= set(decisions)

    def test_every_state_has_its_row(self) -> None:
        assert set(UPDATE_TRANSITIONS) == set(UpdateState)
        assert set(COPY_TRANSITIONS) == set(CopyState)

    def test_an_update_is_collected_only_when_it_is_complete(self) -> None:
        before = [
            s for s, row in UPDATE_TRANSITIONS.items() if UpdateState.COLLECTED in row.values()
        ]
        assert before == [UpdateState.COMPLETE]
        assert UPDATE_TRANSITIONS[UpdateState.COLLECTED] == {}

    def test_an_event_out_of_place_is_our_own_mistake(self, conversation, visitor_terms) -> None:
        update = send(conversation, visitor_terms, row_of())
        conversation.collect()
        with pytest.raises(KeyError):
            update.advance(UpdateEvent.TAKEN)


class TestModelRequests:
    def request(self, conversation: OwnerConversation, version: int) -> Decision:
        request = ModelRequest(b"q" * 16, version).encode()
        return conversation.receive(Topic.REQUEST_MODEL, request, b"")

    @pytest.mark.parametrize("version", [LATEST, VERSION])
    def test_the_newest_model_is_announced_and_signed(
        self, conversation, visitor_terms: Terms, version: int
    ) -> None:
        decision = self.request(conversation, version)
        assert isinstance(decision, Announce)
        announced = visitor_terms.verify(
            decision.message,
            "a",
            kind=Kind.MODEL,
            owner=OWNER,
            visitor=VISITOR,
            version=VERSION,
            incarnation=INCARNATION,
            nonce=b"q" * 16,
        )
        expected = publication(visitor_terms, VERSION, row_of())
        assert announced.digests == expected.digests
        assert announced.header.digest == expected.digest

    def test_a_version_to_come_is_worth_waiting_for(self, conversation) -> None:
        assert isinstance(self.request(conversation, VERSION + 1), Busy)

    def test_a_version_that_was_is_gone(self, conversation) -> None:
        assert self.request(conversation, VERSION - 1) == Refuse(
            "version 4 is gone, 5 is the newest"
        )

    def test_nothing_is_announced_before_the_first_publication(self, owner_terms: Terms) -> None:
        fresh = OwnerConversation(owner_terms, VISITOR)
        assert isinstance(self.request(fresh, LATEST), Busy)

    def test_a_model_that_is_about_to_change_is_not_announced(self, conversation) -> None:
        conversation.withdraw(None)
        assert isinstance(self.request(conversation, LATEST), Busy)

    def test_what_remains_of_it_is(self, conversation, owner_terms: Terms) -> None:
        conversation.withdraw(publication(owner_terms, VERSION, row_of()))
        assert isinstance(self.request(conversation, LATEST), Announce)


class TestChunkRequests:
    @pytest.mark.parametrize("purpose", ["training", "evaluation"])
    def test_a_chunk_is_sent_for_what_it_is_wanted(self, conversation, purpose: str) -> None:
        request = ChunkRequest(b"d" * 32, 2, purpose == "evaluation").encode()
        decision = conversation.receive(Topic.REQUEST_CHUNK, request, b"")
        assert decision == SendChunk(b"d" * 32, 2, purpose)

    def test_a_chunk_that_no_model_has_is_a_violation(self, conversation) -> None:
        request = ChunkRequest(b"d" * 32, 3).encode()
        assert conversation.receive(Topic.REQUEST_CHUNK, request, b"") == Violation("chunk 3 of 3")


class TestOffers:
    def offer(self, conversation: OwnerConversation, terms: Terms, **changed: Any) -> Decision:
        offer = offer_of(terms, row_of(), **changed)
        return conversation.receive(Topic.OFFER_UPDATE, offer, b"")

    @pytest.mark.parametrize("age", [0, 1, 2])
    def test_an_update_on_a_model_not_too_old_is_wanted(
        self, conversation, visitor_terms: Terms, age: int
    ) -> None:
        decision = self.offer(conversation, visitor_terms, version=VERSION - age)
        assert isinstance(decision, MakeRoom)

    @pytest.mark.parametrize(
        ("changed", "reason"),
        [
            ({"version": VERSION - 3}, "made on version 2, now is 5: too old"),
            ({"incarnation": INCARNATION + 1}, "made on a model from before a restart"),
        ],
    )
    def test_being_late_is_no_violation(
        self, conversation, visitor_terms: Terms, changed: dict[str, Any], reason: str
    ) -> None:
        assert self.offer(conversation, visitor_terms, **changed) == Refuse(reason)

    @pytest.mark.parametrize(
        ("changed", "reason"),
        [
            ({"version": VERSION + 1}, "version: 6, but the newest is 5"),
            ({"coefficient": 1001.0}, "coefficient 1001"),
            ({"coefficient": 0.0}, "coefficient 0"),
            ({"owner": ANOTHER}, "owner: 2, not 0"),
            ({"visitor": ANOTHER}, "visitor: 2, not 1"),
            ({"kind": Kind.MODEL}, "kind"),
        ],
    )
    def test_what_no_honest_peer_offers_is_a_violation(
        self, conversation, visitor_terms: Terms, changed: dict[str, Any], reason: str
    ) -> None:
        decision = self.offer(conversation, visitor_terms, **changed)
        assert isinstance(decision, Violation)
        assert reason in decision.reason

    @pytest.mark.parametrize(
        ("terms", "reason"),
        [
            ({"roster": replace(ROSTER, digest=b"x" * 32)}, "federation: another"),
            ({"schema": ModelSchema.of({"w": (SIZE,)}, "float32")}, "schema: another"),
            ({"limits": LIMITS.model_copy(update={"chunk_bytes": 1200})}, "digests of the chunks"),
        ],
    )
    def test_another_agreement_is_a_violation(
        self, conversation, make_terms: MakeTerms, terms: dict[str, Any], reason: str
    ) -> None:
        decision = self.offer(conversation, make_terms("b", **terms))
        assert isinstance(decision, Violation)
        assert reason in decision.reason

    def test_nobody_offers_in_another_name(self, conversation, make_terms: MakeTerms) -> None:
        decision = self.offer(conversation, make_terms("c"))
        assert decision == Violation("signed by 'c', not by 'b'")

    def test_the_same_offer_again_is_acknowledged(self, conversation, visitor_terms) -> None:
        offer = offer_of(visitor_terms, row_of())
        make_room(conversation, offer)
        again = offer_of(visitor_terms, row_of())  # signed anew, and otherwise the same
        assert conversation.receive(Topic.OFFER_UPDATE, again, b"") == Acknowledge()

    def test_what_came_last_may_be_said_again_and_counts_once(
        self, conversation, visitor_terms: Terms
    ) -> None:
        send(conversation, visitor_terms, row_of())
        assert self.offer(conversation, visitor_terms) == Acknowledge()
        assert upload(conversation, visitor_terms, row_of(), 0) == Acknowledge()

        conversation.collect()
        assert self.offer(conversation, visitor_terms) == Acknowledge()
        assert upload(conversation, visitor_terms, row_of(), 0) == Acknowledge()
        assert conversation.collect() is None

    def test_what_came_last_may_be_said_again_while_a_newer_one_is_coming(
        self, conversation, visitor_terms: Terms
    ) -> None:
        send(conversation, visitor_terms, row_of(), b"1" * 16, version=VERSION - 1)
        make_room(conversation, offer_of(visitor_terms, row_of(), b"2" * 16))
        assert upload(conversation, visitor_terms, row_of(), 0, b"1" * 16) == Acknowledge()

    def test_what_came_before_that_is_refused(self, conversation, visitor_terms: Terms) -> None:
        send(conversation, visitor_terms, row_of(), b"1" * 16, version=VERSION - 1)
        send(conversation, visitor_terms, row_of(), b"2" * 16)
        replayed = self.offer(conversation, visitor_terms, nonce=b"1" * 16, version=VERSION - 1)
        assert replayed == Refuse("an update of version 4 or later came before")
        again = upload(conversation, visitor_terms, row_of(), 0, b"1" * 16)
        assert again == Refuse("no such update was offered")

    def test_one_update_per_version(self, conversation, visitor_terms: Terms) -> None:
        send(conversation, visitor_terms, row_of())
        decision = self.offer(conversation, visitor_terms, nonce=b"another nonce...")
        assert isinstance(decision, Refuse)

    def test_a_newer_update_takes_the_place_of_one_not_collected(
        self, conversation, visitor_terms: Terms
    ) -> None:
        older = send(conversation, visitor_terms, row_of(1.0), b"1" * 16, version=VERSION - 1)
        newer = send(conversation, visitor_terms, row_of(2.0), b"2" * 16)
        assert older.state is UpdateState.DROPPED
        assert conversation.collect() is newer

    def test_a_newer_update_that_never_completes_leaves_the_one_before(
        self, conversation, visitor_terms: Terms
    ) -> None:
        older = send(conversation, visitor_terms, row_of(1.0), b"1" * 16, version=VERSION - 1)
        make_room(conversation, offer_of(visitor_terms, row_of(2.0), b"2" * 16))
        assert conversation.collect() is older

    def test_what_was_begun_and_never_completed_takes_no_room_for_ever(
        self, conversation, owner_terms: Terms, visitor_terms: Terms
    ) -> None:
        update = make_room(conversation, offer_of(visitor_terms, row_of()))
        still_good = VERSION + LIMITS.staleness
        conversation.publish(publication(owner_terms, still_good, row_of()))
        assert isinstance(upload(conversation, visitor_terms, row_of(), 0), StoreChunk)
        conversation.publish(publication(owner_terms, still_good + 1, row_of()))
        assert update.state is UpdateState.DROPPED
        assert isinstance(upload(conversation, visitor_terms, row_of(), 1), Refuse)

    def test_a_refused_offer_leaves_nothing_behind(self, conversation, visitor_terms) -> None:
        self.offer(conversation, visitor_terms, version=1)
        assert isinstance(upload(conversation, visitor_terms, row_of(), 0), Refuse)


class TestUploads:
    def test_an_update_is_complete_with_its_last_chunk(
        self, conversation, visitor_terms: Terms
    ) -> None:
        update = make_room(conversation, offer_of(visitor_terms, row_of()))
        for index in (2, 0):
            upload(conversation, visitor_terms, row_of(), index)
            assert conversation.collect() is None, "half an update is none"
        upload(conversation, visitor_terms, row_of(), 1)
        assert update.state is UpdateState.COMPLETE
        assert update.length == pytest.approx(np.linalg.norm(row_of()), rel=1e-5)
        assert conversation.collect() is update
        assert conversation.collect() is None

    def test_the_numbers_to_be_stored_are_those_that_were_sent(
        self, conversation, visitor_terms: Terms
    ) -> None:
        make_room(conversation, offer_of(visitor_terms, row_of()))
        decision = upload(conversation, visitor_terms, row_of(), 2)
        assert np.array_equal(decision.numbers, row_of()[512:])

    def test_a_chunk_that_is_there_is_acknowledged(self, conversation, visitor_terms) -> None:
        send(conversation, visitor_terms, row_of())
        assert upload(conversation, visitor_terms, row_of(), 2) == Acknowledge()

    def test_a_chunk_that_could_not_be_stored_may_come_again(
        self, conversation, visitor_terms: Terms
    ) -> None:
        make_room(conversation, offer_of(visitor_terms, row_of()))
        request = ChunkUpload(b"n" * 16, 0).encode()
        payload = row_of()[:256].tobytes()
        for _ in range(2):
            decision = conversation.receive(Topic.UPLOAD_CHUNK, request, payload)
            assert isinstance(decision, StoreChunk)

    def test_a_chunk_stored_too_late_changes_nothing(
        self, conversation, owner_terms: Terms, visitor_terms: Terms
    ) -> None:
        make_room(conversation, offer_of(visitor_terms, row_of()))
        request = ChunkUpload(b"n" * 16, 0).encode()
        decision = conversation.receive(Topic.UPLOAD_CHUNK, request, row_of()[:256].tobytes())
        conversation.publish(publication(owner_terms, VERSION + 9, row_of()))
        conversation.chunk_stored(decision)
        assert decision.update.squares == {}

    def test_a_chunk_nobody_announced_is_refused(self, conversation, visitor_terms) -> None:
        refused = Refuse("no such update was offered")
        assert upload(conversation, visitor_terms, row_of(), 0) == refused
        make_room(conversation, offer_of(visitor_terms, row_of()))
        assert upload(conversation, visitor_terms, row_of(), 0, b"x" * 16) == refused

    @pytest.mark.parametrize(
        ("index", "payload", "reason"),
        [
            (0, bytes(1024), "chunk 0 is not the announced one"),
            (0, bytes(1023), "chunk 0 of 1023 bytes"),
            (2, bytes(1024), "chunk 2 of 1024 bytes"),
            (9, bytes(1024), "chunk 9 of 1024 bytes"),
        ],
    )
    def test_a_chunk_must_be_the_announced_one(
        self, conversation, visitor_terms: Terms, index: int, payload: bytes, reason: str
    ) -> None:
        make_room(conversation, offer_of(visitor_terms, row_of()))
        request = ChunkUpload(b"n" * 16, index).encode()
        assert conversation.receive(Topic.UPLOAD_CHUNK, request, payload) == Violation(reason)

    def test_numbers_that_are_not_finite_are_a_violation_though_announced(
        self, conversation, visitor_terms: Terms
    ) -> None:
        row = row_of()
        row[-1] = np.nan
        make_room(conversation, offer_of(visitor_terms, row))
        decision = upload(conversation, visitor_terms, row, 2)
        assert isinstance(decision, Violation)
        assert "not finite" in decision.reason
        assert conversation.collect() is None


@pytest.mark.parametrize(
    ("length", "factor"), [(1.0, 1.0), (6.0, 1.0), (12.0, 0.5), (300.0, 6 / 300)]
)
def test_a_long_update_is_shortened_to_a_multiple_of_ones_own(length: float, factor: float) -> None:
    limits = Limits(clip=2, refuse=100)
    assert length_factor(length, own=OwnLengths(3.0, 3.0), limits=limits) == pytest.approx(factor)


def test_an_absurd_length_is_a_violation() -> None:
    with pytest.raises(ProtocolError, match="length 301"):
        length_factor(301.0, own=OwnLengths(3.0, 3.0), limits=Limits(clip=2, refuse=100))


class TestVisitor:
    @pytest.fixture
    def visitor(self, visitor_terms: Terms) -> VisitorConversation:
        return VisitorConversation(visitor_terms, OWNER)

    def announce(
        self,
        visitor: VisitorConversation,
        terms: Terms,
        version: int = VERSION,
        row: np.ndarray | None = None,
        wanted: int = LATEST,
    ) -> None:
        """Have the owner announce a row, and the visitor hear of it."""
        owner = OwnerConversation(terms, VISITOR)
        owner.publish(publication(terms, version, row_of() if row is None else row))
        request = visitor.request_model(b"q" * 16, LATEST)
        decision = owner.receive(Topic.REQUEST_MODEL, request, b"")
        assert isinstance(decision, Announce)
        visitor.receive_announcement(decision.message, b"q" * 16, wanted)

    def fetch(self, visitor: VisitorConversation, terms: Terms, row: np.ndarray) -> np.ndarray:
        out = np.full(SIZE, np.nan, np.float32)
        for index, chunk in enumerate(terms.chunk_plan):
            visitor.receive_chunk(index, row[chunk].tobytes(), out)
        return out

    def test_a_model_is_whole_with_its_last_chunk(self, visitor, owner_terms: Terms) -> None:
        self.announce(visitor, owner_terms)
        out = np.full(SIZE, np.nan, np.float32)
        for index, chunk in enumerate(owner_terms.chunk_plan):
            assert not visitor.whole
            visitor.receive_chunk(index, row_of()[chunk].tobytes(), out)
        assert visitor.whole
        assert np.array_equal(out, row_of())

    def test_the_same_model_is_not_fetched_again(self, visitor, owner_terms: Terms) -> None:
        self.announce(visitor, owner_terms)
        self.fetch(visitor, owner_terms, row_of())
        self.announce(visitor, owner_terms, VERSION + 1)
        assert visitor.whole
        assert not visitor.fetching
        assert visitor.header.version == VERSION + 1

    def test_another_model_is(self, visitor, owner_terms: Terms) -> None:
        self.announce(visitor, owner_terms)
        self.fetch(visitor, owner_terms, row_of())
        self.announce(visitor, owner_terms, VERSION + 1, row_of(2.0))
        assert visitor.fetching
        fetched = self.fetch(visitor, owner_terms, row_of(2.0))
        assert not visitor.fetching
        assert visitor.header.version == VERSION + 1
        assert np.array_equal(fetched, row_of(2.0))

    def test_a_model_that_is_here_stays_if_the_next_does_not_come_whole(
        self, visitor, owner_terms: Terms
    ) -> None:
        self.announce(visitor, owner_terms)
        self.fetch(visitor, owner_terms, row_of())
        self.announce(visitor, owner_terms, VERSION + 1, row_of(0.5))
        first = row_of(0.5)[owner_terms.chunk_plan.chunk(0)]
        visitor.receive_chunk(0, first.tobytes(), np.empty_like(row_of()))
        assert visitor.whole
        assert visitor.fetching
        assert visitor.header.version == VERSION, "an update would be about the one that is here"

        visitor.stop_fetching()
        assert visitor.whole
        assert not visitor.fetching
        self.announce(visitor, owner_terms, VERSION + 2)
        assert not visitor.fetching, "it is announced again"
        assert visitor.header.version == VERSION + 2

    def test_two_processes_with_one_key_are_noticed_and_a_restart_is_not(
        self, visitor, owner_terms: Terms
    ) -> None:
        restarted = replace(owner_terms, incarnation=78)
        for terms in (owner_terms, owner_terms, restarted, restarted):
            self.announce(visitor, terms)
            assert not visitor.is_there_twice
        self.announce(visitor, owner_terms)
        assert visitor.is_there_twice, "the one that was replaced still answers"
        self.announce(visitor, replace(owner_terms, incarnation=79))
        assert not visitor.is_there_twice, "one that starts anew may be alone again"

    def test_two_models_under_one_version_are_held_against_their_owner(
        self, visitor, owner_terms: Terms
    ) -> None:
        self.announce(visitor, owner_terms, VERSION, row_of(0.5))
        with pytest.raises(SignedProtocolError, match=f"two models under version {VERSION}"):
            self.announce(visitor, owner_terms, VERSION, row_of(0.25))
        self.announce(visitor, owner_terms, VERSION + 1, row_of(0.75))
        restarted = replace(owner_terms, incarnation=78)
        self.announce(visitor, restarted, VERSION + 1, row_of(0.25))

    def test_how_far_the_owners_clock_is_ahead_is_noted(self, visitor, owner_terms: Terms) -> None:
        assert visitor.clock_ahead is None
        for offset in (86400.0, -86400.0, 0.0):

            def wrong_clock(offset: float = offset) -> float:
                return time.time() + offset

            self.announce(visitor, replace(owner_terms, clock=wrong_clock))
            assert visitor.clock_ahead == pytest.approx(offset, abs=60)

    def test_nothing_is_left_of_a_first_model_that_does_not_come_whole(
        self, visitor, owner_terms: Terms
    ) -> None:
        self.announce(visitor, owner_terms)
        visitor.stop_fetching()
        assert not visitor.whole
        with pytest.raises(ValueError, match="nothing is known"):
            visitor.request_chunk(0, "training")

    def test_a_copy_that_was_lost_is_fetched_again(self, visitor, owner_terms: Terms) -> None:
        self.announce(visitor, owner_terms)
        self.fetch(visitor, owner_terms, row_of())
        visitor.lose_copy()
        self.announce(visitor, owner_terms)
        assert not visitor.whole

    def test_a_chunk_must_be_the_announced_one(self, visitor, owner_terms: Terms) -> None:
        self.announce(visitor, owner_terms)
        out = np.full(SIZE, np.nan, np.float32)
        with pytest.raises(ProtocolError, match="chunk 1 is not the announced one"):
            visitor.receive_chunk(1, bytes(1024), out)
        assert np.isnan(out).all()

    def test_another_version_than_was_wanted_is_a_violation(self, visitor, owner_terms) -> None:
        with pytest.raises(ProtocolError, match="version: 5, not 6"):
            self.announce(visitor, owner_terms, wanted=VERSION + 1)

    def test_an_announcement_of_before_is_a_violation(self, visitor, owner_terms: Terms) -> None:
        owner = OwnerConversation(owner_terms, VISITOR)
        owner.publish(publication(owner_terms, VERSION, row_of()))
        request = visitor.request_model(b"q" * 16, LATEST)
        decision = owner.receive(Topic.REQUEST_MODEL, request, b"")
        with pytest.raises(ProtocolError, match="nonce: another"):
            visitor.receive_announcement(decision.message, b"r" * 16, LATEST)

    def test_one_update_per_version(self, visitor, owner_terms: Terms) -> None:
        self.announce(visitor, owner_terms)
        self.fetch(visitor, owner_terms, row_of())
        assert not visitor.update_delivered
        visitor.mark_delivered()
        assert visitor.update_delivered
        self.announce(visitor, owner_terms)
        assert visitor.update_delivered
        self.announce(visitor, owner_terms, VERSION + 1)
        assert not visitor.update_delivered

    def test_an_owner_takes_what_a_visitor_offers(
        self, visitor, conversation, owner_terms: Terms, visitor_terms: Terms
    ) -> None:
        self.announce(visitor, owner_terms)
        self.fetch(visitor, owner_terms, row_of())
        digests = chunk_digests(row_of(0.5)[chunk] for chunk in visitor_terms.chunk_plan)
        offer = visitor.offer_update(digests, 12.0, 9, b"n" * 16)
        update = make_room(conversation, offer)
        assert update.header.coefficient == 12.0
        assert update.header.round_index == 9


class AnyConversation(RuleBasedStateMachine):
    """Whatever a visitor says, in whatever order, however often."""

    terms: Terms
    visitor_terms: Terms

    @initialize()
    def start(self) -> None:
        self.owner = OwnerConversation(self.terms, VISITOR)
        self.version = 1
        self.owner.publish(publication(self.terms, 1, row_of()))
        self.offers: dict[bytes, tuple[bytes, np.ndarray, int]] = {}
        self.rooms: list[IncomingUpdate] = []
        self.collected: list[IncomingUpdate] = []

    @rule(more=st.integers(1, 2))
    def publish(self, more: int) -> None:
        self.version += more
        self.owner.publish(publication(self.terms, self.version, row_of()))

    @rule(age=st.integers(-1, 4), value=st.sampled_from([0.5, 1.0]))
    def make_offer(self, age: int, value: float) -> None:
        nonce = len(self.offers).to_bytes(16, "big")
        version = max(0, self.version - age)
        row = row_of(value)
        offer = offer_of(self.visitor_terms, row, nonce, version=version)
        self.offers[nonce] = (offer, row, version)

    @precondition(lambda self: self.offers)
    @rule(which=st.integers(0, 50))
    def say_offer(self, which: int) -> None:
        offer, _, version = [*self.offers.values()][which % len(self.offers)]
        decision = self.receive(Topic.OFFER_UPDATE, offer, b"")
        taken = [update.header.version for update in self.collected]
        if isinstance(decision, MakeRoom):
            assert version <= self.version
            assert version >= self.version - LIMITS.staleness
            assert all(version > before for before in taken), "versions only go up"
            self.owner.room_made(decision.update)
            self.rooms.append(decision.update)

    @precondition(lambda self: self.offers)
    @rule(which=st.integers(0, 50), index=st.integers(0, 3), spoilt=st.booleans())
    def say_chunk(self, which: int, index: int, spoilt: bool) -> None:
        nonce, (_, row, _) = [*self.offers.items()][which % len(self.offers)]
        payload = row[self.terms.chunk_plan.chunk(index)].tobytes()
        if spoilt:
            payload = payload[::-1]
        request = ChunkUpload(nonce, index).encode()
        decision = self.receive(Topic.UPLOAD_CHUNK, request, payload)
        if isinstance(decision, StoreChunk):
            assert not spoilt
            assert any(decision.update is update for update in self.rooms), "room was made first"
            self.owner.chunk_stored(decision)

    @precondition(lambda self: self.offers)
    @rule(which=st.integers(0, 50))
    def send_all(self, which: int) -> None:
        self.say_offer(which)
        for index in range(3):
            self.say_chunk(which, index, spoilt=False)

    @rule(topic=st.sampled_from([*Topic, "else"]), request=st.binary(max_size=60))
    def say_anything(self, topic: str, request: bytes) -> None:
        self.owner.receive(topic, request, request)

    @rule()
    def collect(self) -> None:
        update = self.owner.collect()
        if update is not None:
            assert len(update.squares) == self.terms.chunk_plan.chunks
            self.collected.append(update)

    def receive(self, topic: Topic, request: bytes, payload: bytes) -> Decision:
        decision = self.owner.receive(topic, request, payload)
        assert isinstance(decision, DECISIONS[topic])
        return decision

    @invariant()
    def no_update_is_taken_twice(self) -> None:
        versions = [update.header.version for update in self.collected]
        assert versions == sorted(set(versions))

    @invariant()
    def a_visitor_takes_the_room_of_two_updates_at_most(self) -> None:
        open_states = (UpdateState.RECEIVING, UpdateState.COMPLETE)
        assert sum(update.state in open_states for update in self.rooms) <= 2


def test_no_order_of_messages_breaks_the_rules(make_terms: MakeTerms) -> None:
    class Machine(AnyConversation):
        terms = make_terms("a")
        visitor_terms = make_terms("b")

    run_state_machine_as_test(
        Machine, settings=settings(max_examples=60, stateful_step_count=40, deadline=None)
    )


def test_nothing_is_allocated_for_what_is_refused(make_terms: MakeTerms) -> None:
    """Whatever a stranger claims, it takes no more memory than its message."""
    schema = ModelSchema.of({"weight": (4_000_000,)}, "float32")
    limits = LIMITS.model_copy(update={"chunk_bytes": 1 << 21})
    terms = make_terms("a", schema=schema, limits=limits)
    visitor_terms = make_terms("b", schema=schema, limits=limits)
    owner = OwnerConversation(terms, VISITOR)
    digests = (b"d" * 32,) * terms.chunk_plan.chunks
    owner.publish(Publication(VERSION, digests))
    said = {"owner": OWNER, "visitor": VISITOR, "round_index": 1, "nonce": b"n" * 16}
    said |= {"incarnation": INCARNATION, "coefficient": 1.0}
    good = visitor_terms.sign(Kind.UPDATE, digests, version=VERSION, **said)
    late = visitor_terms.sign(Kind.UPDATE, digests, version=1, **said)
    wrong_chunk = bytes(terms.chunk_plan.chunk_bytes(0))
    request = ChunkUpload(b"n" * 16, 0).encode()

    tracemalloc.start()
    try:
        make_room(owner, good)
        assert isinstance(owner.receive(Topic.OFFER_UPDATE, late, b""), Refuse)
        assert isinstance(owner.receive(Topic.UPLOAD_CHUNK, request, wrong_chunk), Violation)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < terms.chunk_plan.chunk_bytes(0) / 4
