"""FedeRiCo with its default options where there is hardly anything to learn from.

Nothing crashes, all predictions are finite, and nobody ends clearly worse than it would be alone.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch

from federico.exchange.protocol import Updates
from federico.exchange.simulated import SimulatedExchange
from federico.experiment.evaluation import Evaluation, evaluate
from federico.learning.bank import Bank
from federico.learning.client_data import ClientData
from federico.methods.federico import Federico
from federico.methods.method import Method

Build = Callable[..., Method]
Samples = tuple[np.ndarray, np.ndarray]

ROUNDS = 12
TESTS = 200
CENTERS = np.array([[2.0, 0.0, 0.0, 0.0], [0.0, 2.0, 0.0, 0.0], [0.0, 0.0, 2.0, 0.0]])


def noticeable(accuracy_alone: float) -> float:
    """Three standard errors of the difference of two accuracies on a client's test samples."""
    variance = accuracy_alone * (1 - accuracy_alone) + 1 / TESTS
    return 3 * float(np.sqrt(2 * variance / TESTS))


def draw(random: np.random.Generator, labels: np.ndarray, turn: int = 0) -> Samples:
    """Points around the centers of their classes; `turn` gives classes the centers of others."""
    places = CENTERS[(labels + turn) % 3]
    return places + random.standard_normal(places.shape), labels


class ExchangeOfSmall(SimulatedExchange):
    """Remembers the rounds in which the first client sends something to another."""

    def __init__(self, bank: Bank, participants: int) -> None:
        super().__init__(bank, participants)
        self.rounds: list[int] = []

    def push(self, round_index: int, updates: Updates) -> None:
        if ((updates.contributors == 0) & (updates.owners != 0)).any():
            self.rounds.append(round_index)
        super().push(round_index, updates)


def client(
    name: str, size: int, *, classes: Sequence[int] = (0, 1, 2), turn: int = 0, seed: int = 0
) -> ClientData:
    """A client with so many samples of these classes to train on."""
    random = np.random.default_rng([seed, size, turn, *name.encode()])
    train = draw(random, random.choice(classes, size), turn)
    test = draw(random, random.choice(classes, TESTS), turn)
    return ClientData(name, train, test)


@pytest.fixture(scope="module")
def played(method: Build) -> Callable[..., tuple[Method, Evaluation]]:
    """Plays a method to its last round, as it is by default; returns it with its scores."""

    def play(
        clients: Sequence[ClientData], rounds: int = ROUNDS, name: str = "federico", **options: Any
    ) -> tuple[Method, Evaluation]:
        built = method(
            name, clients, hidden=(8,), rounds=rounds, dtype=torch.float32, batch_size=10, **options
        )
        for round_index in range(1, rounds + 1):
            built.round(round_index)
        return built, evaluate(built, built.predictors(rounds))

    return play


Play = Callable[..., tuple[Method, Evaluation]]


def assert_sensible(evaluation: Evaluation) -> None:
    """All is finite, and what is used is not clearly worse than what was trained alone."""
    assert evaluation.alone is not None
    for scores in (evaluation.used, evaluation.alone):
        assert np.isfinite(scores.figures["loss"]).all()
    used = evaluation.used.figures["accuracy"]
    alone = evaluation.alone.figures["accuracy"]
    for place, (mine, control) in enumerate(zip(used, alone, strict=True)):
        assert mine >= control - noticeable(control), (place, used, alone)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("rounds", [1, 2, ROUNDS])
def test_a_client_with_hardly_any_samples(played: Play, size: int, rounds: int) -> None:
    others = [client(f"c{i}", 40) for i in range(3)]
    _, evaluation = played([client("few", size), *others], rounds)
    assert_sensible(evaluation)


def test_a_client_with_five_samples_gains_from_others_like_it(played: Play) -> None:
    """One held-out sample makes soft trust, but with the prior on others it is enough."""
    used = []
    alone = []
    for seed in range(4):
        others = [client(f"c{i}", 60, seed=seed) for i in range(3)]
        _, evaluation = played([client("few", 5, seed=seed), *others])
        assert evaluation.alone is not None
        used.append(evaluation.used.figures["accuracy"][0])
        alone.append(evaluation.alone.figures["accuracy"][0])
    assert np.mean(used) > np.mean(alone) + 0.05


def test_a_client_with_a_single_sample_judges_nobody(played: Play) -> None:
    """It cannot hold anything out: all models count the same, and its prior is the gate."""
    others = [client(f"c{i}", 40) for i in range(3)]
    federico, evaluation = played([client("one", 1), *others])
    assert isinstance(federico, Federico)
    weights = federico.posteriors[0].weights
    assert weights == pytest.approx(np.full(len(weights), 1 / len(weights)))
    assert federico.private.together[0] == pytest.approx(federico.opt.together_prior)
    assert np.isfinite(evaluation.used.figures["loss"]).all()


def test_a_client_with_a_single_class(played: Play) -> None:
    """It always answers with its class: others cannot talk it into what it never sees."""
    others = [client(f"c{i}", 40) for i in range(3)]
    _, evaluation = played([client("one class", 40, classes=[1]), *others])
    assert_sensible(evaluation)
    assert evaluation.used.figures["accuracy"][0] > 0.95


def test_a_client_alone_in_its_distribution(played: Play) -> None:
    """What others call one class is another for it: it trusts itself alone."""
    others = [client(f"c{i}", 60) for i in range(4)]
    federico, evaluation = played([client("strange", 60, turn=1), *others])
    assert isinstance(federico, Federico)
    assert_sensible(evaluation)
    row = federico.posteriors[0]
    trust_in_itself = row.weights[row.peers == 0].sum()
    assert trust_in_itself > 0.9
    assert evaluation.used.figures["accuracy"][0] > 0.6


@pytest.mark.parametrize("rounds", [1, 2, 3, ROUNDS])
def test_two_clients(played: Play, rounds: int) -> None:
    federico, evaluation = played([client("a", 40), client("b", 40)], rounds)
    assert isinstance(federico, Federico)
    assert_sensible(evaluation)
    if rounds > 1:
        assert all(len(row.peers) == 2 for row in federico.posteriors.values()), "they have met"


@pytest.mark.parametrize("rounds", [1, ROUNDS])
def test_one_client_is_training_alone(played: Play, rounds: int) -> None:
    federico, evaluation = played([client("a", 40)], rounds)
    local, expected = played([client("a", 40)], rounds, "local")
    assert torch.equal(federico.bank.rows, local.bank.rows)
    assert evaluation.alone is None, "its own model is the one trained alone"
    for name, values in expected.used.figures.items():
        assert np.array_equal(evaluation.used.figures[name], values), name


def test_no_neighbors_is_training_alone(played: Play) -> None:
    clients = [client("a", 5), client("b", 40), client("c", 1)]
    federico, evaluation = played(clients, neighbors=0)
    local, expected = played(clients, name="local")
    assert torch.equal(federico.bank.rows, local.bank.rows)
    for name, values in expected.used.figures.items():
        assert np.array_equal(evaluation.used.figures[name], values, equal_nan=True), name


def test_the_private_model_is_training_alone(played: Play) -> None:
    """Whatever the others do: it is what Local trains from the same start, bit for bit."""
    clients = [client("a", 12), client("b", 40), client("c", 7)]
    federico, evaluation = played(clients)
    local, expected = played(clients, name="local")
    private = federico.bank.places(np.arange(3, 6))
    assert torch.equal(federico.bank.rows[private], local.bank.rows)
    assert evaluation.alone is not None
    assert np.array_equal(evaluation.alone.figures["accuracy"], expected.used.figures["accuracy"])


def test_very_unequal_sizes(played: Play) -> None:
    """From 5 samples to 5,000, all alike: the large ones lose nothing, the small ones gain."""
    sizes = [5, 10, 100, 1000, 5000]
    clients = [client(f"c{i}", size) for i, size in enumerate(sizes)]
    _, evaluation = played(clients, rounds=8)
    assert_sensible(evaluation)
    assert evaluation.alone is not None
    gain = evaluation.used.figures["accuracy"] - evaluation.alone.figures["accuracy"]
    assert gain[:2].mean() > 0
    assert abs(gain[-1]) < 0.03


def test_a_large_stranger_does_not_move_a_small_client(played: Play) -> None:
    """The sender's 2,000 samples do not count where the owner does not trust it."""
    small = [client(f"c{i}", 30, turn=1) for i in range(2)]
    _, evaluation = played([*small, client("large", 2000)])
    assert_sensible(evaluation)


def line(name: str, size: int, height: float, slope: float) -> ClientData:
    """Points on a line; without a slope all targets are the same."""
    random = np.random.default_rng([size, *name.encode()])

    def points(count: int) -> Samples:
        x = random.standard_normal((count, 2))
        noise = 0.1 * abs(slope) * random.standard_normal(count)
        return x, (height + slope * x[:, 0] + noise)[:, None]

    return ClientData(name, points(size), points(TESTS))


@pytest.mark.parametrize("rounds", [1, 2, 60])
def test_values_that_are_all_the_same(played: Play, rounds: int) -> None:
    """Targets of zero, as standardising leaves those that never change, beside lines."""
    clients = [line("constant", 20, 0.0, 0.0), line("a", 30, 0.0, 1.0), line("b", 30, 0.0, 1.0)]
    _, evaluation = played(clients, rounds)
    assert evaluation.alone is not None
    used = evaluation.used.figures["loss"]
    alone = evaluation.alone.figures["loss"]
    assert np.isfinite(used).all()
    assert np.isfinite(alone).all()
    # As mean squared errors of standardised targets: within a tenth of their variance.
    assert (used <= alone + 0.1).all(), (used, alone)


def test_values_of_a_client_with_one_sample(played: Play) -> None:
    clients = [line("one", 1, 0.0, 1.0), line("a", 30, 0.0, 1.0), line("b", 30, 0.0, 1.0)]
    _, evaluation = played(clients)
    assert np.isfinite(evaluation.used.figures["loss"]).all()


@pytest.mark.parametrize("size", [12, 20, 30])
def test_a_small_client_alone_in_its_distribution_is_what_it_is_alone(
    played: Play, size: int
) -> None:
    """It sends nothing while it judges, so all its samples tell that no other model is for it."""
    gains = []
    for seed in range(4):
        others = [client(f"c{i}", 60, seed=seed) for i in range(5)]
        federico, evaluation = played([client("strange", size, turn=1, seed=seed), *others])
        assert isinstance(federico, Federico)
        assert evaluation.alone is not None
        used = evaluation.used.figures["accuracy"][0]
        gains.append(used - evaluation.alone.figures["accuracy"][0])
    assert np.mean(gains) > -0.01, gains


@pytest.mark.parametrize("size", [12, 20])
def test_values_of_a_small_client_alone_in_its_distribution(played: Play, size: int) -> None:
    """The values of the others fall where its own rise."""
    worse = []
    for seed in range(4):
        others = [line(f"{seed}c{i}", 60, 0.0, -1.0) for i in range(5)]
        _, evaluation = played([line(f"{seed}strange", size, 0.0, 1.0), *others], rounds=40)
        assert evaluation.alone is not None
        used = evaluation.used.figures["loss"][0]
        worse.append(used - evaluation.alone.figures["loss"][0])
    assert np.mean(worse) < 0.02, worse


def test_a_small_client_shares_once_it_has_judged(played: Play) -> None:
    others = [client(f"c{i}", 60) for i in range(3)]
    federico, _ = played([client("small", 20), *others], connect=ExchangeOfSmall)
    assert isinstance(federico, Federico)
    assert isinstance(federico.exchange, ExchangeOfSmall)
    assert federico.exchange.rounds, "it collaborates in the end"
    assert min(federico.exchange.rounds) > federico.last_judging_round
