"""What a contributor's updates say about it, and how it gets its standing back."""

import numpy as np
import pytest

from federico.algorithm.standing import TOO_FAR, Standings, UpdateWorths, too_far


def test_only_what_is_very_far_is_refused() -> None:
    lengths = np.array([2.0, 2.0, 0.5])
    distances = TOO_FAR * lengths * np.array([1.0, 1.01, 0.9])
    assert too_far(distances, lengths).tolist() == [False, True, False]


def test_an_owner_that_has_nothing_to_compare_with_refuses_nothing() -> None:
    assert not too_far(np.array([np.inf, 1.0]), np.array([1.0, 0.0])).any()


def noted(*rounds: bool) -> Standings:
    """What is known of peer 3 after rounds in which an update of it was refused, or not."""
    standings = Standings()
    for is_refused in rounds:
        standings.note(np.array([1, 3]), np.array([False, is_refused]))
    return standings


def test_each_refusal_costs_half_and_who_is_not_refused_is_not_even_noted() -> None:
    standings = noted(True, True)
    assert standings.peers.tolist() == [3]
    assert standings.of(np.array([1, 3, 5])).tolist() == [1.0, 0.25, 1.0]
    assert standings.refusals.tolist() == [2]


def test_there_is_a_way_back_and_it_ends_where_it_began() -> None:
    assert noted(True, False).standing.tolist() == pytest.approx([0.6])
    regained = noted(*[True] * 20, *[False] * 10)
    assert regained.standing.tolist() == pytest.approx([1.0], abs=1e-5)
    assert noted(True, *[False] * 30).standing.tolist() == [1.0]


def test_who_sends_nothing_regains_its_standing_too() -> None:
    standings = noted(True)
    nobody = np.empty(0, np.int64)
    for _ in range(5):
        standings.note(nobody, np.empty(0, dtype=bool))
    assert standings.of(np.array([3])).tolist() == pytest.approx([1.0])


def test_an_honest_peer_that_is_refused_now_and_then_keeps_most_of_its_standing() -> None:
    every_tenth = noted(*[round_index % 10 == 0 for round_index in range(100)])
    assert every_tenth.standing[0] > 0.9


def worths(*rounds: float) -> list[bool]:
    """Whether the updates of peer 3 are refused, round by round, if they are worth so many nats."""
    table = UpdateWorths()
    refused: list[bool] = []
    for nats in rounds:
        table.fade()
        refused.append(bool(table.note(np.array([3]), np.array([nats]))[0]))
    return refused


def test_who_has_cost_a_nat_is_refused_and_not_who_is_now_and_then_a_bad_one() -> None:
    assert worths(-0.6, -0.6, -0.6) == [False, True, True]
    assert not any(worths(*[-0.6, 0.3, 0.3] * 10))
    assert not any(worths(*[-0.05] * 100)), "what is hardly worse than nothing is forgotten"


def test_good_updates_cannot_be_saved_up() -> None:
    assert worths(100.0, 100.0, -1.2)[-1]


def test_who_does_no_more_harm_is_heard_again_whatever_it_did() -> None:
    refused = worths(-1000.0, *[0.0] * 12)
    assert refused[0]
    assert not refused[-1]


def test_what_is_no_number_is_the_most_that_can_be_held_against_anybody() -> None:
    table = UpdateWorths()
    assert table.note(np.array([3, 4]), np.array([-np.inf, np.inf])).tolist() == [True, False]
    assert np.isfinite(table.worth).all()
