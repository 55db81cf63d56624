"""What hostile members send and what owners make of it, beside ByzFL's.

ByzFL's attackers add so many standard deviations to the mean where ours subtract them, and it
divides by one less than the number of deltas.
"""

import importlib
import sys
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch

from federico.algorithm.acceptance import rest_to_own, trimmed_mean, within_reach
from federico.algorithm.aggregation import shares
from federico.attacks.hostile_updates import HOSTILE_DELTAS, Opportunity
from federico.attacks.options import AttackKind
from federico.rng import stream
from federico.types import FloatArray

COUNT = 5
HONEST: FloatArray = stream(0, "against byzfl").standard_normal((COUNT, 7))


@pytest.fixture(scope="module")
def byzfl() -> SimpleNamespace:
    """ByzFL's attacks and rules, without its benchmark, which is all that needs torchvision."""
    spec = find_spec("byzfl")
    if spec is None or spec.submodule_search_locations is None:
        pytest.skip("ByzFL is not installed; `make setup` does that")

    # In place of the package itself, whose first lines import the benchmark.
    package = ModuleType("byzfl")
    package.__path__ = list(spec.submodule_search_locations)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "byzfl", package)
        attacks = importlib.import_module("byzfl.attacks")
        aggregators = importlib.import_module("byzfl.aggregators")
    return SimpleNamespace(**{**vars(attacks), **vars(aggregators)})


def sent(kind: AttackKind, strength: float = 1.0) -> FloatArray:
    deltas = torch.from_numpy(HONEST)
    chance = Opportunity(
        model=torch.zeros(7, dtype=torch.float64),
        own_delta=deltas[0],
        honest_deltas=deltas,
        mimicked=deltas[1],
        computed=deltas.mean(0),
        replacement=deltas[0],
        strength=strength,
        rng=stream(0, "test"),
    )
    numbers: FloatArray = HOSTILE_DELTAS[kind](chance).numpy()
    return numbers


def test_the_honest_mean_less_some_deviations(byzfl: SimpleNamespace) -> None:
    tau = -1.5 * np.sqrt((COUNT - 1) / COUNT)
    np.testing.assert_allclose(sent("alie", 1.5), byzfl.ALittleIsEnough(float(tau))(HONEST))


def test_the_honest_mean_backwards(byzfl: SimpleNamespace) -> None:
    theirs = byzfl.InnerProductManipulation(0.5)(HONEST)
    np.testing.assert_allclose(sent("ipm", 0.5), theirs)


def test_the_own_mean_backwards(byzfl: SimpleNamespace) -> None:
    np.testing.assert_allclose(sent("sign-flip"), byzfl.SignFlipping()(HONEST))


def test_the_update_of_another(byzfl: SimpleNamespace) -> None:
    np.testing.assert_allclose(sent("mimic"), byzfl.Mimic(1)(HONEST))


@pytest.mark.parametrize("count", [3, 5])
def test_the_median(byzfl: SimpleNamespace, count: int) -> None:
    ours = trimmed_mean(HONEST[:count], np.ones(count), 0.5)
    np.testing.assert_allclose(ours, byzfl.Median()(HONEST[:count]))


@pytest.mark.parametrize("left_out", [1, 2])
def test_the_trimmed_mean(byzfl: SimpleNamespace, left_out: int) -> None:
    ours = trimmed_mean(HONEST, np.ones(COUNT), left_out / COUNT)
    np.testing.assert_allclose(ours, byzfl.TrMean(left_out)(HONEST))


@pytest.mark.parametrize("reach", [0.1, 0.5, 1.0, 10.0])
def test_clipping_around_the_owners_own_delta(byzfl: SimpleNamespace, reach: float) -> None:
    """Self-centred clipping is one step of centred clipping that starts at the own update."""
    own = HONEST[0]
    length = float(np.linalg.norm(own))
    distances = np.linalg.norm(HONEST - own, axis=1)
    kept = within_reach(distances, np.full(COUNT, length), reach)
    owners = np.zeros(COUNT, dtype=np.int64)
    contributors = np.arange(COUNT)
    left = rest_to_own(owners, contributors, np.ones(COUNT), kept)
    ours = shares(owners, contributors, left) @ HONEST

    theirs = byzfl.CenteredClipping(L=1, tau=reach * length)
    theirs.m = own.copy()
    with np.errstate(divide="ignore"):  # the own update is at no distance
        np.testing.assert_allclose(ours, theirs(HONEST))
