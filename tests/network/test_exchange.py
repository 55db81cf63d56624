"""Peers on a bus in this process; real sockets are in test_session.py, real processes in tests/system."""

import errno
import gc
import os
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from federico.exchange.protocol import ByteCount, Hosting, Traffic, Updates
from federico.experiment.build import build_method
from federico.learning import rows as rows_module
from federico.learning.bank import Bank
from federico.learning.layout import ModelLayout
from federico.learning.rows import Rows, RowsInFiles, RowStorage
from federico.learning.visits import Visits
from federico.methods.averaging import average_into
from federico.methods.federico import Federico, FedericoOptions
from federico.methods.method import Round
from federico.network.exchange import NetworkExchange
from federico.network.session import close, open_bus
from tests.support.exchange_contract import PEERS, Connect, ExchangeContract
from tests.support.neighborhood import PATIENT, RoundKeeper, join, seals, together


class Everybody:
    """All peers behind one face, as the contract sees an exchange: each does the part of the clients it hosts."""

    def __init__(self, bank: Bank, peers: list[RoundKeeper]) -> None:
        self.bank, self.peers = bank, peers
        self.traffic = self
        for i, peer in enumerate(peers):
            peer._bank.hosted_rows.copy_(bank.rows[i])

    def pull(self, round_index: int, wanted: Visits) -> Visits:
        return self._bring(wanted, lambda peer, part: peer.pull(part))

    def read_models(self, round_index: int, visits: Visits) -> Visits:
        # As after a round: every peer has offered the model that the next round starts with.
        for peer in self.peers:
            peer.pull(Visits.of([]))
        return self._bring(visits, lambda peer, part: peer.read_models(part))

    def push(self, round_index: int, updates: Updates) -> None:
        if any(peer._published < peer.round for peer in self.peers):
            everybody = [(i, b) for i in range(PEERS) for b in range(PEERS)]
            self.pull(round_index, Visits.of(everybody))
            self.take()
        parts = [
            updates.take(np.flatnonzero(updates.contributors == i)) for i in range(len(self.peers))
        ]
        together(
            [lambda p=peer, u=part: p.push(u) for peer, part in zip(self.peers, parts, strict=True)]
        )

    def collect(self, round_index: int) -> Updates:
        parts = together([peer.collect for peer in self.peers])
        joined = [
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("owners", "contributors")
        ]
        rows = Rows.of(torch.cat([part.rows.as_tensor() for part in parts]))
        return Updates(*joined, np.concatenate([part.coefficients for part in parts]), rows)

    def take(self) -> dict[str, ByteCount]:
        taken = [Traffic.take(peer.traffic) for peer in self.peers]
        return {
            purpose: ByteCount(
                sum(counted[purpose].sent for counted in taken),
                sum(counted[purpose].received for counted in taken),
            )
            for purpose in ("training", "evaluation")
        }

    def _bring(self, wanted: Visits, bring: Callable[[RoundKeeper, Visits], Visits]) -> Visits:
        parts = [wanted[np.flatnonzero(wanted.clients == i)] for i in range(len(self.peers))]
        came = together(
            [
                lambda p=peer, w=part: bring(p, w)
                for peer, part in zip(self.peers, parts, strict=True)
            ]
        )
        self.bank.rows.fill_(torch.nan)
        for peer, visits in zip(self.peers, came, strict=True):
            for owner in visits.owners.tolist():
                self.bank.rows[owner] = peer._bank.rows[peer._bank.places(np.array([owner]))[0]]
        pairs = {pair for visits in came for pair in visits.pairs}
        return Visits.of([pair for pair in wanted.pairs if pair in pairs])


Joined = Callable[..., list[RoundKeeper]]


@pytest.fixture
def joined(authority) -> Iterator[Joined]:
    """Peers on a bus of their own, closed afterwards."""
    opened, sessions = [], []

    def make(layout: ModelLayout, count: int, **options: object) -> list[RoundKeeper]:
        sessions.append(open_bus())
        peers = join(
            layout,
            [sessions[-1]] * count,
            seals(authority, [f"site{i}" for i in range(count)]),
            **options,
        )
        opened.extend(peers)
        return peers

    yield make
    for peer in opened:
        peer.close()
    for session in sessions:
        assert close(session)


class TestZenohExchange(ExchangeContract):
    @pytest.fixture
    def connect(self, joined: Joined) -> Connect:
        return lambda bank, participants: Everybody(bank, joined(bank.layout, participants))


@pytest.fixture
def model() -> ModelLayout:
    return ModelLayout(lambda: nn.Linear(40, 10))


def row_of(peer: NetworkExchange, owner: int) -> torch.Tensor:
    return peer._bank.rows[peer._bank.places(np.array([owner]))[0]]


def publish(*peers: NetworkExchange) -> None:
    """The start of a round for who wants nothing of others."""
    for peer in peers:
        peer.pull(Visits.of([]))


def update(owner: int, contributor: int, value: float = 1.0, size: int = 410) -> Updates:
    return Updates(
        np.array([owner]),
        np.array([contributor]),
        np.ones(1),
        Rows.of(torch.full((1, size), value)),
    )


class TestModels:
    def test_a_model_that_has_not_changed_is_not_sent_again(
        self, joined: Joined, model: ModelLayout
    ) -> None:
        a, b = joined(model, 2, lockstep=False)
        publish(b)
        assert a.pull(Visits.of([(0, 1)])).pairs == [(0, 1)]
        first = a.traffic.take()["training"].received[0]
        for peer in (a, b):
            peer.collect()
            publish(peer)
        assert a.pull(Visits.of([(0, 1)])).pairs == [(0, 1)]
        assert (first, a.traffic.take()["training"].received[0]) == (410 * 4, 0)
        assert torch.equal(row_of(a, 1), b._bank.hosted_rows[0])

    def test_a_model_that_has_changed_is(self, joined: Joined, model: ModelLayout) -> None:
        a, b = joined(model, 2, lockstep=False)
        publish(b)
        a.pull(Visits.of([(0, 1)]))
        b.collect()
        b._bank.hosted_rows.add_(1)
        publish(b)
        a.pull(Visits.of([(0, 1)]))
        assert torch.equal(row_of(a, 1), b._bank.hosted_rows[0])
        assert a._held[1].version == 2

    def test_a_model_that_is_just_changing_is_not_given(
        self, joined: Joined, model: ModelLayout
    ) -> None:
        a, b = joined(model, 2, lockstep=False, limits=PATIENT.model_copy(update={"deadline": 0.3}))
        publish(b)
        b.collect()
        assert len(a.pull(Visits.of([(0, 1)]))) == 0
        b._bank.hosted_rows.add_(1)
        b.read_models(Visits.of([(1, 1)]))
        assert len(a.pull(Visits.of([(0, 1)]))) == 1

    def test_the_own_model_is_served_where_it_lies_even_when_that_moves(
        self, joined: Joined, model: ModelLayout
    ) -> None:
        a, b, c = joined(model, 3, lockstep=False)
        publish(b, c)
        for wanted in ([(0, 1)], [(0, 1), (0, 2)]):
            a.pull(Visits.of(wanted))
            assert np.shares_memory(a._owner.shelf.newest.packed, a._bank.hosted_rows.numpy())

    def test_many_chunks_make_the_same_row(self, joined: Joined) -> None:
        large = ModelLayout(lambda: nn.Linear(300, 20))
        a, b = joined(
            large, 2, lockstep=False, limits=PATIENT.model_copy(update={"chunk_bytes": 1024})
        )
        publish(b)
        assert len(a.pull(Visits.of([(0, 1)]))) == 1
        assert torch.equal(row_of(a, 1), b._bank.hosted_rows[0])

    @pytest.mark.parametrize("precision", ["float16", "bfloat16"])
    def test_half_the_bytes_are_rounded_numbers(
        self, joined: Joined, model: ModelLayout, precision: str
    ) -> None:
        a, b = joined(
            model, 2, lockstep=False, limits=PATIENT.model_copy(update={"precision": precision})
        )
        publish(b)
        a.pull(Visits.of([(0, 1)]))
        assert a.traffic.take()["training"].received[0] == 410 * 2
        torch.testing.assert_close(row_of(a, 1), b._bank.hosted_rows[0], rtol=2**-7, atol=1e-6)
        assert not torch.equal(row_of(a, 1), b._bank.hosted_rows[0])

    def test_nobody_waits_for_one_who_is_away(self, joined: Joined, model: ModelLayout) -> None:
        a, b, c = joined(
            model, 3, lockstep=False, limits=PATIENT.model_copy(update={"deadline": 1e6})
        )
        publish(b)
        c.close()
        assert a.presence._wait(lambda: "site2" not in a.presence._here, 60)
        assert a.pull(Visits.of([(0, 1), (0, 2)])).pairs == [(0, 1)]

    def test_who_has_nothing_yet_is_waited_for_until_the_deadline(
        self, joined: Joined, model: ModelLayout
    ) -> None:
        a, _ = joined(model, 2, lockstep=False, limits=PATIENT.model_copy(update={"deadline": 0.3}))
        assert len(a.pull(Visits.of([(0, 1)]))) == 0

    def test_a_model_is_lent_even_if_its_owner_has_left(
        self, joined: Joined, model: ModelLayout
    ) -> None:
        a, b, c = joined(model, 3, lockstep=False)
        publish(b)
        a.pull(Visits.of([(0, 1)]))
        kept = row_of(a, 1).clone()
        b.close(), c.close()
        assert a.presence._wait(lambda: not a.presence._here, 60)
        assert a.read_models(Visits.of([(0, 0), (0, 1), (0, 2)])).pairs == [(0, 0), (0, 1)]
        assert torch.equal(row_of(a, 1), kept)
        assert len(a.pull(Visits.of([(0, 1)]))) == 0, "but to visit it, it has to be there"

    def test_a_model_that_is_not_finite_is_not_offered(
        self, joined: Joined, model: ModelLayout
    ) -> None:
        a, b = joined(model, 2, lockstep=False, limits=PATIENT.model_copy(update={"deadline": 0.3}))
        b._bank.hosted_rows[0, 3] = torch.nan
        publish(b)
        assert len(a.pull(Visits.of([(0, 1)]))) == 0
        assert a.reputation.standings() == {}

    def test_a_hurried_peer_waits_for_nothing_and_blames_nobody(
        self, joined: Joined, model: ModelLayout, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level("INFO")
        a, _ = joined(model, 2, lockstep=True, limits=PATIENT.model_copy(update={"deadline": 1e6}))
        a.hurry()
        assert len(a.pull(Visits.of([(0, 1)]))) == 0
        assert "did not answer" not in caplog.text
        a.push(update(0, 0))
        assert len(a.collect()) == 1


class TestUpdates:
    def test_what_comes_late_is_collected_next_time(
        self, joined: Joined, model: ModelLayout
    ) -> None:
        a, b = joined(model, 2, lockstep=False)
        publish(b)
        a.pull(Visits.of([(0, 1)]))
        assert len(b.collect()) == 0
        publish(b)
        a.push(update(1, 0))
        assert b.collect().contributors.tolist() == [0]

    def test_what_comes_too_late_is_refused(self, joined: Joined, model: ModelLayout) -> None:
        a, b = joined(model, 2, lockstep=False, limits=PATIENT.model_copy(update={"staleness": 0}))
        publish(b)
        a.pull(Visits.of([(0, 1)]))
        b.collect()
        publish(b)
        a.push(update(1, 0))
        assert len(b.collect()) == 0
        assert b.reputation.standings() == {}, "being slow is no offence"

    def test_a_second_update_on_one_version_is_not_even_offered(
        self, joined: Joined, model: ModelLayout, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level("INFO")
        a, b = joined(model, 2, lockstep=False)
        publish(b)
        a.pull(Visits.of([(0, 1)]))
        for value in (1.0, 2.0):
            a.traffic.take()
            a.push(update(1, 0, value))
        assert a.traffic.take()["training"].sent[0] == 0
        assert "refused" not in caplog.text
        assert b.collect().rows.as_tensor()[:, 0].tolist() == [1.0]
        publish(b)
        a.pull(Visits.of([(0, 1)]))
        a.push(update(1, 0, 3.0))
        assert b.collect().rows.as_tensor()[:, 0].tolist() == [3.0], (
            "the next version is another matter"
        )

    def test_a_second_update_on_one_version_is_refused(
        self, joined: Joined, model: ModelLayout
    ) -> None:
        a, b = joined(model, 2, lockstep=False)
        publish(b)
        a.pull(Visits.of([(0, 1)]))
        for value in (1.0, 2.0):
            a.push(update(1, 0, value))
            a._given.clear()  # as after a restart
        assert b.collect().rows.as_tensor()[:, 0].tolist() == [1.0]
        assert b.reputation.standings() == {}

    def test_an_update_that_is_not_finite_is_not_sent(
        self, joined: Joined, model: ModelLayout
    ) -> None:
        a, b = joined(model, 2, lockstep=False)
        publish(b)
        a.pull(Visits.of([(0, 1)]))
        a.push(update(1, 0, float("nan")))
        assert len(b.collect()) == 0
        assert b.reputation.standings() == {}

    def test_large_updates_wait_on_the_disk_and_are_added_one_by_one(self, joined: Joined) -> None:
        large = ModelLayout(lambda: nn.Linear(600, 600))
        a, b, c = joined(large, 3, lockstep=False, limits=PATIENT.model_copy(update={"clip": 2.0}))
        publish(b)
        for place, visitor, value in ((0, a, 0.5), (2, c, 100.0)):
            visitor.pull(Visits.of([(place, 1)]))
            visitor.push(update(1, place, value, large.size))
        b.push(update(1, 1, 1.0, large.size))
        arrived, before = b.collect(), b._bank.hosted_rows[0].clone()
        assert isinstance(arrived.rows, RowsInFiles)
        assert [row.unique().item() for row in arrived.rows] == pytest.approx([0.5, 1.0, 2.0]), (
            "the last is shortened"
        )
        average_into(b._bank, arrived)
        torch.testing.assert_close(b._bank.hosted_rows[0], before + 3.5 / 3)

    def test_updates_are_sent_from_where_they_were_put_away(
        self, joined: Joined, tmp_path: Path
    ) -> None:
        large = ModelLayout(lambda: nn.Linear(600, 600))
        a, b = joined(large, 2, lockstep=False)
        publish(b)
        a.pull(Visits.of([(0, 1)]))
        moves = RowStorage(outbox=tmp_path).deltas(
            2, large.size, dtype=torch.float32, device=torch.device("cpu")
        )
        rows = torch.rand(2, large.size)
        moves.write(np.arange(2), rows)
        a.push(Updates(np.arange(2), np.zeros(2, np.int64), np.ones(2), moves))
        for peer, row in zip((a, b), rows, strict=True):
            (arrived,) = peer.collect().rows
            assert torch.equal(arrived, row)

    def test_what_was_pushed_is_not_held_until_it_is_collected(self, joined: Joined) -> None:
        a, _ = joined(ModelLayout(lambda: nn.Linear(600, 600)), 2, lockstep=False)
        numbers = np.ones((1, 600 * 601), np.float32)
        alive = weakref.ref(numbers)
        a.push(replace(update(0, 0), rows=Rows.of(torch.from_numpy(numbers))))
        del numbers
        gc.collect()
        assert alive() is None
        assert [row.unique().item() for row in a.collect().rows] == [1.0]

    def test_a_full_disk_does_not_end_the_own_training(
        self, joined: Joined, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        def full(*_: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        a, _ = joined(ModelLayout(lambda: nn.Linear(600, 600)), 2, lockstep=False)
        monkeypatch.setattr(rows_module, "reserve", full)
        a.push(update(0, 0, 1.0, 600 * 601))
        assert [row.unique().item() for row in a.collect().rows] == [1.0]
        assert "an update is kept in memory" in caplog.text

    def test_an_update_is_measured_by_ones_own(self, joined: Joined, model: ModelLayout) -> None:
        a, b = joined(model, 2, lockstep=False, limits=PATIENT.model_copy(update={"clip": 2.0}))
        publish(b)
        a.pull(Visits.of([(0, 1)]))
        a.push(update(1, 0, 100.0))
        b.push(update(1, 1, 0.5))
        assert b.collect().rows.as_tensor()[:, 0].tolist() == pytest.approx([1.0, 0.5])

    def test_one_in_quarantine_is_neither_asked_nor_heard(
        self, joined: Joined, model: ModelLayout
    ) -> None:
        a, b = joined(model, 2, lockstep=False)
        publish(b)
        a.pull(Visits.of([(0, 1)]))
        for _ in range(20):
            b.reputation.strike("site0", "test")
            a.reputation.strike("site1", "test")
        a.push(update(1, 0))
        assert len(b.collect()) == 0
        assert len(a.pull(Visits.of([(0, 1)]))) == 0


def pretend(where: object, name: str, value: object) -> None:
    """Give this one peer another belief."""
    object.__setattr__(where, name, value)


def patch(where: object, name: str, change: Callable) -> None:
    """From now on, what that method returns is changed."""
    method = getattr(where, name)
    pretend(where, name, lambda *args, **named: change(method(*args, **named)))


def another_federation(peer: NetworkExchange) -> None:
    pretend(peer._peer, "roster", replace(peer._peer.roster, digest=b"x" * 32))


def repeat(where: object, name: str) -> None:
    """From now on, that method returns what it returned first."""
    first: list[object] = []
    patch(where, name, lambda answer: first.append(answer) or first[0])


@pytest.fixture
def lock_step(
    joined: Joined, blobs, learner
) -> Callable[..., tuple[list[Federico], list[list[Round]]]]:
    """Three sites play five rounds together, with their models wherever the storage puts them."""
    clients = blobs([12, 9, 15])

    def play_all(
        options: FedericoOptions, make_storage: Callable[[], RowStorage]
    ) -> tuple[list, list]:
        limits = PATIENT.model_copy(update={"clip": 10.0})
        peers = joined(learner(clients).layout, 3, limits=limits, kind=NetworkExchange)

        def site(number: int) -> Federico:
            """Made one after the other: new models are drawn from torch's one generator, which threads would share."""

            def connect(bank: Bank, participants: int) -> NetworkExchange:
                peers[number]._bank = bank
                return peers[number]

            people, mine = tuple(client.name for client in clients), learner(clients)
            mine.storage = make_storage()
            mine.states = mine.new_states()
            hosting = Hosting(3, number, 3)
            return build_method(
                Federico, options, names=people, learner=mine, hosting=hosting, connect=connect
            )

        def play(mine: Federico) -> list[Round]:
            return [mine.round(index) for index in range(1, 6)]

        sites = [site(number) for number in range(3)]
        played = together([partial(play, mine) for mine in sites])
        assert all(peer.reputation.standings() == {} for peer in peers)
        return sites, played

    return play_all


@pytest.mark.parametrize("worse_than_guess", ["ignored", "tracked"])
def test_three_peers_in_lock_step_give_the_numbers_of_one_process(
    lock_step, blobs, method, worse_than_guess: str
) -> None:
    options = FedericoOptions(neighbors=2, epsilon=0.5, worse_than_guess=worse_than_guess)
    alone = method("federico", blobs([12, 9, 15]), **options.model_dump())
    expected = [alone.round(index) for index in range(1, 6)]
    for number, (mine, rounds_played) in enumerate(
        zip(*lock_step(options, RowStorage), strict=True)
    ):
        for together_, apart in zip(expected, rounds_played, strict=True):
            assert together_.neighbors[number].tolist() == apart.neighbors[0].tolist()
            assert together_.posteriors[number].peers.tolist() == apart.posteriors[0].peers.tolist()
            np.testing.assert_allclose(
                together_.posteriors[number].weights, apart.posteriors[0].weights, atol=1e-12
            )
        torch.testing.assert_close(
            mine.bank.hosted_rows[0], alone.bank.hosted_rows[number], rtol=1e-12, atol=1e-12
        )


@pytest.mark.parametrize("m_step", ["epochs", "gradient"])
def test_models_moments_and_moves_on_the_disk_are_the_same_to_the_byte(
    lock_step, m_step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = FedericoOptions(neighbors=2, epsilon=0.5, m_step=m_step, worse_than_guess="tracked")
    # Rows that can lie on the disk are never short enough to be added at once.
    monkeypatch.setattr(rows_module, "SMALL", 1)
    in_memory, _ = lock_step(options, RowStorage)
    monkeypatch.setattr(rows_module, "LARGE", 1)
    on_disk, _ = lock_step(options, lambda: RowStorage(tmp_path, outbox=tmp_path))
    for mine, theirs in zip(in_memory, on_disk, strict=True):
        assert isinstance(theirs.learner.new_deltas(1), RowsInFiles)
        expected, found = mine.state(), theirs.state()
        assert expected.keys() == found.keys()
        assert all(torch.equal(expected[name], found[name]) for name in expected)


def spoilt(sealed: bytes) -> bytes:
    return sealed[:-1] + bytes([sealed[-1] ^ 1])


class TestHostility:
    """site1 does what it should not; site0 notes it, and nothing of it gets into its models."""

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            (lambda peer: peer._bank.hosted_rows[0].fill_(float("nan")), "not finite"),
            (lambda peer: peer._bank.hosted_rows[0].fill_(1e30), "not finite"),
            (another_federation, "federation: another"),
            (lambda peer: pretend(peer._peer.schema, "hash", b"x" * 32), "schema: another"),
            (
                lambda peer: patch(peer._owner, "_chunk", lambda chunk: chunk[::-1]),
                "not the announced",
            ),
            (
                lambda peer: patch(peer._owner, "_chunk", lambda chunk: chunk * 2),
                "not the announced",
            ),
            (lambda peer: patch(peer._owner, "_announce", spoilt), "signature"),
            (
                lambda peer: patch(peer._owner, "_announce", lambda sealed: b"\0" * 3_000_000),
                "a message of",
            ),
        ],
        ids=["NaN", "1e30", "federation", "schema", "bytes", "oversized", "signature", "bomb"],
    )
    def test_a_model_against_the_rules(
        self,
        joined: Joined,
        model: ModelLayout,
        monkeypatch: pytest.MonkeyPatch,
        change,
        reason: str,
    ) -> None:
        monkeypatch.setattr(
            "federico.network.exchange.square_sum", lambda row: 1.0
        )  # a hostile peer checks nothing
        a, b, c = joined(model, 3, lockstep=False)
        change(b)
        publish(b, c)
        assert a.pull(Visits.of([(0, 1), (0, 2)])).pairs == [(0, 2)]
        assert reason in a.reputation.standing("site1").reason
        assert list(a.reputation.standings()) == ["site1"]
        assert 1 not in a._bank.visiting_places

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            (another_federation, "federation: another"),
            (lambda peer: pretend(peer._peer.schema, "hash", b"x" * 32), "schema: another"),
            (lambda peer: pretend(peer._peer, "number", 2), "contributor: 2, not 1"),
            (lambda peer: peer._held.update({0: replace(peer._held[0], version=9)}), "version: 9"),
            (lambda peer: patch(peer._peer, "announce", spoilt), "signature"),
        ],
        ids=["federation", "schema", "another's name", "wrong round", "signature"],
    )
    def test_an_update_against_the_rules(
        self, joined: Joined, model: ModelLayout, change, reason: str
    ) -> None:
        a, b = joined(model, 2, lockstep=False)
        publish(a)
        b.pull(Visits.of([(1, 0)]))
        change(b)
        b.push(update(0, 1))
        assert len(a.collect()) == 0
        assert reason in a.reputation.standing("site1").reason

    def test_an_announcement_of_before(self, joined: Joined, model: ModelLayout) -> None:
        a, b = joined(model, 2, lockstep=False)
        repeat(b._owner, "_announce")
        publish(b)
        assert len(a.pull(Visits.of([(0, 1)]))) == 1
        assert len(a.pull(Visits.of([(0, 1)]))) == 0
        assert "nonce: another" in a.reputation.standing("site1").reason

    def test_numbers_against_the_rules(
        self, joined: Joined, model: ModelLayout, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("federico.network.exchange.square_sum", lambda row: 1.0)
        a, b = joined(model, 2, lockstep=False)
        publish(a)
        b.pull(Visits.of([(1, 0)]))
        b.push(update(0, 1, float("inf")))
        assert len(a.collect()) == 0
        assert "not finite" in a.reputation.standing("site1").reason
