"""Peers on a bus in this process.

Real sockets are in test_session.py, real processes in tests/system.
"""

import gc
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import zenoh
from torch import nn

from federico.errors import ConfigError
from federico.exchange.protocol import ByteCount, Exchange, Hosting, Updates
from federico.experiment.build import build_method
from federico.learning import rows as rows_module
from federico.learning.bank import Bank
from federico.learning.layout import ModelLayout
from federico.learning.privacy_rules import Floor
from federico.learning.rows import RowFile, Rows, RowsInFiles, RowStorage
from federico.learning.visits import Visits
from federico.methods.averaging import average_into
from federico.methods.federico import Federico
from federico.methods.federico_options import FedericoOptions
from federico.methods.method import Round
from federico.network.exchange import NetworkExchange
from federico.network.presence import Presence
from federico.network.protocol import Terms
from federico.network.roster import Roster
from federico.network.session import close
from federico.network.wire.messages import RefusedError
from federico.network.wire.schema import ModelSchema
from federico.network.wire.signing import Signer
from tests.support.bus import open_bus
from tests.support.exchange_contract import PEERS, Connect, ExchangeContract, PartOfModelContract
from tests.support.hostile import (
    HostileModelStore,
    HostileSigner,
    bare_client,
    bare_server,
    repeat_first,
)
from tests.support.neighborhood import (
    DIGEST,
    PATIENT,
    SECONDS,
    Neighbor,
    eventually,
    join,
    make_peer,
    meet,
    names,
    signers_of,
    together,
)

SHORT_DEADLINE = PATIENT.model_copy(update={"deadline": 0.3})


class Everybody:
    """All peers behind one face, as the contract sees an exchange: each acts for its own client."""

    def __init__(self, everything: Bank, peers: list[Neighbor]) -> None:
        self.bank = everything
        self.peers = peers
        self.traffic = self
        self._pulled: set[int] = set()
        for peer in peers:
            peer.own_row.copy_(everything.rows[peer.number])

    def withhold(self, owners: np.ndarray) -> None:
        for peer in self.peers:
            peer.exchange.withhold(owners[owners == peer.number])

    def pull(self, round_index: int, wanted: Visits) -> Visits:
        self._pulled.add(round_index)
        return self._bring(wanted, lambda exchange, part: exchange.pull(round_index, part))

    def read_models(self, round_index: int, visits: Visits) -> Visits:
        return self._bring(visits, lambda exchange, part: exchange.read_models(round_index, part))

    def push(self, round_index: int, updates: Updates) -> None:
        # On a network an update is computed on a model that was pulled.
        if round_index not in self._pulled:
            everybody = [(i, b) for i in range(PEERS) for b in range(PEERS)]
            self.pull(round_index, Visits.of(everybody))
            self.take()
        pushes = []
        for peer in self.peers:
            own = updates.take(np.flatnonzero(updates.contributors == peer.number))
            pushes.append(partial(peer.exchange.push, round_index, own))
        together(pushes)

    def collect(self, round_index: int) -> Updates:
        collected = together([partial(p.exchange.collect, round_index) for p in self.peers])
        return Updates(
            np.concatenate([updates.owners for updates in collected]),
            np.concatenate([updates.contributors for updates in collected]),
            np.concatenate([updates.coefficients for updates in collected]),
            Rows.of(torch.cat([updates.rows.as_tensor() for updates in collected])),
        )

    def take(self) -> dict[str, ByteCount]:
        taken = [peer.exchange.traffic.take() for peer in self.peers]
        counted = {}
        for purpose in ("training", "evaluation"):
            sent = sum(by_purpose[purpose].sent for by_purpose in taken)
            received = sum(by_purpose[purpose].received for by_purpose in taken)
            counted[purpose] = ByteCount(sent, received)
        return counted

    def _bring(self, wanted: Visits, bring: Callable[[Exchange, Visits], Visits]) -> Visits:
        actions = []
        for peer in self.peers:
            own = wanted[np.flatnonzero(wanted.clients == peer.number)]
            actions.append(partial(bring, peer.exchange, own))
        came = together(actions)

        self.bank.rows.fill_(torch.nan)
        pairs = []
        for peer, visits in zip(self.peers, came, strict=True):
            pairs += visits.pairs
            for owner in visits.owners.tolist():
                self.bank.rows[owner] = peer.row_of(owner)
        return Visits.of([pair for pair in wanted.pairs if pair in pairs])


Joined = Callable[..., list[Neighbor]]


@pytest.fixture
def new_bus() -> Iterator[Callable[[], zenoh.Session]]:
    """Opens buses, closed when everything on them is."""
    sessions = []

    def make() -> zenoh.Session:
        sessions.append(open_bus())
        return sessions[-1]

    yield make
    for session in sessions:
        assert close(session)


@pytest.fixture
def joined(authority, new_bus) -> Iterator[Joined]:
    """Peers on a bus of their own, closed afterwards."""
    opened = []

    def make(layout: ModelLayout, count: int, **options: Any) -> list[Neighbor]:
        signers = signers_of(authority, names(count))
        peers = join(layout, [new_bus()] * count, signers, **options)
        opened.extend(peers)
        return peers

    yield make
    for peer in opened:
        peer.exchange.close()


class TestNetworkExchange(ExchangeContract, PartOfModelContract):
    @pytest.fixture
    def connect(self, joined: Joined) -> Connect:
        def connected(bank: Bank, participants: int) -> Everybody:
            shared = None if bank.personal is None else bank.shared
            return Everybody(bank, joined(bank.layout, participants, shared=shared))

        return connected


@pytest.fixture
def model() -> ModelLayout:
    return ModelLayout(lambda: nn.Linear(40, 10))


@pytest.fixture
def large() -> ModelLayout:
    """A model that waits in files."""
    return ModelLayout(lambda: nn.Linear(600, 600))


class TestModels:
    def test_a_model_that_has_not_changed_is_not_sent_again(
        self, joined: Joined, model: ModelLayout
    ) -> None:
        a, b = joined(model, 2, lockstep=False)
        b.publish(1)
        assert a.pulls(1, 1) == [1]
        assert a.received() == 410 * 4
        for peer in (a, b):
            peer.exchange.collect(1)
            peer.publish(2)
        assert a.pulls(2, 1) == [1]
        assert a.received() == 0
        assert torch.equal(a.row_of(1), b.own_row)

    def test_a_model_that_has_changed_is(self, joined: Joined, model: ModelLayout) -> None:
        a, b = joined(model, 2, lockstep=False)
        b.publish(1)
        a.pulls(1, 1)
        b.exchange.collect(1)
        b.own_row.add_(1)
        b.publish(2)
        assert a.pulls(2, 1) == [1]
        assert torch.equal(a.row_of(1), b.own_row)

    def test_a_model_that_is_just_changing_is_not_given(
        self, joined: Joined, model: ModelLayout
    ) -> None:
        a, b = joined(model, 2, lockstep=False, limits=SHORT_DEADLINE)
        b.publish(1)
        b.exchange.collect(1)
        assert a.pulls(1, 1) == []
        b.own_row.add_(1)
        b.reads(1, 1)
        assert a.pulls(1, 1) == [1]

    def test_the_own_model_is_served_where_it_lies_even_when_that_moves(
        self, joined: Joined, model: ModelLayout
    ) -> None:
        """A change against the rules shows at those who fetch it: no copy was made."""
        a, b, c = joined(model, 3, lockstep=False)
        b.publish(1)
        c.publish(1)
        for wanted, visitor in (([1], b), ([1, 2], c)):
            a.pulls(1, *wanted)
            a.own_row.add_(1)
            assert visitor.pulls(1, 0) == []
            reason = visitor.exchange.reputation.offences("site0").reason
            assert "not the announced one" in reason

    def test_many_chunks_make_the_same_row(self, joined: Joined) -> None:
        limits = PATIENT.model_copy(update={"chunk_bytes": 1024})
        a, b = joined(ModelLayout(lambda: nn.Linear(300, 20)), 2, lockstep=False, limits=limits)
        b.publish(1)
        assert a.pulls(1, 1) == [1]
        assert torch.equal(a.row_of(1), b.own_row)

    @pytest.mark.parametrize("precision", ["float16", "bfloat16"])
    def test_half_the_bytes_are_rounded_numbers(
        self, joined: Joined, model: ModelLayout, precision: str
    ) -> None:
        limits = PATIENT.model_copy(update={"precision": precision})
        a, b = joined(model, 2, lockstep=False, limits=limits)
        b.publish(1)
        a.pulls(1, 1)
        assert a.received() == 410 * 2
        torch.testing.assert_close(a.row_of(1), b.own_row, rtol=2**-7, atol=1e-6)
        assert not torch.equal(a.row_of(1), b.own_row)

    def test_nobody_waits_for_one_who_is_away(self, joined: Joined, model: ModelLayout) -> None:
        limits = PATIENT.model_copy(update={"deadline": 1e6})
        a, b, c = joined(model, 3, lockstep=False, limits=limits)
        b.publish(1)
        c.exchange.close()
        eventually(lambda: not a.exchange.presence.here("site2"))
        assert a.pulls(1, 1, 2) == [1]

    def test_who_has_nothing_yet_is_waited_for_until_the_deadline(
        self, joined: Joined, model: ModelLayout
    ) -> None:
        a, _ = joined(model, 2, lockstep=False, limits=SHORT_DEADLINE)
        assert a.pulls(1, 1) == []

    def test_a_model_can_be_read_even_if_its_owner_has_left(
        self, joined: Joined, model: ModelLayout
    ) -> None:
        a, b, c = joined(model, 3, lockstep=False)
        b.publish(1)
        a.pulls(1, 1)
        kept = a.row_of(1).clone()
        b.exchange.close()
        c.exchange.close()
        eventually(lambda: set(a.exchange.presence.away()) == {"site1", "site2"})
        assert a.reads(1, 0, 1, 2) == [0, 1]
        assert torch.equal(a.row_of(1), kept)
        assert a.pulls(2, 1) == [], "but to visit it, it has to be there"

    def test_models_to_predict_with_stay_whomever_a_peer_visits(
        self, joined: Joined, model: ModelLayout
    ) -> None:
        a, b, c = joined(model, 3, lockstep=False)
        b.publish(1)
        assert a.pulls(1, 1) == [1]
        assert a.reads(1, 1) == [1]
        c.publish(2)
        assert a.pulls(2, 2) == [2]
        a.exchange.close()
        assert a.reads(2, 1, 2) == [1, 2], "it leaves, and gets no model any more"
        assert torch.equal(a.row_of(1), b.own_row)
        assert torch.equal(a.row_of(2), c.own_row)

    def test_a_model_that_is_not_finite_is_not_offered(
        self, joined: Joined, model: ModelLayout
    ) -> None:
        a, b = joined(model, 2, lockstep=False, limits=SHORT_DEADLINE)
        b.own_row[3] = torch.nan
        b.publish(1)
        assert a.pulls(1, 1) == []
        assert a.exchange.reputation.all_offences() == {}

    def test_a_peer_told_to_stop_waits_for_nothing_and_blames_nobody(
        self, joined: Joined, model: ModelLayout, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level("INFO")
        limits = PATIENT.model_copy(update={"deadline": 1e6})
        a, _ = joined(model, 2, lockstep=True, limits=limits)
        a.exchange.stop_waiting()
        assert a.pulls(1, 1) == []
        assert "did not answer" not in caplog.text
        a.push(1, 0)
        assert len(a.exchange.collect(1)) == 1

    def test_chunks_too_small_for_the_model_are_refused_before_anybody_sees_the_peer(
        self, authority, bus: zenoh.Session
    ) -> None:
        roster = Roster("test", DIGEST, names(2))
        (signer, _) = signers_of(authority, roster.members)
        watch = Presence(bus, roster, "site1")
        huge = ModelLayout(lambda: nn.Linear(6000, 6000, device="meta"))
        empty = Bank(huge, np.array([0]), torch.empty(1, 1))
        limits = PATIENT.model_copy(update={"chunk_bytes": 1024})
        with pytest.raises(ConfigError, match=r"chunk_bytes = 1024.* 140,649 chunks.* 1104 or"):
            make_peer(empty, bus, roster, 0, signer, limits=limits)
        assert not watch.wait(["site0"], 0.1)
        watch.close()


class TestBytes:
    """Both sides count what was moved, and for what."""

    def test_training_and_evaluation_are_counted_apart_at_both_ends(
        self, joined: Joined, model: ModelLayout
    ) -> None:
        a, b = joined(model, 2, lockstep=False)
        b.publish(1)
        a.pulls(1, 1)
        b.exchange.collect(1)
        b.own_row.add_(1)
        b.publish(2)
        a.reads(1, 0, 1)
        visitor = a.exchange.traffic.take()
        owner = b.exchange.traffic.take()
        for purpose in ("training", "evaluation"):
            assert visitor[purpose].received.tolist() == [410 * 4, 0]
            assert owner[purpose].sent.tolist() == [0, 410 * 4]
            assert visitor[purpose].sent.tolist() == [0, 0]
            assert owner[purpose].received.tolist() == [0, 0]

    def test_an_update_is_training_at_both_ends(self, joined: Joined, model: ModelLayout) -> None:
        a, b = joined(model, 2, lockstep=False)
        b.publish(1)
        a.pulls(1, 1)
        for peer in (a, b):
            peer.exchange.traffic.take()
        a.push(1, 1)
        assert a.exchange.traffic.take()["training"].sent.tolist() == [410 * 4 + 8, 0]
        assert b.exchange.traffic.take()["training"].received.tolist() == [0, 410 * 4 + 8]


class TestUpdates:
    def test_what_comes_late_is_collected_next_time(
        self, joined: Joined, model: ModelLayout
    ) -> None:
        a, b = joined(model, 2, lockstep=False)
        b.publish(1)
        a.pulls(1, 1)
        assert len(b.exchange.collect(1)) == 0
        b.publish(2)
        a.push(1, 1)
        assert b.exchange.collect(2).contributors.tolist() == [0]

    def test_what_comes_too_late_is_refused(self, joined: Joined, model: ModelLayout) -> None:
        limits = PATIENT.model_copy(update={"staleness": 0})
        a, b = joined(model, 2, lockstep=False, limits=limits)
        b.publish(1)
        a.pulls(1, 1)
        b.exchange.collect(1)
        b.publish(2)
        a.push(1, 1)
        assert len(b.exchange.collect(2)) == 0
        assert b.exchange.reputation.all_offences() == {}, "being slow is no offence"

    def test_a_second_update_on_one_version_is_not_even_offered(
        self, joined: Joined, model: ModelLayout, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level("INFO")
        a, b = joined(model, 2, lockstep=False)
        b.publish(1)
        a.pulls(1, 1)
        a.push(1, 1, 1.0)
        a.exchange.traffic.take()
        a.push(2, 1, 2.0)
        assert a.exchange.traffic.take()["training"].moved == 0
        assert "refused" not in caplog.text
        assert b.exchange.collect(1).rows.as_tensor()[:, 0].tolist() == [1.0]
        b.publish(2)
        a.pulls(3, 1)
        a.push(3, 1, 3.0)
        updates = b.exchange.collect(2)
        assert updates.rows.as_tensor()[:, 0].tolist() == [3.0], (
            "the next version is another matter"
        )

    def test_a_second_update_on_one_version_is_refused(
        self, joined: Joined, model: ModelLayout, authority, new_bus
    ) -> None:
        """A visitor that was started again does not know that it has pushed before."""
        session = new_bus()
        roster = Roster("test", DIGEST, names(2))
        signers = signers_of(authority, roster.members)
        a, b = join(model, [session] * 2, signers, lockstep=False)
        b.publish(1)
        a.pulls(1, 1)
        a.push(1, 1, 1.0)
        a.exchange.close()
        again = make_peer(a.bank, session, roster, 0, signers[0], limits=PATIENT)
        meet([again], roster)
        again.pulls(1, 1)
        again.push(1, 1, 2.0)
        assert b.exchange.collect(1).rows.as_tensor()[:, 0].tolist() == [1.0]
        assert b.exchange.reputation.all_offences() == {}
        for peer in (again, b):
            peer.exchange.close()

    def test_an_update_that_is_not_finite_is_not_sent(
        self, joined: Joined, model: ModelLayout
    ) -> None:
        a, b = joined(model, 2, lockstep=False)
        b.publish(1)
        a.pulls(1, 1)
        a.push(1, 1, float("nan"))
        assert len(b.exchange.collect(1)) == 0
        assert b.exchange.reputation.all_offences() == {}

    def test_large_updates_wait_on_the_disk_and_are_added_one_by_one(
        self, joined: Joined, large: ModelLayout
    ) -> None:
        limits = PATIENT.model_copy(update={"clip": 2.0})
        a, b, c = joined(large, 3, lockstep=False, limits=limits)
        b.publish(1)
        for visitor, value in ((a, 0.5), (c, 100.0)):
            visitor.pulls(1, 1)
            visitor.push(1, 1, value)
        b.push(1, 1, 1.0)
        arrived = b.exchange.collect(1)
        before = b.own_row.clone()
        assert isinstance(arrived.rows, RowsInFiles)
        values = [row.unique().item() for row in arrived.rows]
        assert values == pytest.approx([0.5, 1.0, 2.0]), "the last is shortened"
        average_into(b.bank, arrived)
        torch.testing.assert_close(b.own_row, before + 3.5 / 3)

    def test_updates_are_sent_from_where_they_were_put_away(
        self, joined: Joined, large: ModelLayout, tmp_path: Path
    ) -> None:
        a, b = joined(large, 2, lockstep=False)
        b.publish(1)
        a.pulls(1, 1)
        cpu = torch.device("cpu")
        storage = RowStorage(outbox=tmp_path)
        deltas = storage.deltas(2, large.size, dtype=torch.float32, device=cpu)
        rows = torch.rand(2, large.size)
        deltas.write(np.arange(2), rows)
        a.push_rows(1, [0, 1], deltas)
        for peer, row in zip((a, b), rows, strict=True):
            (arrived,) = peer.exchange.collect(1).rows
            assert torch.equal(arrived, row)

    def test_what_was_pushed_is_not_held_until_it_is_collected(
        self, joined: Joined, large: ModelLayout
    ) -> None:
        a, _ = joined(large, 2, lockstep=False)
        numbers = np.ones((1, large.size), np.float32)
        alive = weakref.ref(numbers)
        a.push_rows(1, [0], Rows.of(torch.from_numpy(numbers)))
        del numbers
        gc.collect()
        assert alive() is None
        assert [row.unique().item() for row in a.exchange.collect(1).rows] == [1.0]

    def test_a_disk_without_room_does_not_end_the_own_training(
        self,
        joined: Joined,
        large: ModelLayout,
        tmp_path: Path,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        a, _ = joined(large, 2, lockstep=False, folder=tmp_path / "is not there")
        a.push(1, 0)
        assert [row.unique().item() for row in a.exchange.collect(1).rows] == [1.0]
        assert "a model on its way is kept in memory" in caplog.text

    def test_an_update_is_measured_by_ones_own(self, joined: Joined, model: ModelLayout) -> None:
        limits = PATIENT.model_copy(update={"clip": 2.0})
        a, b = joined(model, 2, lockstep=False, limits=limits)
        b.publish(1)
        a.pulls(1, 1)
        a.push(1, 1, 100.0)
        b.push(1, 1, 0.5)
        assert b.exchange.collect(1).rows.as_tensor()[:, 0].tolist() == pytest.approx([1.0, 0.5])

    def test_one_in_quarantine_is_neither_asked_nor_heard(
        self, joined: Joined, model: ModelLayout
    ) -> None:
        a, b = joined(model, 2, lockstep=False)
        b.publish(1)
        a.pulls(1, 1)
        for _ in range(20):
            b.exchange.reputation.strike("site0", "test")
            a.exchange.reputation.strike("site1", "test")
        a.push(1, 1)
        assert len(b.exchange.collect(1)) == 0
        assert a.pulls(2, 1) == []


@pytest.fixture
def lock_step(
    authority, new_bus, blobs, learner
) -> Iterator[Callable[..., tuple[list[Federico], list[list[Round]]]]]:
    """Three sites play five rounds together, with their models wherever the storage puts them."""
    clients = blobs([12, 9, 15])
    roster = Roster("test", DIGEST, names(3))
    limits = PATIENT.model_copy(update={"clip": 10.0})
    opened: list[Neighbor] = []

    def play_all(
        options: FedericoOptions,
        make_storage: Callable[[], RowStorage],
        floor: Floor | None = None,
    ) -> tuple[list, list]:
        session = new_bus()
        signers = signers_of(authority, roster.members)
        peers: list[Neighbor] = []

        def site(number: int) -> Federico:
            """Made one after the other: models are drawn from torch's one generator."""

            def connect(bank: Bank, participants: int) -> NetworkExchange:
                signer = signers[number]
                terms = {"limits": limits, "lockstep": True}
                peers.append(make_peer(bank, session, roster, number, signer, **terms))
                return peers[-1].exchange

            people = tuple(client.name for client in clients)
            mine = learner(clients)
            mine.storage = make_storage()
            mine.states = mine.new_states()
            hosting = Hosting(3, number, 3)
            return build_method(
                Federico,
                options,
                names=people,
                learner=mine,
                hosting=hosting,
                connect=connect,
                rounds=5,
                floor=floor,
            )

        def play(mine: Federico) -> list[Round]:
            return [mine.round(index) for index in range(1, 6)]

        sites = [site(number) for number in range(3)]
        opened.extend(peers)
        meet(peers, roster)
        played = together([partial(play, mine) for mine in sites])
        assert all(peer.exchange.reputation.all_offences() == {} for peer in peers)
        return sites, played

    yield play_all
    for peer in opened:
        peer.exchange.close()


@pytest.mark.parametrize("floor", [Floor(), Floor(10)], ids=["all show", "one shows nothing"])
@pytest.mark.parametrize(
    "rule",
    [{}, {"preset": "paper"}, {"preset": "paper", "worse_than_guess": "tracked"}],
    ids=["default", "ignored", "tracked"],
)
def test_three_peers_in_lock_step_give_the_numbers_of_one_process_to_the_bit(
    lock_step, blobs, method, rule: dict[str, Any], floor: Floor
) -> None:
    options = FedericoOptions(neighbors=2, epsilon=0.5, **rule)
    alone = method("federico", blobs([12, 9, 15]), rounds=5, floor=floor, **options.model_dump())
    expected = [alone.round(index) for index in range(1, 6)]
    for number, (mine, rounds_played) in enumerate(
        zip(*lock_step(options, RowStorage, floor), strict=True)
    ):
        for together_, apart in zip(expected, rounds_played, strict=True):
            assert together_.neighbors[number].tolist() == apart.neighbors[0].tolist()
            assert together_.posteriors[number].peers.tolist() == apart.posteriors[0].peers.tolist()
            expected_weights = together_.posteriors[number].weights
            assert np.array_equal(expected_weights, apart.posteriors[0].weights)
            if together_.together is not None:
                assert together_.together[number] == apart.together[0]
        # The peer's own model and, where the rule has them, its two private ones.
        everybody = alone.bank.hosted_rows.unflatten(0, (-1, 3))
        assert torch.equal(mine.bank.hosted_rows, everybody[:, number])


@pytest.mark.parametrize(
    "rule", [{}, {"preset": "paper", "worse_than_guess": "tracked"}], ids=["default", "paper"]
)
@pytest.mark.parametrize("m_step", ["epochs", "gradient"])
def test_models_moments_and_deltas_on_the_disk_are_the_same_to_the_byte(
    lock_step, m_step: str, rule: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = FedericoOptions(neighbors=2, epsilon=0.5, m_step=m_step, **rule)
    # Rows that can lie on the disk are never short enough to be added at once.
    monkeypatch.setattr(rows_module, "SMALL", 1)
    in_memory, _ = lock_step(options, RowStorage)
    monkeypatch.setattr(rows_module, "LARGE", 1)
    on_disk, _ = lock_step(options, lambda: RowStorage(tmp_path, outbox=tmp_path))
    for mine, theirs in zip(in_memory, on_disk, strict=True):
        assert isinstance(theirs.learner.new_deltas(theirs.bank, 1), RowsInFiles)
        expected, found = mine.state(), theirs.state()
        assert expected.keys() == found.keys()
        for name, value in expected.items():
            assert value.numpy().tobytes() == found[name].numpy().tobytes(), name


def spoilt(signed: bytes) -> bytes:
    return signed[:-1] + bytes([signed[-1] ^ 1])


class TestHostility:
    """site1 does what it should not; site0 notes it, and nothing of it gets into its models."""

    @pytest.fixture
    def hostile_terms(self, authority, model: ModelLayout) -> Callable[..., Terms]:
        """What a hostile site1 goes by: the federation's terms, but for its signer."""

        def make(**signing: Any) -> Terms:
            roster = Roster("test", DIGEST, names(3))
            signer: Any = HostileSigner(Signer(*authority.issue("site1"), authority.pem), **signing)
            return Terms("site1", roster, ModelSchema.of_layout(model), PATIENT, signer, 7)

        return make

    @pytest.fixture
    def honest(self, authority, bus: zenoh.Session, model: ModelLayout) -> Iterator[list[Neighbor]]:
        """site0 and site2, who see that site1 is here."""
        roster = Roster("test", DIGEST, names(3))
        presence = Presence(bus, roster, "site1")
        peers = []
        for number in (0, 2):
            signer = Signer(*authority.issue(f"site{number}"), authority.pem)
            bank = Bank.start(model, 0, {number: str(number)}, torch.device("cpu"))
            peers.append(make_peer(bank, bus, roster, number, signer, limits=PATIENT))
        meet(peers, roster)
        assert presence.wait(roster.members, SECONDS)
        yield peers
        for peer in peers:
            peer.exchange.close()
        presence.close()

    @pytest.mark.parametrize(
        ("value", "chunks", "signing", "reason"),
        [
            (np.nan, None, {}, "not finite"),
            (1e30, None, {}, "not finite"),
            (1.0, None, {"federation": b"x" * 32}, "federation: another"),
            (1.0, None, {"schema": b"x" * 32}, "schema: another"),
            (1.0, None, {"size": 410 * 4 + 1}, "size: 1641, not 1640"),
            (1.0, None, {"owner": 2}, "owner: 2, not 1"),
            (1.0, lambda chunk: chunk[::-1], {}, "not the announced"),
            (1.0, lambda chunk: chunk * 2, {}, "not the announced"),
            (1.0, None, {"message": spoilt}, "signature"),
            (1.0, None, {"message": lambda _: b"\0" * 3_000_000}, "a message of"),
        ],
        ids=[
            "NaN",
            "1e30",
            "federation",
            "schema",
            "size",
            "another's model",
            "bytes",
            "oversized",
            "signature",
            "bomb",
        ],
    )
    def test_a_model_against_the_rules(
        self,
        honest: list[Neighbor],
        bus: zenoh.Session,
        model: ModelLayout,
        hostile_terms,
        value: float,
        chunks: Callable[[bytes], bytes] | None,
        signing: dict[str, Any],
        reason: str,
    ) -> None:
        a, c = honest
        terms = hostile_terms(**signing)
        models = None
        if chunks is not None:
            models = HostileModelStore(terms.chunk_plan, "float32", change=chunks)
        hostile = bare_server(bus, terms, models)
        # Numbers whose bytes are not the same backwards.
        numbers = np.arange(1, model.size + 1, dtype=np.float32)
        hostile.publish(1, numbers * np.float32(value))
        c.publish(1)
        assert a.pulls(1, 1, 2) == [2]
        assert reason in a.exchange.reputation.offences("site1").reason
        assert list(a.exchange.reputation.all_offences()) == ["site1"]
        assert 1 not in a.bank.visiting_places
        hostile.close()

    def test_an_announcement_of_before(
        self, honest: list[Neighbor], bus: zenoh.Session, model: ModelLayout, hostile_terms
    ) -> None:
        a, _ = honest
        hostile = bare_server(bus, hostile_terms(message=repeat_first()))
        hostile.publish(1, np.ones(model.size, np.float32))
        assert a.pulls(1, 1) == [1]
        assert a.pulls(2, 1) == []
        assert "nonce: another" in a.exchange.reputation.offences("site1").reason
        hostile.close()

    @pytest.mark.parametrize(
        ("value", "signing", "reason"),
        [
            (1.0, {"federation": b"x" * 32}, "federation: another"),
            (1.0, {"schema": b"x" * 32}, "schema: another"),
            (1.0, {"visitor": 2}, "visitor: 2, not 1"),
            (1.0, {"version": 9}, "version: 9"),
            (1.0, {"coefficient": 0.0}, "coefficient 0"),
            (1.0, {"message": spoilt}, "signature"),
            (np.inf, {}, "not finite"),
        ],
        ids=["federation", "schema", "another's name", "round", "weight", "signature", "infinite"],
    )
    def test_an_update_against_the_rules(
        self,
        honest: list[Neighbor],
        bus: zenoh.Session,
        model: ModelLayout,
        hostile_terms,
        value: float,
        signing: dict[str, Any],
        reason: str,
    ) -> None:
        a, _ = honest
        a.publish(1)
        presence = Presence(bus, Roster("test", DIGEST, names(3)), "site1")
        assert presence.wait(["site0"], SECONDS)
        hostile, sender = bare_client(bus, hostile_terms(**signing), 0, presence)
        row = np.empty(model.size, np.float32)
        deadline = sender.deadline()
        assert hostile.fetch(0, row, deadline, patient=True, purpose="training")
        update = RowFile.of(np.full(model.size, value, np.float32))
        with pytest.raises(RefusedError, match=reason):
            hostile.deliver(update, 1.0, 1, deadline)
        assert len(a.exchange.collect(1)) == 0
        assert reason in a.exchange.reputation.offences("site1").reason
        presence.close()
