"""Peers are visited in any order: all losses and updates of a round belong to the models it started
with."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from federico.exchange.protocol import Updates
from federico.learning.client_data import ClientData
from federico.learning.visits import Visits
from federico.methods.federico import Federico
from federico.methods.method import Round, pull_neighbors

Clients = Callable[..., list[ClientData]]
Build = Callable[..., Federico]
Play = Callable[..., list[Round]]

RULES: dict[str, dict[str, str]] = {
    "default": {},
    "ignored": {"preset": "paper"},
    "tracked": {"preset": "paper", "worse_than_guess": "tracked"},
}


class Shuffled(Federico):
    """Visits, and what they send, in an order of their own."""

    def pull(self, round_index: int, neighbors: list[np.ndarray]) -> Visits:
        visits = super().pull(round_index, neighbors)
        return visits[np.random.default_rng(len(visits)).permutation(len(visits))]

    def m_step(self, visits: Visits, round_index: int) -> Updates:
        updates = super().m_step(visits, round_index)
        return updates.take(np.random.default_rng(round_index).permutation(len(updates)))


@pytest.mark.parametrize("m_step", ["epochs", "gradient"])
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_the_order_changes_no_bit(
    method: Build, blobs: Clients, play: Play, m_step: str, rule: dict[str, str]
) -> None:
    options = {"m_step": m_step, "neighbors": 2, "hidden": (5,), "rounds": 4, **rule}
    sorted_one, shuffled = (
        method(cls, blobs((7, 4, 5, 6)), **options) for cls in (Federico, Shuffled)
    )
    for a, b in zip(play(sorted_one, 4), play(shuffled, 4), strict=True):
        for one, other in zip(a.posteriors, b.posteriors, strict=True):
            assert one.weights.tolist() == other.weights.tolist()
    assert torch.equal(sorted_one.bank.rows, shuffled.bank.rows)


def test_everything_before_the_update_sees_round_start_models(
    method: Build, blobs: Clients
) -> None:
    federico = method("federico", blobs((7, 4, 5, 6)), neighbors=2, solo_rounds=0)
    start = federico.bank.rows.clone()
    visits = pull_neighbors(federico, 1, federico.sample(1))
    federico.e_step(visits)
    updates = federico.m_step(visits, 1)
    assert torch.equal(federico.bank.rows, start)
    federico.exchange.push(1, updates)
    federico.update(1, federico.exchange.collect(1))
    assert not torch.equal(federico.bank.rows, start)
