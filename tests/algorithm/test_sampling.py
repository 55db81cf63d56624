from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from federico.algorithm.sampling import (
    Coin,
    EpsilonGreedy,
    Everyone,
    Sampler,
    Strangers,
    Uniform,
    View,
    draw_by_weight,
)
from federico.types import FloatArray, IntArray

seeds = st.integers(0, 2**32 - 1)
CHI_SQUARE_4_AT_1_PERCENT = 13.28


@st.composite
def views(draw: st.DrawFn) -> View:
    count = draw(st.integers(1, 9))
    known = sorted(draw(st.sets(st.integers(0, count - 1))))
    losses = [draw(st.floats(0, 5) | st.just(np.inf)) for _ in known]
    return View(
        draw(st.integers(0, count - 1)), count, np.array(known, dtype=np.int64), np.array(losses)
    )


def view_of(losses: dict[int, float], *, peer: int = 0, count: int = 6) -> View:
    known = sorted(losses)
    return View(peer, count, np.array(known, dtype=np.int64), np.array([losses[j] for j in known]))


def draws(sampler: Sampler, view: View, times: int) -> list[list[int]]:
    rng = np.random.default_rng(0)
    return [sampler.sample(view, rng).tolist() for _ in range(times)]


def chi_square(samples: list[list[int]], peers: list[int]) -> float:
    observed = np.array([sum(peer in sample for sample in samples) for peer in peers])
    expected = observed.sum() / len(peers)
    return float(((observed - expected) ** 2 / expected).sum())


def assert_valid(chosen: IntArray, view: View) -> None:
    assert chosen.tolist() == sorted(set(chosen.tolist()))
    assert view.peer not in chosen
    assert np.all((chosen >= 0) & (chosen < view.count))


@given(
    views(),
    st.integers(0, 9),
    st.floats(0, 1),
    st.sampled_from(["per_round", "per_neighbor"]),
    seeds,
)
def test_epsilon_greedy_gives_the_right_number_of_different_others(
    view: View, neighbors: int, epsilon: float, coin: Coin, seed: int
) -> None:
    chosen = EpsilonGreedy(neighbors, epsilon, coin).sample(view, np.random.default_rng(seed))
    assert_valid(chosen, view)
    assert len(chosen) == min(neighbors, view.count - 1)


@given(views(), st.integers(0, 9), seeds)
def test_uniform_gives_the_right_number_of_different_others(
    view: View, neighbors: int, seed: int
) -> None:
    chosen = Uniform(neighbors).sample(view, np.random.default_rng(seed))
    assert_valid(chosen, view)
    assert len(chosen) == min(neighbors, view.count - 1)


@given(views(), seeds)
def test_everyone_is_all_others_and_draws_nothing(view: View, seed: int) -> None:
    rng = np.random.default_rng(seed)
    assert Everyone().sample(view, rng).tolist() == [j for j in range(view.count) if j != view.peer]
    assert rng.random() == np.random.default_rng(seed).random()


@given(views(), st.integers(0, 9), st.sampled_from(["per_round", "per_neighbor"]), seeds)
def test_greedy_takes_the_best_with_strangers_first(
    view: View, neighbors: int, coin: Coin, seed: int
) -> None:
    chosen = EpsilonGreedy(neighbors, 0.0, coin).sample(view, np.random.default_rng(seed)).tolist()
    loss = dict(zip(view.known.tolist(), view.losses.tolist(), strict=True))
    left = [j for j in range(view.count) if j != view.peer and j not in chosen]
    worst = max((loss.get(j, 0.0) for j in chosen), default=0.0)
    assert all(loss.get(j, 0.0) >= worst for j in left)


@given(views(), st.integers(0, 9), st.sampled_from(["per_round", "per_neighbor"]), seeds)
def test_cautious_and_greedy_never_picks_a_stranger(
    view: View, neighbors: int, coin: Coin, seed: int
) -> None:
    chosen = EpsilonGreedy(neighbors, 0.0, coin, "cautious").sample(
        view, np.random.default_rng(seed)
    )
    assert_valid(chosen, view)
    assert set(chosen.tolist()) <= set(view.known.tolist())
    assert len(chosen) == min(neighbors, len(set(view.known.tolist()) - {view.peer}))


@given(views(), st.integers(1, 9), seeds)
def test_cautious_reaches_strangers_by_exploring(view: View, neighbors: int, seed: int) -> None:
    chosen = EpsilonGreedy(neighbors, 1.0, "per_round", "cautious").sample(
        view, np.random.default_rng(seed)
    )
    assert len(chosen) == min(neighbors, view.count - 1)


@pytest.mark.parametrize("coin", ["per_round", "per_neighbor"])
@pytest.mark.parametrize("neighbors", [1, 3])
def test_epsilon_one_is_uniform_whatever_the_losses(coin: Coin, neighbors: int) -> None:
    view = view_of({0: 0.0, 1: 0.1, 2: 5.0, 3: np.inf}, peer=2)
    samples = draws(EpsilonGreedy(neighbors, 1.0, coin), view, 2000)
    assert chi_square(samples, [0, 1, 3, 4, 5]) < CHI_SQUARE_4_AT_1_PERCENT


def test_uniform_is_uniform() -> None:
    assert (
        chi_square(draws(Uniform(2), view_of({}, peer=5), 2000), [0, 1, 2, 3, 4])
        < CHI_SQUARE_4_AT_1_PERCENT
    )


@pytest.mark.parametrize(
    "losses", [{}, {1: 2.0, 2: 2.0, 3: 2.0, 4: 2.0, 5: 2.0}], ids=["strangers", "equals"]
)
def test_ties_break_at_random(losses: dict[int, float]) -> None:
    samples = draws(EpsilonGreedy(2, 0.0), view_of(losses), 2000)
    assert chi_square(samples, [1, 2, 3, 4, 5]) < CHI_SQUARE_4_AT_1_PERCENT


@pytest.mark.parametrize("strangers", ["optimistic", "literal"])
def test_strangers_come_before_everyone_known(strangers: Strangers) -> None:
    view = view_of({0: 0.0, 1: 0.01, 2: 0.02, 3: 0.03})
    assert EpsilonGreedy(2, 0.0, strangers=strangers).sample(
        view, np.random.default_rng(0)
    ).tolist() == [4, 5]


def test_one_coin_is_all_or_nothing() -> None:
    greedy = replace(EpsilonGreedy(2, 0.5), coin="per_round")
    kept = [len({1, 2} & set(sample)) for sample in draws(greedy, ranked(), 3000)]
    # Both best by the coin (1/2), or by chance among the 10 pairs of a uniform draw.
    np.testing.assert_allclose(
        np.bincount(kept) / 3000, [0.5 * 3 / 10, 0.5 * 6 / 10, 0.5 + 0.5 / 10], atol=0.03
    )


def test_a_coin_per_neighbor_mixes_within_a_round() -> None:
    greedy = replace(EpsilonGreedy(2, 0.5), coin="per_neighbor")
    kept = [len({1, 2} & set(sample)) for sample in draws(greedy, ranked(), 3000)]
    # First slot explores onto neither best with 1/2 * 3/5; then the second does with 1/2 * 2/4.
    # Both best: explore
    # 1/2 * 2/5 or take the best 1/2, then the other best 1/2 + 1/2 * 1/4.
    none, both = 0.3 * 0.25, 0.7 * 0.625
    np.testing.assert_allclose(np.bincount(kept) / 3000, [none, 1 - none - both, both], atol=0.03)


def ranked() -> View:
    """Everyone known, 1 and 2 the best."""
    return view_of({0: 0.0, 1: 0.1, 2: 0.2, 3: 3.0, 4: 4.0, 5: 5.0})


# Drawn by trust.


@given(
    arrays(np.float64, st.integers(0, 8), elements=st.floats(0, 1) | st.just(1e-320)),
    st.integers(0, 9),
    seeds,
)
def test_a_draw_by_weight_gives_different_peers_that_have_weight(
    weights: FloatArray, neighbors: int, seed: int
) -> None:
    peers = 3 * np.arange(len(weights))
    drawn = draw_by_weight(peers, weights, neighbors, np.random.default_rng(seed)).tolist()
    assert drawn == sorted(set(drawn))
    assert set(drawn) <= set(peers[weights > 0].tolist())
    noticeable = int((weights > 1e-9).sum())
    assert len(drawn) >= min(neighbors, noticeable)
    assert len(drawn) <= neighbors


def test_a_draw_by_weight_is_as_frequent_as_the_weight_says() -> None:
    rng = np.random.default_rng(0)
    peers = np.array([2, 5, 7])
    drawn = [draw_by_weight(peers, np.array([1.0, 3.0, 0.0]), 1, rng)[0] for _ in range(4000)]
    frequencies = [np.mean(np.array(drawn) == peer) for peer in peers]
    np.testing.assert_allclose(frequencies, [0.25, 0.75, 0], atol=0.03)


def test_nobody_is_drawn_where_nobody_has_weight() -> None:
    rng = np.random.default_rng(0)
    assert draw_by_weight(np.array([1, 2]), np.zeros(2), 2, rng).tolist() == []
    nobody = np.empty(0, np.int64)
    assert draw_by_weight(nobody, np.empty(0), 2, rng).tolist() == []


def test_a_stranger_that_failed_comes_last_instead_of_first() -> None:
    view = View(0, 4, np.array([0, 1]), np.array([0.1, 5.0]))
    sampler = EpsilonGreedy(neighbors=2, epsilon=0.0)
    rng = np.random.default_rng(0)
    assert sampler.sample(view, rng).tolist() == [2, 3]
    assert sampler.sample(view.without_optimism_for(np.array([3])), rng).tolist() == [1, 2]
    all_asked = EpsilonGreedy(neighbors=3, epsilon=0.0)
    assert all_asked.sample(view.without_optimism_for(np.array([3])), rng).tolist() == [1, 2, 3]
