"""What every exchange must do. A new one inherits the class and gives its own `connect`."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from federico.exchange.protocol import Exchange, Updates
from federico.learning.bank import Bank
from federico.learning.layout import ModelLayout
from federico.learning.parts import ModelPart
from federico.learning.personal_parts import PersonalParts
from federico.learning.rows import Rows
from federico.learning.visits import Visits

PEERS = 4
MODEL_BYTES = 3 * 8
Connect = Callable[[Bank, int], Exchange]


def updates_of(pairs: list[tuple[int, int]], value: float = 0.0) -> Updates:
    """An update for each (owner, contributor); its numbers tell whose it is."""
    owners, contributors = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    rows = torch.tensor(
        [[float(b), float(i), value] for b, i in pairs], dtype=torch.float64
    ).reshape(-1, 3)
    return Updates(owners, contributors, 10.0 * owners + contributors, Rows.of(rows))


def new_bank() -> Bank:
    """Models of two weights and a bias."""
    layout = ModelLayout(lambda: nn.Linear(2, 1), torch.float64)
    return Bank.start(layout, 0, {i: str(i) for i in range(PEERS)}, torch.device("cpu"))


class ExchangeContract:
    """Inherit, and override `connect`."""

    @pytest.fixture
    def connect(self) -> Connect:
        raise NotImplementedError

    @pytest.fixture
    def bank(self) -> Bank:
        return new_bank()

    @pytest.fixture
    def exchange(self, connect: Connect, bank: Bank) -> Exchange:
        return connect(bank, PEERS)

    def test_a_pull_brings_the_models_of_the_visits_it_returns(
        self, exchange: Exchange, bank: Bank
    ) -> None:
        before = bank.rows.clone()
        wanted = Visits.of([(0, 1), (2, 3), (1, 0)])
        came = exchange.pull(1, wanted)
        assert came.pairs == wanted.pairs
        assert torch.equal(bank.rows[bank.places(came.owners)], before[[1, 3, 0]])

    def test_a_model_that_is_withheld_comes_to_nobody_but_its_owner(
        self, exchange: Exchange
    ) -> None:
        exchange.withhold(np.array([1]))
        wanted = Visits.of([(0, 1), (0, 2), (1, 1), (2, 1), (1, 0)])
        possible = [(0, 2), (1, 1), (1, 0)]
        assert exchange.pull(1, wanted).pairs == possible
        assert exchange.traffic.take()["training"].sent[1] == 0
        assert exchange.read_models(1, wanted).pairs == possible
        assert exchange.traffic.take()["evaluation"].sent[1] == 0

    def test_nothing_wanted_is_nothing_pulled(self, exchange: Exchange) -> None:
        assert exchange.pull(1, Visits.of([])).pairs == []

    def test_pushed_updates_move_no_model(self, exchange: Exchange, bank: Bank) -> None:
        before = bank.rows.clone()
        exchange.push(1, updates_of([(0, 1), (1, 1)]))
        exchange.collect(1)
        assert torch.equal(bank.rows, before)

    def test_updates_arrive_whole_ordered_by_owner_then_contributor(
        self, exchange: Exchange
    ) -> None:
        exchange.push(1, updates_of([(2, 3), (0, 2), (2, 0), (0, 0), (2, 2)]))
        arrived = exchange.collect(1)
        assert arrived.owners.tolist() == [0, 0, 2, 2, 2]
        assert arrived.contributors.tolist() == [0, 2, 0, 2, 3]
        assert arrived.coefficients.tolist() == [0.0, 2.0, 20.0, 22.0, 23.0]
        assert arrived.rows.as_tensor()[:, :2].tolist() == [[0, 0], [0, 2], [2, 0], [2, 2], [2, 3]]

    def test_who_pushed_first_does_not_matter(self, connect: Connect, bank: Bank) -> None:
        pairs = [(2, 3), (0, 2), (2, 0), (0, 0)]
        arrived = []
        for order in (pairs, pairs[::-1]):
            exchange = connect(bank, PEERS)
            exchange.push(1, updates_of(order))
            arrived.append(exchange.collect(1).rows.as_tensor())
        assert torch.equal(*arrived)

    def test_no_update_at_all_can_be_pushed(self, exchange: Exchange) -> None:
        exchange.push(1, updates_of([]))
        assert len(exchange.collect(1)) == 0

    def test_an_update_arrives_once(self, exchange: Exchange) -> None:
        for round_index, value in ((1, 1.0), (2, 2.0)):
            exchange.push(round_index, updates_of([(0, 1)], value))
            assert exchange.collect(round_index).rows.as_tensor()[:, 2].tolist() == [value]

    def test_a_model_pulled_costs_its_bytes_at_both_ends(self, exchange: Exchange) -> None:
        exchange.pull(1, Visits.of([(0, 1), (2, 1), (3, 0)]))
        counted = exchange.traffic.take()["training"]
        sent, received = counted.sent, counted.received
        assert (sent / MODEL_BYTES).tolist() == [1, 2, 0, 0]
        assert (received / MODEL_BYTES).tolist() == [1, 0, 1, 1]

    def test_an_update_costs_its_row_and_its_coefficient(self, exchange: Exchange) -> None:
        exchange.push(1, updates_of([(0, 1), (0, 3)]))
        exchange.collect(1)
        counted = exchange.traffic.take()["training"]
        sent, received = counted.sent, counted.received
        assert sent.tolist() == [0, MODEL_BYTES + 8, 0, MODEL_BYTES + 8]
        assert received.tolist() == [2 * (MODEL_BYTES + 8), 0, 0, 0]

    def test_what_stays_at_home_costs_nothing(self, exchange: Exchange) -> None:
        exchange.pull(1, Visits.of([(1, 1)]))
        exchange.push(1, updates_of([(1, 1)]))
        exchange.collect(1)
        assert exchange.traffic.take()["training"].moved == 0

    def test_counting_starts_again_after_it_is_taken(self, exchange: Exchange) -> None:
        exchange.pull(1, Visits.of([(0, 1)]))
        exchange.traffic.take()
        assert exchange.traffic.take()["training"].moved == 0

    def test_models_read_for_evaluation_are_those_after_the_round(
        self, exchange: Exchange, bank: Bank
    ) -> None:
        before = bank.rows.clone()
        wanted = Visits.of([(0, 1), (2, 3), (1, 1)])
        came = exchange.read_models(0, wanted)
        assert came.pairs == wanted.pairs
        assert torch.equal(bank.rows[bank.places(came.owners)], before[[1, 3, 1]])

    def test_bytes_read_for_evaluation_are_counted_apart(self, exchange: Exchange) -> None:
        exchange.read_models(0, Visits.of([(0, 1), (2, 1), (3, 3)]))
        counted = exchange.traffic.take()
        assert counted["training"].moved == 0
        assert (counted["evaluation"].sent / MODEL_BYTES).tolist() == [0, 2, 0, 0]
        assert (counted["evaluation"].received / MODEL_BYTES).tolist() == [1, 0, 1, 0]

    def test_nothing_to_read_is_nothing_moved(self, exchange: Exchange) -> None:
        assert exchange.read_models(0, Visits.of([])).pairs == []
        assert exchange.traffic.take()["evaluation"].moved == 0

    def test_a_round_after_another(self, exchange: Exchange) -> None:
        """All four verbs in turn, twice: each round collects what was pushed in it."""
        for round_index, owner in ((1, 1), (2, 2)):
            assert len(exchange.pull(round_index, Visits.of([(0, owner)]))) == 1
            exchange.push(round_index, updates_of([(owner, 0)], float(round_index)))
            arrived = exchange.collect(round_index)
            assert arrived.owners.tolist() == [owner]
            assert arrived.rows.as_tensor()[:, 2].tolist() == [round_index]
            assert len(exchange.read_models(round_index, Visits.of([(3, owner)]))) == 1

        traffic = exchange.traffic.take()
        update = MODEL_BYTES + 8
        assert traffic["training"].received.tolist() == [2 * MODEL_BYTES, update, update, 0]
        assert traffic["evaluation"].received.tolist() == [0, 0, 0, 2 * MODEL_BYTES]


class PartOfModelContract:
    """For an exchange of several peers, of whose models only a part travels."""

    @pytest.fixture
    def weights_only(self, connect: Connect) -> Exchange:
        layout = ModelLayout(lambda: nn.Linear(2, 1), torch.float64)
        weight = ModelPart.named(layout, ["weight"])
        starts = {i: str(i) for i in range(PEERS)}
        parts = PersonalParts(layout, weight, 0, starts, PEERS)
        bank = Bank.start(layout, 0, starts, torch.device("cpu"), personal=parts)
        return connect(bank, PEERS)

    def test_only_the_part_is_carried_and_counted(self, weights_only: Exchange) -> None:
        part_bytes = 2 * 8
        weights_only.pull(1, Visits.of([(0, 1)]))
        sent = updates_of([(1, 0)])
        rows = Rows.of(sent.rows.as_tensor()[:, :2])
        weights_only.push(1, replace(sent, rows=rows))
        assert weights_only.collect(1).rows.as_tensor().tolist() == [[1, 0]]
        weights_only.read_models(1, Visits.of([(3, 1)]))
        traffic = weights_only.traffic.take()
        assert traffic["training"].sent.tolist() == [part_bytes + 8, part_bytes, 0, 0]
        assert traffic["evaluation"].sent.tolist() == [0, part_bytes, 0, 0]
