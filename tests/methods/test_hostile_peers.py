"""Two of eight peers are hostile: the others lose hardly more than if these two were not there."""

from functools import cache

import numpy as np
import pytest

from federico.algorithm import standing
from federico.experiment.build import Setup, prepare
from federico.experiment.config import validate
from tests.support.hostile_peers import (
    Attack,
    broken_model,
    disguised_echo,
    echo,
    play_apart,
    play_beside,
    random_model,
)

MEMBERS = (0, 1)
HONEST = slice(2, 8)
MOST_LOST = 0.02

TRICKS = {
    "turned round, ten times as long": Attack("good-model-bad-moves"),
    "turned round": Attack("good-model-bad-moves", 1.0, coefficient=60.0),
    "trained on own data, turned round": Attack(coefficient=60.0, trains_all=True),
    "noise": Attack("noise"),
    "a little is enough": Attack("alie", 1.5),
    "random models": Attack(serve=random_model),
    "random models, turned round": Attack("good-model-bad-moves", serve=random_model),
    "broken models, turned round": Attack("good-model-bad-moves", serve=broken_model),
    "sleeping until trust is final": Attack("good-model-bad-moves", first_round=14),
    "broken models once trust is final": Attack(serve=broken_model, first_round=14),
}
"""All hostile peers train an honest model of their own, and serve it unless they serve another."""
ECHOES = {
    "turned round, ten times as long": Attack("good-model-bad-moves", serve=echo),
    "turned round": Attack("good-model-bad-moves", 1.0, coefficient=60.0, serve=echo),
    "noise": Attack("noise", serve=echo),
    "a little is enough": Attack("alie", 1.5, serve=echo),
    "disguised, turned round": Attack(
        "good-model-bad-moves", 1.0, coefficient=60.0, serve=disguised_echo
    ),
    "disguised, unlearning within reach": Attack(
        coefficient=60.0, unlearns=1.45, serve=disguised_echo
    ),
}
"""They serve everybody its own model, which is worth to it what its own is."""


def setup(seed: int, rounds: int = 30, **federico: object) -> Setup:
    """The settings of experiments/digits.toml."""
    tables = {
        "name": "digits",
        "methods": ["federico"],
        "seeds": [seed],
        "rounds": rounds,
        "data": {"kind": "digits", "noise": 0.5},
        "partition": {"kind": "label-groups", "clients": 8, "groups": 3},
        "split": {"test_fraction": 0.5, "max_train": 60},
        "model": {"kind": "mlp", "hidden": [64]},
        "training": {"batch_size": 10, "optimizer": {"kind": "adam", "learning_rate": 0.01}},
        "federico": federico,
        "system": {"threads": 1},
    }
    return prepare(validate(tables), seed)


def honest_accuracy(attack: Attack, seed: int, rounds: int = 30, **federico: object) -> float:
    """What honest peers reach beside hostile ones, on average."""
    evaluation = play_beside(setup(seed, rounds, **federico), MEMBERS, attack)
    return float(evaluation.used.figures["accuracy"][HONEST].mean())


def deceived_accuracy(attack: Attack, seed: int, rounds: int = 30) -> float:
    """The same where a hostile peer serves each reader another model."""
    evaluations = play_apart(setup(seed, rounds), MEMBERS, attack)
    by_peer = [evaluation.used.figures["accuracy"][0] for evaluation in evaluations]
    return float(np.mean(by_peer[HONEST]))


@cache
def without_them(seed: int, rounds: int = 30) -> float:
    return honest_accuracy(Attack(absent=True), seed, rounds)


ROUNDS = 15


@pytest.mark.parametrize(
    "trick", ["turned round, ten times as long", "noise", "random models, turned round"]
)
def test_hostile_peers_do_hardly_more_harm_than_absent_ones(trick: str) -> None:
    """One run of few rounds, which is noisier than all of them at length."""
    reached = honest_accuracy(TRICKS[trick], 0, ROUNDS)
    assert reached > without_them(0, ROUNDS) - 2 * MOST_LOST


def test_who_unlearns_what_its_good_model_knows_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No update of it is long, or leads backwards; only what they are worth tells."""
    attack = TRICKS["trained on own data, turned round"]
    found_out = honest_accuracy(attack, 1, ROUNDS)
    assert found_out > without_them(1, ROUNDS) - MOST_LOST

    monkeypatch.setattr(standing, "HARMFUL", np.inf)
    assert honest_accuracy(attack, 1, ROUNDS) < found_out - MOST_LOST


def test_who_echoes_a_peers_own_model_does_hardly_more_harm_than_who_is_absent() -> None:
    attack = ECHOES["turned round, ten times as long"]
    assert deceived_accuracy(attack, 0, ROUNDS) > without_them(0, ROUNDS) - 2 * MOST_LOST


def test_nobody_trusts_who_disguises_its_own_model(caplog: pytest.LogCaptureFixture) -> None:
    """The same function in other numbers, which is worth to a reader what its own model is."""
    caplog.set_level("INFO", logger="federico.methods.echoes")
    attack = Attack("good-model-bad-moves", 1.0, coefficient=60.0, serve=disguised_echo)
    assert deceived_accuracy(attack, 0, ROUNDS) > without_them(0, ROUNDS) - MOST_LOST
    for reader in range(2, 8):
        for member in MEMBERS:
            assert f"the model of {member} is that of {reader} itself" in caplog.text


def test_under_the_papers_rule_they_do_harm() -> None:
    """The attacks above are attacks: the sender's word alone lets them through."""
    attack = TRICKS["turned round, ten times as long"]
    assert honest_accuracy(attack, 0, ROUNDS, preset="paper") < without_them(0, ROUNDS) - 0.2


def test_peers_apart_are_the_simulation_in_one_process() -> None:
    honest = Attack()
    assert deceived_accuracy(honest, 0, 6) == pytest.approx(honest_accuracy(honest, 0, 6), abs=1e-3)


SEEDS = range(5)


@pytest.mark.slow
@pytest.mark.parametrize("trick", TRICKS)
def test_no_trick_costs_more_than_two_points(trick: str) -> None:
    lost = [without_them(seed) - honest_accuracy(TRICKS[trick], seed) for seed in SEEDS]
    assert np.mean(lost) < MOST_LOST, lost


@pytest.mark.slow
@pytest.mark.parametrize("trick", ECHOES)
def test_no_trick_with_an_echo_costs_more_than_two_points(trick: str) -> None:
    lost = [without_them(seed) - deceived_accuracy(ECHOES[trick], seed) for seed in SEEDS]
    assert np.mean(lost) < MOST_LOST, lost
