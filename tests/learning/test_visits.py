"""Visits are pairs of a client and the owner of a model."""

import numpy as np

from federico.learning.visits import Visits


def test_visits_are_pairs() -> None:
    visits = Visits.of([(0, 1), (2, 0)])
    assert (len(visits), visits.pairs) == (2, [(0, 1), (2, 0)])
    assert visits[np.array([1])].pairs == [(2, 0)]
    assert Visits.to_own(np.arange(3)).pairs == [(0, 0), (1, 1), (2, 2)]


def test_visits_are_found_by_client() -> None:
    found = Visits.of([(2, 0), (0, 1), (2, 2)]).by_client()
    assert [(client, places.tolist()) for client, places in found] == [(0, [1]), (2, [0, 2])]


def test_no_visits_are_visits_too() -> None:
    assert Visits.of([]).pairs == []
    assert Visits.of([]).by_client() == []
