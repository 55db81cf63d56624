"""A method that goes on from its saved state is the method that never stopped, bit for bit."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from federico.experiment.evaluation import evaluate
from federico.learning.client_data import ClientData
from federico.methods import METHODS
from federico.methods.federico import Federico
from federico.methods.method import Method, Round

Clients = Callable[..., list[ClientData]]
Build = Callable[..., Method]
Play = Callable[..., list[Round]]

SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {name: (name, {}) for name in METHODS} | {
    "fresh": ("federico", {"optimizer_state": "fresh"}),
    "gradient": ("federico", {"m_step": "gradient"}),
    "literal": ("federico", {"preset": "literal"}),
    "paper": ("federico", {"preset": "paper"}),
    "paper, gradient": ("federico", {"preset": "paper", "m_step": "gradient"}),
    "accumulated": (
        "federico",
        {"preset": "paper", "tracking": "accumulated", "epsilon": 1.0},
    ),
    "debias": ("federico", {"preset": "paper", "debias": True}),
    "no private model": ("federico", {"private_model": False}),
    "cautious": ("federico", {"strangers": "cautious", "coin": "per_neighbor"}),
    "forgetful": ("federico", {"w_min": 0.2}),
    "moves are weighed by direction": ("federico", {"accept": "cosine"}),
    "median": ("federico", {"accept": "median"}),
    "splitting": ("clustered", {"eps1": 9.0, "eps2": 0.0, "min_round": 1}),
}


def observed(method: Method, played: list[Round], last: int) -> list[list[float]]:
    """Everything a run would show for these rounds, as plain numbers."""
    mixtures = method.predictors(last)
    evaluation = evaluate(method, mixtures)
    scores = [evaluation.used, evaluation.alone, evaluation.together]
    rows = [neighbors for one in played for neighbors in one.neighbors]
    rows += [row.weights for one in played for row in one.posteriors]
    rows += [one.together for one in played if one.together is not None]
    rows += [mixtures.weights, mixtures.visits.owners]
    rows += [each.figures["loss"] for each in scores if each is not None]
    return [row.tolist() for row in rows]


def same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether all values are the same; NaN stands for what is not known yet."""
    return np.array_equal(one.numpy(), other.numpy(), equal_nan=one.is_floating_point())


def assert_resumes(build: Callable[[], Method], play: Play, stop: int, rounds: int = 5) -> None:
    whole, stopped, resumed = build(), build(), build()
    last = play(whole, rounds)[stop:]
    play(stopped, stop)
    resumed.restore({key: value.clone() for key, value in stopped.state().items()})
    assert observed(resumed, [], stop) == observed(stopped, [], stop), "before any further round"
    shown = observed(resumed, play(resumed, rounds - stop, first=stop + 1), rounds)
    assert shown == observed(whole, last, rounds)
    expected = whole.state()
    assert resumed.state().keys() == expected.keys()
    for key, value in resumed.state().items():
        assert same(value, expected[key]), key


@pytest.mark.parametrize("stop", [1, 3])
@pytest.mark.parametrize("name", SETTINGS)
def test_every_method_resumes(
    method: Build, blobs: Clients, play: Play, name: str, stop: int
) -> None:
    kind, options = SETTINGS[name]
    shape = {"hidden": (6,), "dtype": torch.float32}
    shape |= {"rounds": 5}  # FedeRiCo ends judging models after the second
    assert_resumes(lambda: method(kind, blobs((7, 4, 5, 1, 6)), **shape, **options), play, stop)


@pytest.mark.parametrize("name", METHODS)
def test_statistics_and_their_counters_resume(
    method: Build, blobs: Clients, play: Play, name: str, batch_norm_net: type[nn.Module]
) -> None:
    def build() -> Method:
        sizes = (8, 10, 12, 8)  # even, also without what FedFomo holds out
        return method(
            name, blobs(sizes), model=lambda: batch_norm_net(None), batch_size=2, rounds=5
        )

    assert_resumes(build, play, 2)


@pytest.mark.parametrize("name", METHODS)
def test_a_state_before_the_first_round_is_a_start(
    method: Build, blobs: Clients, play: Play, name: str
) -> None:
    assert_resumes(lambda: method(name, blobs((4, 4, 4, 4))), play, 0, 2)


def test_restoring_forgets_what_came_after(method: Build, blobs: Clients, play: Play) -> None:
    federico = method("federico", blobs((7, 4, 5, 6)))
    play(federico, 2)
    saved = {key: value.clone() for key, value in federico.state().items()}
    first = observed(federico, play(federico, 3, first=3), 5)
    federico.restore(saved)
    assert observed(federico, play(federico, 3, first=3), 5) == first
    assert np.isfinite(first[-1]).all()


@pytest.mark.parametrize("stop", range(7))
def test_federico_resumes_before_in_and_after_the_round_that_makes_trust_final(
    method: Build, blobs: Clients, play: Play, stop: int
) -> None:
    """With six rounds models are judged in three, and once more at the start of the fourth."""

    def build() -> Method:
        return method(
            "federico", blobs((12, 9, 15, 1, 11)), hidden=(6,), dtype=torch.float32, rounds=6
        )

    judging = build()
    assert isinstance(judging, Federico)
    play(judging, 3)
    assert judging.evidence.is_judging
    play(judging, 1, first=4)
    assert not judging.evidence.is_judging
    assert_resumes(build, play, stop, rounds=6)
