"""Clients with few samples, through `federico.run` with its defaults.

The default privacy floor is among these defaults: a client that trains on fewer than ten samples
shows its model to nobody.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import federico
from federico.types import Array, FloatArray

Kind = Literal["classes", "values"]
LABELS = ("a", "b", "c")
TESTS = 500
NOTICEABLE = {"classes": 0.03, "values": 0.05}
"""What a mean over clients and seeds may be below training alone by chance: accuracy, or R2."""


def draw(kind: Kind, count: int, random: np.random.Generator, turn: int = 0) -> tuple[Array, Array]:
    """Samples of a task; with `turn = 1` what is right for the others is wrong."""
    if kind == "values":
        x = random.standard_normal((count, 4)).astype(np.float32)
        y = (1 - 2 * turn) * (x[:, 0] - 0.5 * x[:, 1]) + 0.5 * random.standard_normal(count)
        return x, y.astype(np.float32)

    labels = random.integers(0, 3, count)
    centers = 2 * np.eye(4)[(labels + turn) % 3]
    x = centers + random.standard_normal((count, 4))
    return x.astype(np.float32), np.array(LABELS)[labels]


def gains(
    folder: Path, kind: Kind, train: Sequence[int], seed: int, *, first_is_alone: bool = False
) -> FloatArray:
    """How much better each client predicts with FedeRiCo than alone.

    The first one may be alone in its distribution.
    """
    random = np.random.default_rng([seed, *train])
    clients: dict[str, Any] = {}
    tests = {}
    for place, count in enumerate(train):
        of_all = round(count / 0.8)  # a fifth is for testing
        turn = int(first_is_alone and place == 0)
        clients[f"c{place}"] = draw(kind, of_all, random, turn)
        tests[f"c{place}"] = draw(kind, TESTS, random, turn)

    run = federico.run(
        clients=clients,
        model={"kind": "linear"},
        directory=folder,
        rounds=60,
        seeds=[seed],
        name=f"{kind}{seed}",
        label_names=LABELS if kind == "classes" else None,
    )
    gain = []
    for name, (x, y) in tests.items():
        scores = []
        for method in ("federico", "local"):
            predicted = np.asarray(run.client(name, method=method).predict(x))
            if kind == "classes":
                scores.append(np.mean(predicted == y))
            else:
                error = np.mean((predicted.ravel() - y) ** 2)
                scores.append(1 - error / np.var(y))
        gain.append(scores[0] - scores[1])
    return np.array(gain)


def mean_gain(folder: Path, kind: Kind, train: Sequence[int]) -> FloatArray:
    """The mean over a few seeds of each client's gain."""
    return np.mean([gains(folder, kind, train, seed) for seed in range(2)], axis=0)


@pytest.mark.parametrize("kind", ["classes", "values"])
@pytest.mark.parametrize("samples", [5, 8])
def test_where_nobody_shows_a_model_all_are_alone(tmp_path: Path, kind: Kind, samples: int) -> None:
    gain = gains(tmp_path, kind, [samples] * 6, seed=0)
    assert (gain == 0).all()


@pytest.mark.parametrize("kind", ["classes", "values"])
def test_clients_above_the_floor_gain_from_each_other(tmp_path: Path, kind: Kind) -> None:
    assert mean_gain(tmp_path, kind, [12] * 6).mean() > 0.02


@pytest.mark.parametrize("kind", ["classes", "values"])
def test_a_small_client_gains_from_large_ones_which_lose_nothing(
    tmp_path: Path, kind: Kind
) -> None:
    gain = mean_gain(tmp_path, kind, [8, 60, 60, 60])
    assert gain[0] > 0.02
    assert gain[1:].mean() > -NOTICEABLE[kind]


@pytest.mark.parametrize("kind", ["classes", "values"])
def test_of_two_clients_one_shows_nothing(tmp_path: Path, kind: Kind) -> None:
    assert (mean_gain(tmp_path, kind, [8, 60]) > -NOTICEABLE[kind]).all()


@pytest.mark.parametrize("kind", ["classes", "values"])
def test_a_small_client_alone_in_its_distribution_is_no_worse_than_alone(
    tmp_path: Path, kind: Kind
) -> None:
    """Others were trained on none of its samples, so all of these tell that others are no help."""
    for seed in range(2):
        gain = gains(tmp_path, kind, [8, 60, 60, 60], seed, first_is_alone=True)
        assert gain[0] > -NOTICEABLE[kind]
