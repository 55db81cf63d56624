"""Keeping the personal models of the round that is best on samples set aside for that."""

from pathlib import Path

import numpy as np
import pytest
from torch import nn

import federico
from federico.experiment.best_round import read_best
from federico.types import Array

Clients = dict[str, tuple[Array, Array]]
ROUNDS = 30


def wide() -> nn.Module:
    return nn.Sequential(nn.Linear(10, 100), nn.ReLU(), nn.Linear(100, 2))


@pytest.fixture
def clients() -> Clients:
    """Clients with few samples, a third of whose labels are wrong: training overfits soon."""
    random = np.random.default_rng(3)
    made: Clients = {}
    for name in ("a", "b", "c"):
        x = random.normal(size=(60, 10)).astype(np.float32)
        y = (x[:, 0] > 0) ^ (random.random(60) < 0.3)
        made[name] = (x, y.astype(np.int64))
    return made


def run(
    clients: Clients, folder: Path, *, rounds: int = ROUNDS, keep_best: float = 0.2
) -> federico.Run:
    return federico.run(
        clients=clients,
        model=wide,
        directory=folder,
        rounds=rounds,
        methods=["local", "federico"],
        training={"keep_best": keep_best, "batch_size": 10},
    )


def kept(done: federico.Run, clients: Clients, method: str) -> Array:
    return done.client("a", method=method).probabilities(clients["a"][0])


@pytest.mark.parametrize("method", ["local", "federico"])
def test_the_models_of_the_best_round_are_kept(
    clients: Clients, tmp_path: Path, method: str
) -> None:
    whole = run(clients, tmp_path / "whole")
    best = read_best(whole.path / f"{method}-0")
    assert best is not None
    assert best.round < ROUNDS

    # Whoever stops at that round has the same models as the last ones.
    short = run(clients, tmp_path / "short", rounds=best.round)
    if method == "local":  # FedeRiCo's judging depends on how many rounds there will be
        np.testing.assert_array_equal(kept(whole, clients, method), kept(short, clients, method))


def test_a_resumed_run_keeps_the_same(clients: Clients, tmp_path: Path) -> None:
    whole = run(clients, tmp_path / "whole")
    run(clients, tmp_path / "resumed", rounds=12)
    resumed = run(clients, tmp_path / "resumed")
    np.testing.assert_array_equal(kept(resumed, clients, "local"), kept(whole, clients, "local"))
    assert read_best(resumed.path / "local-0") == read_best(whole.path / "local-0")


def test_nothing_is_set_aside_unless_asked_for(clients: Clients, tmp_path: Path) -> None:
    done = run(clients, tmp_path, rounds=2, keep_best=0.0)
    assert read_best(done.path / "local-0") is None
