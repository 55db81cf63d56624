"""Peers never evaluated: how each policy comes to know them, or not."""

from collections.abc import Callable
from math import ceil
from typing import Any

import pytest

from federico.learning.client_data import ClientData
from federico.methods.federico import Federico
from federico.methods.method import Round
from federico.rng import stream

Clients = Callable[..., list[ClientData]]
Build = Callable[..., Federico]
Play = Callable[..., list[Round]]
PEERS = 7


@pytest.mark.parametrize("options", [{"judging": 1.0}, {"preset": "paper"}], ids=["", "paper"])
@pytest.mark.parametrize("neighbors", [1, 2, 4, 6])
def test_an_optimist_tries_every_stranger_once_before_anyone_twice(
    method: Build, sine: Clients, play: Play, neighbors: int, options: dict[str, Any]
) -> None:
    federico = method("federico", sine((5,) * PEERS), neighbors=neighbors, epsilon=0.0, **options)
    greedy_rounds = ceil((PEERS - 1) / neighbors)
    rounds = play(federico, 1 + greedy_rounds)[1:]
    for i in range(PEERS):
        tried = [j for played in rounds for j in played.neighbors[i].tolist()]
        assert set(tried) == set(range(PEERS)) - {i}
        before_the_last = [j for played in rounds[:-1] for j in played.neighbors[i].tolist()]
        assert len(before_the_last) == len(set(before_the_last))


def test_a_cautious_peer_that_never_explores_stays_at_home(
    method: Build, sine: Clients, play: Play
) -> None:
    federico = method(
        "federico", sine((5,) * PEERS), neighbors=3, epsilon=0.0, strangers="cautious"
    )
    for played in play(federico, 5):
        assert [row.tolist() for row in played.neighbors] == [[]] * PEERS
        assert [row.peers.tolist() for row in played.posteriors] == [[i] for i in range(PEERS)]


def test_a_cautious_peer_explores_by_its_coin_and_else_returns_to_the_best_it_has_met(
    method: Build, sine: Clients, play: Play
) -> None:
    federico = method(
        "federico",
        sine((5,) * PEERS),
        preset="paper",
        neighbors=2,
        epsilon=0.5,
        strangers="cautious",
        solo_rounds=0,
    )
    returned = 0
    for round_index in range(1, 9):
        known = [
            dict(zip(t.peers.tolist(), t.tracked.tolist(), strict=True))
            for t in federico.evidence.losses.values()
        ]
        (played,) = play(federico, 1, first=round_index)
        for i, neighbors in enumerate(played.neighbors):
            explores = stream(0, "sample", f"c{i}", round_index).random() < 0.5
            best = sorted(known[i].keys() - {i}, key=known[i].__getitem__)[:2]
            if explores:
                assert len(neighbors) == 2
            else:
                assert neighbors.tolist() == sorted(best)
                returned += len(best) == 2
    assert returned > 5


@pytest.mark.parametrize("preset", ["federico", "paper"])
def test_strangers_take_no_part_in_posterior_or_prediction(
    method: Build, sine: Clients, play: Play, preset: str
) -> None:
    federico = method("federico", sine((5,) * PEERS), preset=preset, neighbors=1)
    play(federico, 3)
    for i, row in federico.posteriors.items():
        assert len(row.peers) <= 3
        assert i in row.peers
    visits = federico.predictors(3).visits
    assert all(b in federico.posteriors[i].peers for i, b in visits.pairs)
